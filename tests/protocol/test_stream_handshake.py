"""The stream protocol: handshake, limits before and after it, heartbeats, closing."""

import struct

import pytest

from leveret.broker.protocols.stream import codes
from leveret.broker.protocols.stream.commands import LEADER_LOOK_MS, LEADER_LOOKS
from leveret.broker.protocols.stream.connection import CLOSE_TIMEOUT_MS, REFUSAL_MS
from leveret.broker.protocols.stream.incoming import INITIAL_FRAME_BYTES_MAX
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.services.client_addresses import ClientAddress
from tests.protocol.stream_peer import StreamNode, frame, octets, pairs, string, strings


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def node(clock):
    async with StreamNode(clock) as node:
        yield node


def texts_of(fields):
    """The texts of a list, or of a list of pairs, one after the other."""
    found, at = [], 4
    while at < len(fields):
        size = int.from_bytes(fields[at : at + 2], "big")
        found.append(fields[at + 2 : at + 2 + size].decode())
        at += 2 + size
    return found


async def test_every_step(node):
    client = node.connect()
    own = await client.request(codes.PEER_PROPERTIES, pairs(product="test"))
    names = {"cluster_name", "copyright", "information", "platform", "product", "version"}
    assert set(texts_of(own.fields)[::2]) == names
    assert texts_of((await client.request(codes.SASL_HANDSHAKE)).fields) == ["PLAIN", "AMQPLAIN"]
    client.send(
        codes.SASL_AUTHENTICATE,
        struct.pack(">I", 3) + string("PLAIN") + octets(b"\0guest\0guest"),
    )
    answer, tune = await client.frames()
    assert (answer.code, tune.key) == (codes.OK, codes.TUNE)
    assert struct.unpack(">II", tune.body) == (1_048_576, 60)
    client.send(codes.TUNE | codes.RESPONSE, tune.body)
    opened = await client.request(codes.OPEN, string("/"))
    host = node.broker.config.node_name.partition("@")[2]
    assert texts_of(opened.fields) == ["advertised_host", host, "advertised_port", "5672"]
    assert await client.code(codes.CLOSE, b"\0\1" + string("bye")) == codes.OK
    assert client.socket.is_closed


async def test_handshake_in_single_bytes(node):
    client = node.connect()
    correlation = struct.pack(">I", 1)
    steps = (
        frame(codes.PEER_PROPERTIES, correlation + pairs()),
        frame(codes.SASL_HANDSHAKE, correlation),
        frame(codes.SASL_AUTHENTICATE, correlation + string("PLAIN") + octets(b"\0guest\0guest")),
        frame(codes.TUNE | codes.RESPONSE, struct.pack(">II", 0, 0)),
        frame(codes.OPEN, correlation + string("/")),
    )
    for byte in b"".join(steps):
        client.send_bytes(bytes([byte]))
    assert (await client.frames())[-1].code == codes.OK
    assert client.connection.is_open


@pytest.mark.parametrize(
    "commands",
    [
        [(codes.CREATE, string("early") + pairs())],
        [(codes.SASL_HANDSHAKE, b""), (codes.SASL_AUTHENTICATE, string("PLAIN") + octets(b""))],
        [(codes.PEER_PROPERTIES, pairs()), (codes.OPEN, string("/"))],
        [(99, b"")],
        [(codes.PEER_PROPERTIES, b"\0\0\0\1")],
    ],
)
async def test_what_is_not_expected_closes_the_socket_without_a_word(node, commands):
    client = node.connect()
    for key, body in commands:
        client.send(key, struct.pack(">I", 1) + body)
    keys = [one.key & ~codes.RESPONSE for one in await client.frames()]
    assert keys == [key for key, _ in commands[:-1]]
    assert client.socket.is_closed


async def test_a_wrong_password_is_answered_late(node, clock):
    client = node.connect()
    await client.request(codes.PEER_PROPERTIES, pairs())
    await client.request(codes.SASL_HANDSHAKE)
    body = struct.pack(">I", 7) + string("PLAIN") + octets(b"\0guest\0wrong")
    client.send(codes.SASL_AUTHENTICATE, body)
    assert await client.frames() == []
    clock.advance(REFUSAL_MS / 1000)
    (answer,) = await client.frames()
    assert (answer.code, client.socket.is_closed) == (codes.AUTHENTICATION_FAILURE, True)


@pytest.mark.parametrize(
    ("mechanism", "response", "code"),
    [
        ("PLAIN", b"guest", codes.SASL_ERROR),
        ("AMQPLAIN", b"\xff", codes.SASL_ERROR),
        ("NONSENSE", b"", codes.SASL_MECHANISM_NOT_SUPPORTED),
        ("EXTERNAL", b"", codes.SASL_MECHANISM_NOT_SUPPORTED),
    ],
)
async def test_other_refusals_come_at_once(node, mechanism, response, code):
    client = node.connect()
    await client.request(codes.PEER_PROPERTIES, pairs())
    await client.request(codes.SASL_HANDSHAKE)
    body = string(mechanism) + octets(response)
    assert await client.code(codes.SASL_AUTHENTICATE, body) == code
    assert client.socket.is_closed


async def test_a_vhost_that_does_not_exist(node):
    client = node.connect()
    await client.log_in()
    client.send(codes.TUNE | codes.RESPONSE, struct.pack(">II", 0, 0))
    assert await client.code(codes.OPEN, string("none")) == codes.VHOST_ACCESS_FAILURE
    assert client.socket.is_closed


async def test_a_client_that_does_not_log_in_is_dropped(node, clock):
    client = node.connect()
    clock.advance(node.broker.config.handshake_timeout_ms / 1000)
    assert client.socket.is_closed


async def test_frames_are_small_before_the_login(node):
    client = node.connect()
    client.send_bytes(struct.pack(">I", INITIAL_FRAME_BYTES_MAX + 1))
    assert client.socket.is_closed
    opened = await node.client(frame_max=4096)
    opened.send_bytes(struct.pack(">I", INITIAL_FRAME_BYTES_MAX + 1))
    assert not opened.socket.is_closed
    opened.send_bytes(bytes(INITIAL_FRAME_BYTES_MAX + 1))
    assert [one.key for one in await opened.frames()] == [codes.CLOSE]


async def test_a_frame_above_the_offered_size_closes_the_connection(node):
    client = await node.client()
    client.send_bytes(struct.pack(">I", 1_048_577))
    (close,) = await client.frames()
    assert close.key == codes.CLOSE
    assert close.body == struct.pack(">IH", 1, codes.FRAME_TOO_LARGE) + string("frame too large")


@pytest.mark.parametrize(
    ("key", "body", "version"),
    [
        (99, b"", 1),
        (codes.OPEN, string("/"), 1),
        (codes.CREATE, b"\0\x14abc", 1),
        (codes.QUERY_OFFSET, string("x"), 1),
        (codes.QUERY_OFFSET, string("x") + string("y"), 2),
        (codes.PUBLISH, b"", 2),
        (codes.PUBLISH, b"", 3),
    ],
)
async def test_frames_that_are_wrong_close_the_connection(node, clock, key, body, version):
    client = await node.client()
    client.send(key, struct.pack(">I", 5) + body, version)
    (close,) = await client.frames()
    assert close.body == struct.pack(">IH", 1, codes.UNKNOWN_FRAME) + string("unknown frame")
    assert not client.socket.is_closed
    client.send(codes.CREATE, struct.pack(">I", 6) + string("late") + pairs())
    assert await client.frames() == []
    clock.advance(CLOSE_TIMEOUT_MS / 1000)
    assert client.socket.is_closed


async def test_the_client_answers_close(node):
    client = await node.client()
    client.send(99)
    (close,) = await client.frames()
    assert close.key == codes.CLOSE
    client.send(codes.CLOSE | codes.RESPONSE, struct.pack(">IH", 1, codes.OK))
    assert client.socket.is_closed


async def test_a_forced_close_has_no_frame_because_clients_would_not_connect_again(node, caplog):
    client = await node.client()
    client.connection.force_close("an operator wants it")
    assert client.socket.is_closed
    assert await client.frames() == []
    assert "an operator wants it" in caplog.text


async def test_heartbeats_in_both_directions(node, clock):
    client = await node.client(heartbeat=2)
    clock.advance(2_000 / 1000)
    assert codes.HEARTBEAT in [one.key for one in await client.frames()]
    for _ in range(4):
        client.send(codes.HEARTBEAT)
        clock.advance(2_000 / 1000)
    assert not client.socket.is_closed
    clock.advance(6_000 / 1000)
    assert client.socket.is_closed


async def test_a_new_secret_of_the_same_user(node):
    client = await node.client()
    good = string("PLAIN") + octets(b"\0guest\0guest")
    assert await client.code(codes.SASL_AUTHENTICATE, good) == codes.OK
    other = string("PLAIN") + octets(b"\0other\0guest")
    assert await client.code(codes.SASL_AUTHENTICATE, other) == codes.SASL_ERROR
    assert client.socket.is_closed


async def test_versions_of_commands(node):
    client = await node.client()
    offered = struct.pack(">iHHH", 1, codes.DELIVER, 1, 2)
    answer = await client.request(codes.EXCHANGE_COMMAND_VERSIONS, offered)
    found = list(struct.iter_unpack(">HHH", answer.fields[4:]))
    assert (codes.PUBLISH, 1, 2) in found
    assert client.connection.incoming.subscriptions.deliver_version == 2


async def test_metadata(node):
    client = await node.client()
    await client.create("s")
    node.broker.services.client_addresses.of_others["other@b"] = ClientAddress("b.example", 5560)
    node.queue("s").node_names = (node.broker.config.node_name, "other@b", "unknown@c")
    client.send(codes.METADATA, struct.pack(">I", 9) + strings("s", "none"))
    (answer,) = await client.frames()
    host = node.broker.config.node_name.partition("@")[2]
    brokers = struct.pack(">IH", 2, 0) + string(host) + struct.pack(">I", 5672)
    brokers += struct.pack(">H", 1) + string("b.example") + struct.pack(">I", 5560)
    found = string("s") + struct.pack(">HHIH", codes.OK, 0, 1, 1)
    found += string("none") + struct.pack(">HHI", codes.STREAM_DOES_NOT_EXIST, 65_535, 0)
    assert answer.body == struct.pack(">I", 9) + brokers + struct.pack(">I", 2) + found


async def test_metadata_of_a_stream_that_gets_a_leader_soon():
    clock = VirtualClock()
    async with StreamNode(clock) as node:
        client = await node.client()
        await client.create("s")
        stream = node.queue("s")
        stream.node_names = ("",)
        client.send(codes.METADATA, struct.pack(">I", 9) + strings("s"))
        assert await client.frames() == []
        stream.node_names = (node.broker.config.node_name,)
        clock.advance(LEADER_LOOK_MS / 1000)
        (answer,) = await client.frames()
        assert answer.body.endswith(string("s") + struct.pack(">HHI", codes.OK, 0, 0))


async def test_metadata_of_a_stream_that_stays_without_a_leader():
    clock = VirtualClock()
    async with StreamNode(clock) as node:
        client = await node.client()
        await client.create("s")
        node.queue("s").node_names = ("",)
        client.send(codes.METADATA, struct.pack(">I", 9) + strings("s"))
        for _ in range(LEADER_LOOKS):
            assert await client.frames() == []
            clock.advance(LEADER_LOOK_MS / 1000)
        (answer,) = await client.frames()
        code = struct.pack(">HHI", codes.STREAM_NOT_AVAILABLE, 65_535, 0)
        assert answer.body.endswith(string("s") + code)

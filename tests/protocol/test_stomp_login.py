"""STOMP: logging in, limits before it, heart-beats, and the end of a connection."""

import pytest

from leveret.broker.config import StompSettings
from leveret.broker.protocols.stomp.incoming import INITIAL_FRAME_BYTES_MAX
from leveret.broker.protocols.stomp.login import REFUSAL_MS
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.protocol.stomp_peer import StompNode, frame


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def node(clock):
    async with StompNode(clock) as node:
        yield node


async def test_the_highest_common_version_is_taken(node):
    credentials = {"login": "guest", "passcode": "guest"}
    for offered, version in {"1.0,1.1,1.2": "1.2", "1.1": "1.1", "1.0,2.7": "1.0"}.items():
        client = node.connect()
        (answer,) = await client.call("STOMP", accept_version=offered, **credentials)
        assert answer.command == "CONNECTED"
        assert answer.headers["version"] == version
        assert client.connection.protocol == f"STOMP {version}"


async def test_no_common_version(node):
    client = node.connect()
    (answer,) = await client.call("CONNECT", accept_version="3.0")
    assert answer.headers["message"] == "Version mismatch"
    assert answer.body == "Supported versions are 1.0,1.1,1.2\n"
    assert not client.is_closed


async def test_each_byte_in_a_read_of_its_own(node):
    client = node.connect()
    for byte in frame("CONNECT", accept_version="1.1"):
        client.send_bytes(bytes([byte]))
    (answer,) = await client.frames()
    assert answer.headers["version"] == "1.1"


async def test_without_login_the_default_user_is_taken(node):
    client = node.connect()
    assert (await client.call("CONNECT"))[0].command == "CONNECTED"
    assert client.connection.user.name == "guest"


async def test_a_wrong_password_is_answered_late_and_may_be_corrected(node, clock):
    client = node.connect()
    assert await client.call("CONNECT", login="guest", passcode="wrong") == []
    clock.advance(REFUSAL_MS / 1000)
    (answer,) = await client.frames()
    assert (answer.headers["message"], answer.body) == (
        "Bad CONNECT", "Access refused for user 'guest'",
    )  # fmt: skip
    await client.connect()


async def test_a_vhost_that_does_not_exist(node):
    (answer,) = await node.connect().call("CONNECT", host="nowhere")
    assert answer.body == "Virtual host 'nowhere' access denied"


async def test_a_frame_before_connect(node):
    client = node.connect()
    (answer,) = await client.call("SEND", "m", destination="/queue/q")
    assert answer.headers["message"] == "Illegal command"
    assert not client.is_closed


async def test_implicit_connect():
    async with StompNode(stomp=StompSettings(implicit_connect=True)) as node:
        client = node.connect()
        client.send("SEND", "m", destination="/queue/q", receipt="r")
        assert [one.command for one in await client.frames()] == ["RECEIPT"]
        assert node.queues() == ["q"]


async def test_a_second_connect_closes_the_socket(node):
    client = await node.client()
    assert await client.call("CONNECT") == []
    assert client.is_closed


async def test_a_client_that_does_not_log_in(node, clock):
    client = node.connect()
    clock.advance(9)
    assert not client.is_closed
    clock.advance(1)
    assert client.is_closed


async def test_a_large_frame_before_login(node):
    client = node.connect()
    client.send_bytes(f"CONNECT\ncontent-length:{INITIAL_FRAME_BYTES_MAX}\n\n".encode())
    assert client.is_closed


async def test_a_frame_above_the_limit_is_not_kept():
    async with StompNode(stomp=StompSettings(max_frame_size_bytes=5_000)) as node:
        client = await node.client()
        client.send_bytes(b"SEND\ndestination:/queue/q\ncontent-length:5000\n\n")
        assert client.is_closed
        client = await node.client()
        client.send_bytes(b"SEND\ndestination:/queue/q\n\n")
        for _ in range(5):
            assert not client.is_closed
            client.send_bytes(1_000 * b"x")
        assert client.is_closed


async def test_malformed_frames_close_the_socket(node):
    for data in (
        b"SEND\nno colon\n\n\0",
        b"SEND\na:\\t\n\n\0",
        b"SEND\ncontent-length:x\n\n\0",
        b"SEND\ncontent-length:1\n\nab\0",
    ):
        client = await node.client()
        client.send_bytes(data)
        assert client.is_closed


async def test_heart_beats_of_both_sides(node, clock):
    client = node.connect()
    (answer,) = await client.call("CONNECT", accept_version="1.2", heart_beat="5000,10")
    assert answer.headers["heart-beat"] == "1000,5000"
    clock.advance(1)
    await client.frames()
    for _ in range(3):
        clock.advance(4)
        client.send_bytes(b"\n")
        await client.frames()
    assert not client.is_closed
    clock.advance(30)
    assert client.is_closed


async def test_the_server_beats(node, clock):
    client = await node.client(heart_beat="0,2000")
    written = client.connection.bytes_out
    for _ in range(4):
        clock.advance(1)
        await client.frames()
    assert client.connection.bytes_out >= written + 2
    assert not client.is_closed


async def test_disconnect_waits_for_receipts(node):
    client = await node.client()
    node.broker.services.holds_confirms = True
    client.send("SEND", "m", destination="/queue/q", receipt="1")
    assert await client.call("DISCONNECT", receipt="2") == []
    node.broker.services.holds_confirms = False
    client.connection.output.flush_later()
    assert [one.headers["receipt-id"] for one in await client.frames()] == ["1", "2"]
    assert client.is_closed


async def test_nothing_is_left_of_a_closed_connection(node):
    client = await node.client(heart_beat="1000,1000")
    await client.subscribe("/topic/a")
    await client.subscribe("/queue/b", "1", ack="client")
    await client.call("SEND", "m", destination="/queue/b", reply_to="/temp-queue/x")
    assert len(node.queues()) == 3
    client.disconnect()
    await client.frames()
    assert node.queues() == ["b"]
    assert not node.broker.connections


async def test_bytes_of_a_client_that_are_no_text_are_logged_as_text(node, caplog):
    client = node.connect()
    client.send_bytes(b"CONNECT\nhost:\xff\n\n\0")
    client.send_bytes(b"CONNECT\n\n\0")
    client.send_bytes(b"DANCE\xff\n\n\0")
    client.send_bytes(b"SEND\ndestination:/\xff/x\n\n\0")
    for _ in range(3):
        await client.written()
    assert len(caplog.messages) >= 3
    assert all(message.encode() for message in caplog.messages)

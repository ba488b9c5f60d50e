"""Frames of the stream protocol that are cut, altered or out of place: closed with a code.

Whatever a client sends, the connection goes on, or is closed by the protocol's rules; no error of
the broker's own is behind it.
"""

import asyncio
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.broker.protocols.ending import CLOSING
from leveret.broker.protocols.stream import codes
from tests.protocol.socketless import TURNS
from tests.protocol.stream_peer import (
    StreamNode,
    frame,
    octets,
    pairs,
    published,
    string,
    strings,
)

OF_REQUEST = struct.pack(">I", 7)
BATCH = struct.pack(">BIQBHII", 1, 1, 3, 0x90, 2, 9, 4) + b"gzip"
FILTERED = struct.pack(">BIQ", 1, 1, 4) + string("red") + octets(b"m")
COMMANDS = [
    (codes.DECLARE_PUBLISHER, OF_REQUEST + b"\2" + string("ref") + string("s"), 1),
    (codes.PUBLISH, published(1, (1, "a"), (2, "b")), 1),
    (codes.PUBLISH, BATCH, 1),
    (codes.PUBLISH, FILTERED, 2),
    (codes.QUERY_PUBLISHER_SEQUENCE, OF_REQUEST + string("ref") + string("s"), 1),
    (codes.DELETE_PUBLISHER, OF_REQUEST + b"\2", 1),
    (
        codes.SUBSCRIBE,
        OF_REQUEST + b"\1" + string("s") + b"\0\1\0\1" + pairs(name="n", filter="x"),
        1,
    ),
    (codes.CREDIT, b"\1\0\1", 1),
    (codes.STORE_OFFSET, string("ref") + string("s") + bytes(8), 1),
    (codes.QUERY_OFFSET, OF_REQUEST + string("ref") + string("s"), 1),
    (codes.UNSUBSCRIBE, OF_REQUEST + b"\1", 1),
    (codes.METADATA, OF_REQUEST + strings("s", "t"), 1),
    (codes.ROUTE, OF_REQUEST + string("k") + string("s"), 1),
    (codes.PARTITIONS, OF_REQUEST + string("s"), 1),
    (codes.CONSUMER_UPDATE | codes.RESPONSE, OF_REQUEST + b"\0\1" + b"\0\4" + bytes(8), 1),
    (codes.EXCHANGE_COMMAND_VERSIONS, OF_REQUEST + b"\0\0\0\1\0\2\0\1\0\2", 1),
    (codes.STREAM_STATS, OF_REQUEST + string("s"), 1),
    (codes.RESOLVE_OFFSET, OF_REQUEST + string("s") + b"\0\1" + pairs(), 1),
    (codes.CREATE, OF_REQUEST + string("s") + pairs(), 1),
    (codes.CREATE_SUPER_STREAM, OF_REQUEST + string("x") + strings() + strings() + pairs(), 1),
    (codes.HEARTBEAT, b"", 1),
]


class Opened:
    """A node with a stream, and connections to it that are opened without a handshake."""

    def __init__(self, node):
        self._node = node

    def client(self):
        client = self._node.connect()
        services = self._node.broker.services
        user = services.access.own_identity("guest", ("administrator",))
        client.connection.open(user, services.vhosts["/"])
        return client


@pytest.fixture
async def opened():
    async with StreamNode() as node:
        first = await node.client()
        assert await first.create("s") == codes.OK
        yield Opened(node)


async def closed_with(client, data):
    """What the connection is closed with after these bytes; None if it stays open."""
    client.connection.incoming.limit(1_000)
    client.send_bytes(data)
    for _ in range(TURNS):
        await asyncio.sleep(0)
    if client.connection.is_open:
        return None
    assert client.connection.state is CLOSING
    (close,) = [one for one in await client.frames() if one.key == codes.CLOSE]
    return close.code


@pytest.mark.parametrize(("key", "body", "version"), COMMANDS)
async def test_each_command_cut_at_each_byte(opened, caplog, key, body, version):
    for size in range(len(body)):
        client = opened.client()
        code = await closed_with(client, frame(key, body[:size], version))
        assert code in (None, codes.UNKNOWN_FRAME)
        client.disconnect()
    assert "has failed" not in caplog.text


@pytest.mark.parametrize(("key", "body", "version"), COMMANDS)
async def test_a_frame_that_lies_about_its_size(opened, key, body, version):
    data = frame(key, body, version)
    for lie in (-1, 1, 900):
        client = opened.client()
        size = max(0, len(data) - 4 + lie)
        code = await closed_with(client, struct.pack(">I", size) + data[4:] + bytes(2_000))
        assert code in (None, codes.UNKNOWN_FRAME, codes.FRAME_TOO_LARGE)
        client.disconnect()


async def test_versions_and_keys_that_do_not_exist(opened):
    for key in range(40):
        for version in (0, 3, 65_535):
            client = opened.client()
            code = await closed_with(client, frame(key, OF_REQUEST + bytes(20), version))
            assert code == codes.UNKNOWN_FRAME
            client.disconnect()


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    place=st.integers(0, len(COMMANDS) - 1),
    changes=st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), max_size=6),
    rest=st.binary(max_size=30),
)
async def test_altered_bytes(opened, caplog, place, changes, rest):
    key, body, version = COMMANDS[place]
    data = bytearray(frame(key, body, version) + rest)
    for at, value in changes:
        data[at % len(data)] = value
    client = opened.client()
    client.connection.incoming.limit(1_000)
    client.send_bytes(bytes(data))
    for _ in range(TURNS):
        await asyncio.sleep(0)
    client.disconnect()
    assert "has failed" not in caplog.text

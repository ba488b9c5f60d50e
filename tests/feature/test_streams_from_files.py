"""Streams that are read from their files: large chunks go to the socket without being read."""

import asyncio
import struct
from contextlib import AsyncExitStack, asynccontextmanager
from inspect import signature

import pytest
import uvloop

from leveret.broker.protocols.stream import codes
from leveret.storage.disk.disk import Disk
from leveret.storage.stream_log.stream_log import RECENT_BYTES
from tests.jepsen.stream_protocol import StreamClient
from tests.patience import PATIENCE_SECONDS
from tests.protocol.stream_peer import octets, pairs, string
from tests.stored_broker import StoredBroker

FIRST = b"\0\1"
SUBSCRIBING = bytes([1]) + string("s") + FIRST + struct.pack(">H", 30_000) + pairs()
BODY = bytes(range(256)) * 40
BODY_BYTES = len(BODY)
CHUNKS = 3 * RECENT_BYTES // (10 * len(BODY))


class CountingDisk(Disk):
    """sent: bytes of files that went to sockets."""

    sent = 0

    def send(self, descriptor, path, socket, offset, size):
        sent = super().send(descriptor, path, socket, offset, size)
        self.sent += sent
        return sent


class Node:
    """A broker, and what it sends from files."""

    def __init__(self, directory):
        self.disk = CountingDisk()
        self.broker = StoredBroker(directory, disk=self.disk, streams=True)

    def client(self):
        return StreamClient("127.0.0.1", self.broker.stream_port)

    @property
    def log(self):
        return self.broker.broker.services.vhosts["/"].queues["s"].readers.own_log.log


@asynccontextmanager
async def filled(directory, size=BODY_BYTES, chunks=CHUNKS, **arguments):
    """A node with a stream whose chunks have ten messages, and are mostly in files only."""
    node = Node(directory)
    async with node.broker, node.client() as client:
        table = {name.replace("_", "-"): value for name, value in arguments.items()}
        await client.request(codes.CREATE, string("s") + pairs(**table))
        await client.declare_publisher("s", "")
        for number in range(chunks):
            entries = b"".join(
                struct.pack(">Q", place) + octets(body) for place, body in messages(number, size)
            )
            client.send(codes.PUBLISH, struct.pack(">BI", 1, 10) + entries)
            await client.confirmed(PATIENCE_SECONDS)
        yield node


def messages(number, size=BODY_BYTES):
    """The messages of a chunk."""
    return [(10 * number + one, b"%09d" % (10 * number + one) + BODY[9:size]) for one in range(10)]


async def read(client, count, first=0):
    """Read chunks, and compare all messages and checksums."""
    for number in range(first, first + count):
        offset, entries = await client.chunk()
        assert list(enumerate(entries, offset)) == messages(number)


async def test_large_chunks_are_sent_from_their_files(tmp_path):
    async with filled(tmp_path) as node:
        for _ in range(2):
            before = node.disk.sent
            async with node.client() as client:
                await client.subscribe("s", FIRST)
                await read(client, CHUNKS)
            assert node.disk.sent - before >= RECENT_BYTES


async def test_clients_that_read_the_same_at_once_get_all_of_it(tmp_path):
    async with filled(tmp_path) as node, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(node.client()) for _ in range(10)]
        for client in clients:
            client.send(codes.SUBSCRIBE, struct.pack(">I", 9) + SUBSCRIBING)
        await asyncio.gather(*[read(client, CHUNKS) for client in clients])


async def test_small_chunks_are_not(tmp_path):
    async with filled(tmp_path, size=100, chunks=20) as node, node.client() as client:
        node.log._recent.clear()
        await client.subscribe("s", FIRST)
        assert [(await client.chunk())[0] for _ in range(20)] == list(range(0, 200, 10))
        assert node.disk.sent == 0


async def test_a_client_that_reads_nothing_holds_up_nobody(tmp_path):
    async with filled(tmp_path) as node, node.client() as slow, node.client() as client:
        await slow.request(codes.SUBSCRIBE, SUBSCRIBING)
        await client.subscribe("s", FIRST)
        await read(client, CHUNKS)
        await read(slow, CHUNKS)


async def test_a_removed_segment_is_sent_to_its_end(tmp_path):
    async with filled(tmp_path, stream_max_segment_size_bytes="1000000") as node:
        log = node.log
        async with node.client() as client:
            await client.subscribe("s", FIRST)
            await read(client, 1)
            path = log.segments[0].paths.segment
            log.remove_segments(len(log.segments) - 1)
            path.unlink()
            await read(client, 1, first=1)


async def test_a_client_that_goes_away_leaves_no_file_open(tmp_path):
    async with filled(tmp_path) as node:
        async with node.client() as client:
            await client.subscribe("s", FIRST)
            await read(client, 1)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while node.disk._kept_open:
                await asyncio.sleep(0.001)


CHECKS = [value for name, value in list(globals().items()) if name.startswith("test_")]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_on_uvloop(request, check):
    arguments = {name: request.getfixturevalue(name) for name in signature(check).parameters}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(check(**arguments))

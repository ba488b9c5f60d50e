"""The output of a stream client on a real socket: bytes and parts of files, in order."""

import asyncio
import socket
from contextlib import asynccontextmanager
from inspect import signature

import pytest
import uvloop

from leveret.broker.net.socket_output import OUTPUT_BYTES_MAX
from leveret.broker.protocols.stream.output import StreamOutput
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.disk.file_parts import FilePart, open_kept
from leveret.storage.disk.file_reads import FileReads
from tests.patience import PATIENCE_SECONDS
from tests.unit.broker.net.fakes import FakeTurns
from tests.unit.storage.fakes import ManualWorker

DATA = bytes(range(256)) * 8192


class Protocol(asyncio.Protocol):
    """What the connection does for its output."""

    def __init__(self, output):
        self._output = output
        self.closed = asyncio.Event()

    def pause_writing(self):
        self._output.pause()

    def resume_writing(self):
        self._output.resume()

    def connection_lost(self, exc):
        self._output.disconnect()
        self.closed.set()


class Rig:
    """An output, the client's socket, and a file of `DATA`."""

    def __init__(self, directory):
        self.path = directory / "file"
        self.path.write_bytes(DATA)
        self.loop = asyncio.get_running_loop()
        self.disk, self.worker = Disk(), ManualWorker()
        self.reads = FileReads(self.disk)
        self.output = StreamOutput(FakeTurns(), VirtualClock())
        self.caught_up, self.errors = 0, []

    async def connect(self):
        own, self.client = socket.socketpair()
        self.client.setblocking(False)
        self.transport, self.protocol = await self.loop.connect_accepted_socket(
            lambda: Protocol(self.output), own
        )
        self.output.caught_up = self._catch_up
        self.output.failed = self.errors.append
        self.output.connect(self.transport)

    def _catch_up(self):
        self.caught_up += 1

    def part(self, offset, size):
        return FilePart(open_kept(self.path, self.disk, self.reads), offset, size)

    async def received(self, count):
        data = b""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(data) < count:
                more = await self.loop.sock_recv(self.client, 1 << 20)
                if not more:
                    break
                data += more
        return data


@asynccontextmanager
async def connected(directory):
    rig = Rig(directory)
    await rig.connect()
    try:
        yield rig
    finally:
        rig.transport.abort()
        await rig.protocol.closed.wait()
        rig.client.close()


async def test_bytes_and_parts_are_sent_in_order(tmp_path):
    async with connected(tmp_path) as rig:
        output = rig.output
        output.write(b"before ")
        output.write(b"the part ")
        output.send_part(rig.part(100, 50))
        output.write(b" after")
        output.flush()
        output.write(b" and later")
        output.send_part(rig.part(0, 3))
        output.flush()
        output.write(b" the end")
        output.flush()
        expected = b"before the part " + DATA[100:150] + b" after and later\0\1\2 the end"
        assert await rig.received(len(expected)) == expected
        assert output.bytes_out == len(expected)


async def test_parts_wait_for_the_transport(tmp_path):
    async with connected(tmp_path) as rig:
        output = rig.output
        output.write(DATA)
        output.flush()
        output.send_part(rig.part(0, 1000))
        output.flush()
        assert output.is_congested
        assert await rig.received(len(DATA) + 1000) == DATA + DATA[:1000]
        while output.is_congested:
            await asyncio.sleep(0)


async def test_a_client_that_does_not_read_makes_it_congested(tmp_path):
    async with connected(tmp_path) as rig:
        output, count = rig.output, 0
        while not output.is_congested:
            output.write(b"%09d" % count)
            output.send_part(rig.part(0, len(DATA)))
            output.flush()
            count += 1
        rig.caught_up = 0
        data = await rig.received(count * (9 + len(DATA)))
        assert data == b"".join(b"%09d" % number + DATA for number in range(count))
        while not rig.caught_up:
            await asyncio.sleep(0)
        assert not output.is_congested


async def test_a_part_that_is_not_in_memory_is_awaited(tmp_path):
    async with connected(tmp_path) as rig:
        rig.reads.worker = rig.worker
        rig.disk.is_cached = lambda *_: False
        output = rig.output
        output.write(b"head")
        output.send_part(rig.part(0, 10))
        output.write(b"tail")
        output.flush()
        assert output.is_congested
        assert await rig.received(4) == b"head"
        rig.worker.work()
        assert await rig.received(14) == DATA[:10] + b"tail"
        assert not output.is_congested


async def test_more_than_a_round_can_have_is_over(tmp_path):
    async with connected(tmp_path) as rig:
        rig.output.send_part(rig.part(0, OUTPUT_BYTES_MAX + 1))
        assert rig.output.is_congested
        rig.output.flush()
        assert len(await rig.received(OUTPUT_BYTES_MAX + 1)) == OUTPUT_BYTES_MAX + 1


async def test_the_socket_is_closed_after_all_is_sent(tmp_path):
    async with connected(tmp_path) as rig:
        for _ in range(5):
            rig.output.send_part(rig.part(0, len(DATA)))
        rig.output.flush()
        rig.output.when_sent(rig.transport.close)
        assert len(await rig.received(6 * len(DATA))) == 5 * len(DATA)


async def test_a_file_that_fails_is_reported(tmp_path):
    async with connected(tmp_path) as rig:
        rig.output.send_part(rig.part(len(DATA), 10))
        rig.output.flush()
        (error,) = rig.errors
        assert isinstance(error, StoreError)


async def test_a_closed_socket_is_reported(tmp_path):
    async with connected(tmp_path) as rig:
        rig.client.close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (rig.errors or rig.protocol.closed.is_set()):
                rig.output.send_part(rig.part(0, 10))
                rig.output.flush()
                await asyncio.sleep(0)


async def test_what_is_not_sent_is_dropped_at_the_end(tmp_path):
    async with connected(tmp_path) as rig:
        for _ in range(5):
            rig.output.send_part(rig.part(0, len(DATA)))
        rig.output.flush()
        rig.transport.abort()
        await rig.protocol.closed.wait()
        assert rig.disk._kept_open == 0


CHECKS = [value for name, value in list(globals().items()) if name.startswith("test_")]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_on_uvloop(request, check):
    arguments = {name: request.getfixturevalue(name) for name in signature(check).parameters}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(check(**arguments))

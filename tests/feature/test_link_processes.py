"""Links between processes: one that is killed, one that is suspended, and one that starts again."""

import asyncio
import signal
import sys
from contextlib import asynccontextmanager

from leveret.broker.runtime.node_address import NodeAddress
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port
from tests.unit.cluster.links.fakes import COOKIE, LinkedNode, until

TICK_TIME_S = 1
B = "b@127.0.0.1"


class OtherProcess:
    """A node in another process, which sends everything back. It may be started several times."""

    def __init__(self, directory):
        self.directory = directory
        self.port = free_port()
        self._process = None
        cookie = directory / "the.cookie"
        cookie.write_bytes(COOKIE)
        cookie.chmod(0o600)

    async def start(self):
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.feature.linked_process", B, str(self.port),
            str(self.directory), str(TICK_TIME_S), stdin=-1, stdout=-1,
        )  # fmt: skip
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await self._process.stdout.readline() == b"listening\n"

    def signal(self, number):
        self._process.send_signal(number)

    async def kill(self):
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def two_processes(directory):
    """A node in this process that is linked to one in another process."""
    node, other = LinkedNode("a@127.0.0.1", tick_time_s=TICK_TIME_S), OtherProcess(directory)
    await other.start()
    await node.links.start()
    node.links.dial(NodeAddress(B, other.port))
    await until(lambda: B in node.service.up)
    try:
        yield node, other
    finally:
        await other.kill()
        await node.links.stop()


def kinds(node):
    return [call[0] for call in node.service.calls]


async def test_frames_go_to_another_process_and_back(tmp_path):
    payloads = [b"%d" % number * (number % 700) for number in range(2000)]
    async with two_processes(tmp_path) as (node, _):
        for payload in payloads:
            node.service.up[B].send(1, payload)
        await until(lambda: len(node.service.received_payloads) == len(payloads))
        assert node.service.received_payloads == payloads


async def test_a_killed_process_is_down_and_its_next_start_is_linked(tmp_path):
    async with two_processes(tmp_path) as (node, other):
        first = node.service.up[B].incarnation
        await other.kill()
        await until(lambda: kinds(node) == ["up", "down"])
        await other.start()
        await until(lambda: kinds(node) == ["up", "down", "up"])
        assert node.service.up[B].incarnation > first


async def test_a_suspended_process_is_down_after_the_tick_time_and_comes_back(tmp_path):
    async with two_processes(tmp_path) as (node, other):
        first = node.service.up[B].incarnation
        other.signal(signal.SIGSTOP)
        await until(lambda: kinds(node) == ["up", "down"])
        assert "net_ticktime" in node.service.calls[1][2]
        other.signal(signal.SIGCONT)
        await until(lambda: B in node.service.up)
        assert node.service.up[B].incarnation == first


async def test_what_a_suspended_process_does_not_take_waits_until_the_link_is_congested(tmp_path):
    async with two_processes(tmp_path) as (node, other):
        peer = node.service.up[B]
        other.signal(signal.SIGSTOP)
        while not peer.is_congested:
            peer.send(1, bytes(1_000_000))
        assert peer.unsent_octets > 128_000 * 1024
        await until(lambda: kinds(node) == ["up", "down"])
        assert peer.unsent_octets == 0
        other.signal(signal.SIGCONT)
        await until(lambda: B in node.service.up)

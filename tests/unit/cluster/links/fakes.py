"""Nodes of a test: links on the loopback interface, and a service that remembers its calls."""

import asyncio
import itertools
from contextlib import asynccontextmanager, suppress

from leveret.broker.runtime.loop_watch import LoopWatch
from leveret.broker.runtime.node_address import NodeAddress
from leveret.broker.runtime.system_clock import SystemClock
from leveret.cluster.links.addresses import AddressBook
from leveret.cluster.links.hello import NodeIdentity
from leveret.cluster.links.links import LinkOptions, Links
from tests.patience import until

COOKIE = b"a cookie that all nodes of a test share"
SERVICE = 1
_incarnations = itertools.count(1)


class Proxy:
    """Stands between two nodes: passes bytes on, swallows them, or does not take them."""

    def __init__(self, port):
        self._port = port
        self._server = None
        self._writers = []
        self.passed = bytearray()
        """What the dialling side has sent."""
        self.swallows = False
        self.may_read = asyncio.Event()
        self.may_read.set()

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader, writer):
        onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, onward_writer]
        await asyncio.gather(
            self._pass(reader, onward_writer, self.passed),
            self._pass(onward_reader, writer, bytearray()),
        )

    async def _pass(self, reader, writer, passed):
        with suppress(ConnectionError):
            while True:
                await self.may_read.wait()
                data = await reader.read(65_536)
                if not data:
                    break
                if not self.swallows:
                    passed += data
                    writer.write(data)
        if not self.swallows:
            writer.close()

    def close(self):
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()


class RecordingService:
    """A service that remembers what it was called with, in `calls`, and checks their order."""

    def __init__(self):
        self.calls = []
        self.up = {}
        self.received_payloads = []

    def peer_up(self, peer):
        assert peer.name not in self.up
        self.up[peer.name] = peer
        self.calls.append(("up", peer.name, peer.incarnation))

    def peer_down(self, peer, reason):
        assert self.up.pop(peer.name) is peer
        self.calls.append(("down", peer.name, reason))

    def received(self, peer, payload):
        assert self.up[peer.name] is peer
        self.received_payloads.append(payload)

    def drained(self, peer):
        self.calls.append(("drained", peer.name))


def system_clock():
    loop = asyncio.get_running_loop()
    return SystemClock(loop, LoopWatch(loop.call_later))


class LinkedNode:
    """The links of one node, with one service."""

    def __init__(
        self, name, *, directory=None, clock=None, cookie=COOKIE, identity=None, **options
    ):
        self.service = RecordingService()
        self.identity = NodeIdentity(name, next(_incarnations), **(identity or {}))
        self.links = Links(
            self.identity,
            LinkOptions(cookie, **options),
            AddressBook(directory),
            clock or system_clock(),
        )
        self.links.register(SERVICE, self.service)

    @property
    def name(self):
        return self.links.node

    @property
    def address(self):
        return NodeAddress(self.links.node, self.links.port)

    def dial(self, other):
        self.links.dial(other.address)

    def is_linked_to(self, other):
        return other.name in self.service.up

    def send(self, other, *pieces):
        self.service.up[other.name].send(SERVICE, *pieces)


@asynccontextmanager
async def nodes(*names, **options):
    """Started nodes, which are stopped in the end."""
    made = [LinkedNode(f"{name}@127.0.0.1", **options) for name in names]
    for one in made:
        await one.links.start()
    try:
        yield made
    finally:
        for one in made:
            await one.links.stop()
            assert one.service.up == {}


@asynccontextmanager
async def linked_by_proxy(one, other):
    """Two nodes whose link goes through a proxy: the first one has dialled."""
    proxy = Proxy(other.links.port)
    one.links.dial(NodeAddress(other.name, await proxy.start()))
    await linked(one, other)
    try:
        yield proxy
    finally:
        proxy.close()


async def linked(one, other):
    """Wait until two nodes are linked."""
    await until(lambda: one.is_linked_to(other) and other.is_linked_to(one))


async def check_a_stop_while_the_other_sends(one, other):
    """From now on the other node's frames are not read, and break nothing."""
    large = b"x" * 10_000_000
    await linked(one, other)
    one.send(other, large)
    stopping = asyncio.create_task(one.links.stop())
    while other.is_linked_to(one):
        if other.service.up[one.name].unsent_octets < 1_000_000:
            other.send(one, b"x" * 100_000)
        await asyncio.sleep(0)
    assert other.service.received_payloads == [large]
    assert other.service.calls[-1] == ("down", one.name, "it has stopped")
    await stopping
    assert one.service.calls[-1] == ("down", other.name, "this node stops")

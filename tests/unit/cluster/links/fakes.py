"""Nodes of a test: links on the loopback interface, and a service that remembers its calls."""

import asyncio
import itertools
from contextlib import asynccontextmanager

from leveret.broker.loop_watch import LoopWatch
from leveret.broker.system_clock import SystemClock
from leveret.cluster.links.addresses import AddressBook
from leveret.cluster.links.hello import Identity
from leveret.cluster.links.links import LinkOptions, Links
from leveret.cluster.links.node_names import NodeAddress
from tests.patience import PATIENCE_SECONDS

COOKIE = b"a cookie that all nodes of a test share"
SERVICE = 1
_incarnations = itertools.count(1)


async def until(condition):
    """Wait for a condition, turn by turn of the loop."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


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
        self.identity = Identity(name, next(_incarnations), **(identity or {}))
        self.links = Links(
            self.identity,
            LinkOptions(cookie, **options),
            AddressBook(directory),
            system_clock(),
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


async def linked(one, other):
    """Wait until two nodes are linked."""
    await until(lambda: one.is_linked_to(other) and other.is_linked_to(one))

"""What a conversion does with the nodes that hold the queue."""

import asyncio
import gc
from types import SimpleNamespace

from leveret.broker.queues.contract.placement import Placement
from leveret.cluster.quorum.conversion import early_copy
from leveret.cluster.quorum.conversion.conversion import Conversion
from leveret.cluster.quorum.conversion.node_holds import KEEP
from leveret.cluster.quorum.conversion.successors import QuorumSuccessor
from leveret.cluster.rpc.rpc import NotAnswered
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.quorum.conversion.converted_node import Node

QUEUE = SimpleNamespace(name="q", arguments={}, placement=Placement("a", 1))


class Nodes:
    """Another node holds the queue until it is lost."""

    def __init__(self):
        self.keeping = asyncio.get_running_loop().create_future()

    async def ask(self, node, topic, text, seconds_max, silence_seconds_max=0):
        return await self.keeping if topic == KEEP else b""


async def test_a_node_may_be_lost_after_the_conversion():
    """Nobody waits for its answer then: asyncio would log that its error was not looked at."""
    logged = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
    rpc = Nodes()
    parts = SimpleNamespace(rpc=rpc, others=("b",))
    direction = SimpleNamespace(queue=QUEUE, kind="quorum")
    conversion = Conversion(parts, SimpleNamespace(name="/"), direction, None)
    await conversion._hold_others(SimpleNamespace(active=None))
    rpc.keeping.set_exception(NotAnswered("the link was lost"))
    (keeping,) = conversion._keeping.values()
    await asyncio.wait([keeping])
    del rpc, parts, conversion, keeping
    gc.collect()
    assert logged == []


class UntilHeld(Conversion):
    """It ends where the queue would be held. left: how many messages were not copied then."""

    left = None

    async def _declare_successor(self):
        return self._direction.node.successor

    async def _finish(self, copying, successor):
        self.left = self._direction.messages.end - copying.copied_to


class Mirrored:
    """The direction of a queue to which clients publish while its mirroring ends."""

    kind, copies_early = "quorum", True
    successor = staticmethod(QuorumSuccessor)

    def __init__(self, node):
        self.node, self.queue, self.messages = node, node.queue, node.messages

    async def prepare(self):
        publish(self.queue, *[b"late"] * 50)

    def end(self):
        pass


def test_what_is_published_while_mirroring_ends_is_copied_before_the_queue_is_held(monkeypatch):
    monkeypatch.setattr(early_copy, "LEFT_MAX", 5)
    node = Node()
    publish(node.queue, *[b"early"] * 100)
    parts = SimpleNamespace(others=(), services=SimpleNamespace(clock=node.vhost.clock))
    conversion = UntilHeld(parts, SimpleNamespace(name="/"), Mirrored(node), None)
    node.run(conversion.run())
    assert conversion.left <= 5

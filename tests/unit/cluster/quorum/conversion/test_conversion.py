"""What a conversion does with the nodes that hold the queue."""

import asyncio
import gc
from types import SimpleNamespace

from leveret.broker.queues.contract.placement import Placement
from leveret.cluster.quorum.conversion.conversion import Conversion
from leveret.cluster.quorum.conversion.node_holds import KEEP
from leveret.cluster.rpc.rpc import NotAnswered

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

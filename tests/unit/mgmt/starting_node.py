"""A node that is starting, and waits for others as long as the test says."""

import asyncio

from leveret.broker.config import Config, Listener, TcpSettings
from leveret.broker.node.broker import Broker
from leveret.cluster.startup.start_as import StartAs
from leveret.mgmt.running_node import RunningNode
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

PATIENT = StartAs(is_patient=True)


class Waiting:
    """A membership whose start ends when the test says so. It holds a port, as links do."""

    def __init__(self, start_as):
        self.start_as = start_as
        self.may_start = asyncio.Event()
        self.has_begun = asyncio.Event()
        self.is_stopped = False

    def tell_static_shovels(self, names):
        pass

    def others_with_static_shovel(self, name):
        return frozenset()

    def declaration_log(self, services, local, sync):
        return local

    async def prepare(self, definitions, store):
        return definitions

    async def start(self, definitions):
        self.has_begun.set()
        await self.may_start.wait()

    async def stop(self):
        await asyncio.sleep(0)
        self.is_stopped = True


class Starting:
    """A node that starts, with the membership of each of its attempts."""

    def __init__(self):
        self.port = free_port()
        self.config = Config(tcp=TcpSettings(listeners=(Listener("127.0.0.1", self.port),)))
        self.runs = []
        self.node = RunningNode(self.config, self.make_broker, None)
        self.start = asyncio.ensure_future(self.node.start_broker())

    def make_broker(self):
        assert all(run.is_stopped for run in self.runs), "the run before has not ended"
        self.runs.append(Waiting(self.node.take_start_as()))
        return Broker(self.config, clustering=self.runs[-1])

    async def run(self, number):
        """The membership of an attempt, when it has begun."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.runs) <= number or not self.runs[number].has_begun.is_set():
                if self.start.done():
                    self.start.result()  # says why it has failed
                await asyncio.sleep(0)
        return self.runs[number]

    async def stop(self):
        self.start.cancel()
        await asyncio.wait((self.start,))
        await self.node.stop_broker()

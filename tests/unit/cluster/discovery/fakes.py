"""A backend, peers and a sleep without sockets and clocks, which record what is asked of them."""

import asyncio
from collections import deque

from leveret.broker.config.formation_settings import DISC
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.discovery.discovery import Discovered, DiscoveryError
from leveret.cluster.discovery.forming import JoinRefusedError


class FakeDiscovery:
    """Lists `nodes`; the first answers are taken from `answers`, where a text is a failure."""

    def __init__(self, *nodes, answers=(), lock=None, registration=None, node_type=DISC):
        self.name = "fake"
        self.nodes, self.answers = nodes, deque(answers)
        self.lock, self.registration = lock, registration
        self.node_type = node_type
        self.lists = 0

    async def list_nodes(self):
        self.lists += 1
        nodes = self.answers.popleft() if self.answers else self.nodes
        if isinstance(nodes, str):
            raise DiscoveryError(nodes)
        return Discovered(tuple(map(NodeAddress, nodes)), self.node_type)

    async def close(self):
        pass


class FakeLock:
    """Fails with the texts of `failures`, then is free. All calls are in `calls`."""

    renewal_interval_s = 5.0

    def __init__(self, calls, failures=()):
        self.calls, self.failures = calls, deque(failures)

    async def acquire(self):
        self.calls.append("acquire")
        if self.failures:
            raise DiscoveryError(self.failures.popleft())

    async def renew(self):
        self.calls.append("renew the lock")

    async def release(self):
        self.calls.append("release")


class FakeRegistration:
    """Records its calls; `failing` are those that fail."""

    renewal_interval_s = 10.0

    def __init__(self, calls, failing=()):
        self.calls, self.failing = calls, failing

    async def _call(self, name):
        self.calls.append(name)
        if name in self.failing:
            raise DiscoveryError("the server is down")

    async def register(self):
        await self._call("register")

    async def renew(self):
        await self._call("renew")

    async def unregister(self):
        await self._call("unregister")


class FakePeers:
    """Answers with `states`, in turn the last one for ever; joins all but those in `refusing`."""

    def __init__(self, *states, refusing=(), calls=None):
        self.states = deque(states or [{}])
        self.refusing = set(refusing)
        self.calls = [] if calls is None else calls

    async def ask(self, nodes):
        return self.states.popleft() if len(self.states) > 1 else self.states[0]

    async def join(self, node, node_type):
        self.calls.append(f"join {node} as {node_type}")
        if node.name in self.refusing:
            raise JoinRefusedError("the cookies differ")

    async def form(self):
        self.calls.append("form")


class SleepByHand:
    """Records how long was slept. A sleep ends at the next turn, or waits for `let_go`."""

    def __init__(self, *, is_held=False):
        self.slept = []
        self.is_held = is_held
        self._woken = asyncio.Event()

    async def __call__(self, seconds):
        self.slept.append(seconds)
        if not self.is_held:
            await asyncio.sleep(0)
            return
        await self._woken.wait()
        self._woken.clear()

    async def let_go(self):
        """Let the sleeper go on, and wait until it sleeps again."""
        before = len(self.slept)
        self._woken.set()
        while len(self.slept) == before:
            await asyncio.sleep(0)

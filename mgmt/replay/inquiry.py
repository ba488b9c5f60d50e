"""Queries the target broker: which exchanges exist, and how long its queues are.

Uses passive declarations only, one at a time on a channel of its own, so that any AMQP 0-9-1 broker
can answer.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pamqp import base, commands

from leveret.broker.moving.client.channel import ClientChannel
from leveret.mgmt.perf.connection import PerfChannelClosed, PerfConnection
from leveret.mgmt.replay.original import Waits
from leveret.mgmt.replay.wait_times import QUEUES_MAX

MEASURE_SECONDS = 0.25


@dataclass
class WatchedQueue:
    """A queue of the target. before, after: number of messages; None if it cannot be queried.

    problem: why not.
    """

    name: str
    before: int | None = None
    after: int | None = None
    consumers: int = 0
    problem: str = ""
    waits: Waits = field(default_factory=Waits)

    @property
    def is_draining(self) -> bool:
        """Consumers have not yet consumed all new messages."""
        return bool(self.consumers) and (self.after or 0) > (self.before or 0)


class Inquiry:
    """Queries the broker. queues: those watched. refusals: by exchange, the reason."""

    def __init__(self, connection: PerfConnection) -> None:
        self.queues: dict[str, WatchedQueue] = {}
        self.refusals: dict[str, str] = {}
        self._connection = connection
        self._channel: ClientChannel
        self._one_at_a_time = asyncio.Lock()

    async def open(self) -> None:
        """Open the channel. Raises PerfError."""
        self._channel = await self._connection.open_channel()

    async def is_there(self, exchange: str) -> bool:
        """Tell whether the exchange exists and can be declared passively."""
        if not exchange:
            return True
        if exchange not in self.refusals:
            declare = commands.Exchange.Declare
            answer = await self._ask(declare, exchange=exchange, passive=True)
            if not isinstance(answer, PerfChannelClosed):
                return True
            self.refusals[exchange] = str(answer)
        return False

    def is_new(self, queue: str) -> bool:
        """Tell whether the queue is not watched yet and can be."""
        return queue not in self.queues and len(self.queues) < QUEUES_MAX

    async def watch(self, name: str) -> None:
        """Query a queue from now on."""
        watched = self.queues[name] = WatchedQueue(name)
        await self._measure(watched)
        watched.before = watched.after
        # Messages that were there before do not count.
        watched.waits = Waits()
        watched.waits.measure(0, time.monotonic_ns() // 1_000)

    async def measure(self) -> None:
        """Query the length of each queue. Raises PerfError."""
        for watched in list(self.queues.values()):
            if not watched.problem:
                await self._measure(watched)

    async def measure_always(self, progress: Callable[[], object]) -> None:
        """Query the queues until cancelled."""
        while True:
            await asyncio.sleep(MEASURE_SECONDS)
            await self.measure()
            progress()

    async def settle(self, seconds_max: float) -> None:
        """Wait until consumers have consumed the new messages. Raises PerfError."""
        deadline = time.monotonic() + seconds_max
        await self.measure()
        while any(one.is_draining for one in self.queues.values()) and time.monotonic() < deadline:
            await asyncio.sleep(MEASURE_SECONDS)
            await self.measure()

    async def _measure(self, watched: WatchedQueue) -> None:
        answer = await self._ask(commands.Queue.Declare, queue=watched.name, passive=True)
        if isinstance(answer, PerfChannelClosed):
            watched.problem, watched.after = str(answer), None
        elif isinstance(answer, commands.Queue.DeclareOk):
            watched.after = answer.message_count or 0
            watched.consumers = max(watched.consumers, answer.consumer_count or 0)
            above = max(0, watched.after - (watched.before or 0))
            watched.waits.measure(above, time.monotonic_ns() // 1_000)

    async def _ask(
        self, method: type[base.Frame], **arguments: object
    ) -> base.Frame | PerfChannelClosed:
        """Return the answer, or the error if the broker closed the channel. Reopens the channel."""
        async with self._one_at_a_time:
            try:
                return await self._connection.call(self._channel, method, **arguments)
            except PerfChannelClosed as error:
                await self.open()
                return error

"""A consumer: one channel that receives messages, measures their latency, and acks them.

Deliveries that come together are processed at once. A rate or a processing time limits how many
messages are taken at once: the others wait, and nothing is read until then, so that the broker sees
a slow consumer. With --polling, messages are fetched with basic.get.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from pamqp import commands

from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.moving.client.channel import ClientChannel
from leveret.broker.moving.client.delivery_scanner import ClientDelivery
from leveret.mgmt.perf.connection import PerfConnection, PerfError
from leveret.mgmt.perf.deliveries import note_latencies
from leveret.mgmt.perf.histogram import LatencyHistogram
from leveret.mgmt.perf.messages import clock_of
from leveret.mgmt.perf.options import PerfOptions
from leveret.mgmt.perf.schedule import TICK_SECONDS_MIN, Pace, Schedule
from leveret.mgmt.perf.topology import declare_queue

RUN_MAX = 100_000
IDLE_SECONDS = 1.0
Settle = Callable[[int, bool], object]
"""Acks or nacks a message, or all up to it."""


class PerfConsumer:
    """One consuming channel.

    queues: the queues to consume from; an empty name for a server-named queue of its own. received:
    number of messages. received_at: time of the last one, monotonic clock. done: all expected
    messages were received.
    """

    def __init__(self, connection: PerfConnection, queues: list[str], options: PerfOptions) -> None:
        self.connection = connection
        self.received = 0
        self.received_at = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._channel: ClientChannel
        self._queues = queues
        self._options = options
        self._clock = clock_of(options)
        self._latencies = LatencyHistogram()
        self._pace = Pace(Schedule.of([], options.consumer_rate))
        self._work_us = Schedule.of(options.variable_latency, options.consumer_latency)
        self._waiting: deque[ClientDelivery] = deque()
        self._is_held = False
        self._acks: _Acks
        self._started_at = 0.0
        self._polling: asyncio.Task[object] | None = None
        self._consumes = False
        self._made_queues: list[str] = []

    async def open(self) -> None:
        """Open the channel, and declare the consumer's own queues. Raises PerfError."""
        call, options = self.connection.call, self._options
        channel = self._channel = await self.connection.open_channel()
        self.connection.require(channel)
        self._acks = _Acks(self.connection, channel, options)
        if options.qos:
            await call(channel, commands.Basic.Qos, prefetch_count=options.qos)
        if options.global_qos:
            await call(channel, commands.Basic.Qos, prefetch_count=options.global_qos, global_=True)
        if options.ctxsize:
            await call(channel, commands.Tx.Select)
        for place, name in enumerate(self._queues):
            if not name or options.exclusive:
                made = await declare_queue(self.connection, channel, name, options)
                self._queues[place] = made
                self._made_queues.append(made)
        channel.on_cancelled = self._cancelled

    async def start(self) -> None:
        """Start consuming. Raises PerfError."""
        if self.done.done():
            return
        self._started_at = self.received_at = time.monotonic()
        if self._options.polling:
            self._polling = self.connection.begin(self._poll())
            return
        self._consumes = True
        arguments = json_to_table(self._options.consumer_args)
        for queue in self._queues:
            await self.connection.consume(
                self._channel,
                queue,
                self.take,
                no_ack=self._options.autoack,
                arguments=arguments,
            )

    async def stop(self) -> None:
        """Settle received messages and stop consuming. Raises PerfError."""
        self._finish()
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait([self._polling])
        # Auto-delete queues are deleted with their last consumer, but these had none.
        for queue in [] if self._consumes else self._made_queues:
            await self.connection.call(self._channel, commands.Queue.Delete, queue=queue)

    def take_latencies(self) -> LatencyHistogram:
        """Return the latencies since the last call."""
        taken, self._latencies = self._latencies, LatencyHistogram()
        return taken

    async def end_when_idle(self) -> None:
        """End the consumer according to --exit-when. Raises PerfError."""
        is_idle = self._started_at and time.monotonic() - self.received_at > IDLE_SECONDS
        if not is_idle or self.done.done():
            return
        if self._options.exit_when == "idle" or self._polling or await self._is_empty():
            self._finish()

    async def _is_empty(self) -> bool:
        for queue in self._queues:
            found = await self.connection.call(
                self._channel, commands.Queue.Declare, queue=queue, passive=True
            )
            if isinstance(found, commands.Queue.DeclareOk) and found.message_count:
                return False
        return True

    def _finish(self) -> None:
        """Settle received messages; closing the channel requeues the others."""
        if self.done.done():
            return
        self.done.set_result(None)
        self._acks.settle_rest()
        if self._consumes:
            self.connection.begin(self._channel.close())

    # Received messages

    def take(self, deliveries: Sequence[ClientDelivery]) -> None:
        """Process messages, as many as may be taken now; the others later."""
        if self.done.done():
            return
        if self._is_held or self._waiting or len(deliveries) > self._room():
            self._waiting.extend(deliveries)
            self._take_waiting()
        else:
            self._process(deliveries)

    def _take_waiting(self) -> None:
        while self._waiting and not self._is_held and not self.done.done():
            count = min(self._room(), len(self._waiting))
            if count:
                self._process([self._waiting.popleft() for _ in range(count)])

    def _process(self, deliveries: Sequence[ClientDelivery]) -> None:
        note_latencies(deliveries, self._clock(), self._latencies)
        self._received(len(deliveries), deliveries[-1].tag)

    def _hold(self, wait_s: float) -> None:
        self._is_held = True
        self.connection.hold(wait_s, self._go_on)

    def _go_on(self) -> None:
        self._is_held = False
        self._take_waiting()

    def _cancelled(self, _tag: str) -> None:
        problem = f"the broker cancelled the consumer of '{self._queues[0]}'"
        self.connection.fail(PerfError(f"{problem}: was the queue deleted?"))

    def _room(self) -> int:
        """Return how many messages may be taken now; if none, pause the connection until then."""
        options, elapsed_s = self._options, time.monotonic() - self._started_at
        room = options.cmessages - self.received if options.cmessages else RUN_MAX
        if self._pace.is_limited:
            due = self._pace.due(elapsed_s) - self.received
            if due <= 0:
                self._hold(self._pace.tick_s(elapsed_s))
                return 0
            room = min(room, due)
        work_us = self._work_us.value_at(elapsed_s)
        if work_us:
            room = min(room, max(1, int(TICK_SECONDS_MIN * 1e6 / work_us)))
        return room

    def _received(self, count: int, tag: int) -> None:
        if self.done.done():
            return
        self.received += count
        self.received_at = time.monotonic()
        work_s = self._work_us.value_at(self.received_at - self._started_at) * count / 1e6
        if work_s:
            self._hold(work_s)
            asyncio.get_running_loop().call_later(work_s, self._acks.settle, tag)
            self._acks.expect(tag)
        else:
            self._acks.settle(tag)
        if self._options.cmessages and self.received >= self._options.cmessages:
            self._finish()

    async def _poll(self) -> None:
        while not self.done.done():
            for queue in self._queues:
                await self._until_due()
                if not await self._get(queue):
                    await asyncio.sleep(TICK_SECONDS_MIN)
                if self._options.polling_interval:
                    await asyncio.sleep(self._options.polling_interval / 1000)

    async def _until_due(self) -> None:
        """Wait until the rate allows another message."""
        while self._pace.is_limited:
            elapsed_s = time.monotonic() - self._started_at
            if self._pace.due(elapsed_s) > self.received:
                return
            await asyncio.sleep(self._pace.tick_s(elapsed_s))

    async def _get(self, queue: str) -> bool:
        """Fetch a message; False if the queue was empty."""
        found = await self._channel.get(queue, no_ack=self._options.autoack)
        if found is None:
            return False
        self._process((found,))
        return True


class _Acks:
    """Settles deliveries of a channel: singly or several at once, with or without transactions."""

    def __init__(
        self, connection: PerfConnection, channel: ClientChannel, options: PerfOptions
    ) -> None:
        self._connection = connection
        self._channel = channel
        self._is_wanted = not options.autoack
        self._every = max(1, options.multi_ack_every)
        self._commit_every = options.ctxsize
        self._settle: Settle = channel.ack
        if options.nack:
            self._settle = partial(channel.nack, requeue=options.requeue)
        self._settled = self._committed = self._last = 0

    def expect(self, tag: int) -> None:
        """Note that all messages up to this one were delivered; they are not settled yet."""
        self._last = max(self._last, tag)

    def settle(self, tag: int) -> None:
        """Settle all up to this message, or as many as complete a --multi-ack-every.

        Delivery tags are counted from 1, so they tell the number of messages.
        """
        self.expect(tag)
        if not self._is_wanted or tag <= self._settled:
            return
        if self._commit_every:
            self._settle_and_commit(tag)
        elif self._every == 1:
            settle = self._settle
            for one in range(self._settled + 1, tag + 1):
                settle(one, False)
            self._settled = tag
        else:
            self._settle_all(tag - tag % self._every)

    def settle_rest(self) -> None:
        """Settle all that was delivered."""
        if not self._is_wanted:
            return
        self._settle_all(self._last)
        if self._commit_every and self._committed < self._settled:
            self._commit()

    def _settle_and_commit(self, tag: int) -> None:
        """Commit a transaction after each --ctxsize messages."""
        for one in range(self._settled + 1, tag + 1):
            if one % self._every == 0:
                self._settle_all(one)
            if one % self._commit_every == 0:
                self._commit()

    def _settle_all(self, tag: int) -> None:
        if tag > self._settled:
            self._settle(tag, True)
            self._settled = tag

    def _commit(self) -> None:
        self._connection.begin(self._channel.call(commands.Tx.Commit))
        self._committed = self._settled

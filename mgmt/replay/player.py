"""The publishing side of a replay: a channel with confirms, on which messages are sent when due.

Due messages are written together. The number of unconfirmed messages and the data waiting in the
socket's buffer are limited. Sent messages are not kept.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from pamqp import commands

from leveret.broker.moving.client.channel import ClientChannel, ReturnedMessage
from leveret.mgmt.perf.confirms import PerfConfirms
from leveret.mgmt.perf.connection import PerfConnection, PerfError
from leveret.mgmt.perf.histogram import LatencyHistogram
from leveret.mgmt.replay.inquiry import Inquiry
from leveret.mgmt.replay.original import Tally
from leveret.mgmt.replay.source import Outgoing

OPEN_MAX = 2_000
"""Limit of unconfirmed messages."""
BUFFER_BYTES, BUFFER_MESSAGES = 64 * 1024, 100
CONFIRM_SECONDS_MAX = 60
PAUSE_SECONDS_MAX = 0.5


class Player:
    """Publishes messages.

    sent, sent_bytes, confirmed, nacked: totals. returned: unroutable messages by address. missing:
    messages not sent, by exchange that does not exist. late: how late messages were written, in
    microseconds; empty at unlimited speed. on_written: called with the number of the last message
    written and the time in ns.
    """

    def __init__(self, connection: PerfConnection, inquiry: Inquiry, speed: float) -> None:
        """Create a player. speed: relative to the trace; 0 is as fast as possible."""
        self.confirms = PerfConfirms()
        self.sent = self.sent_bytes = self.confirmed = self.nacked = 0
        self.returned = Tally()
        self.missing: dict[str, int] = {}
        self.late = LatencyHistogram()
        self.on_written: Callable[[int, int], object] | None = None
        self.started_at = self.ended_at = time.monotonic()
        self._connection = connection
        self._channel: ClientChannel
        self._inquiry = inquiry
        self._speed = speed
        self._first_us: int | None = None
        self._exchanges: set[str] = set()
        self._buffered_bytes = self._buffered = self._last_place = 0
        self._oldest_due = 0.0
        self._changed = asyncio.Event()

    async def open(self) -> None:
        """Open the channel. Raises PerfError."""
        channel = self._channel = await self._connection.open_channel()
        self._connection.require(channel)
        await self._connection.call(channel, commands.Confirm.Select)
        channel.on_confirmed = self._confirmed
        channel.on_returned = self._returned
        channel.on_writable = self._changed.set

    # Sending

    async def play(self, messages: Iterable[Outgoing], progress: Callable[[], object]) -> None:
        """Publish all messages, and wait until they are confirmed. Raises PerfError."""
        measuring = asyncio.create_task(self._inquiry.measure_always(progress))
        self.started_at = time.monotonic()
        try:
            await self._play(messages)
            await self._until(lambda: not self.confirms.open, CONFIRM_SECONDS_MAX)
        finally:
            self.ended_at = time.monotonic()
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)

    async def _play(self, messages: Iterable[Outgoing]) -> None:
        for message in messages:
            if message.exchange not in self._exchanges and not await self._is_known(message):
                continue
            for queue in message.queues:
                if self._inquiry.is_new(queue):
                    self._flush()
                    await self._inquiry.watch(queue)
            due = self._due(message.time_us)
            if due > time.monotonic():
                await self._until_due(due)
            self._put(message, due)
            if self._buffered_bytes >= BUFFER_BYTES or self._buffered >= BUFFER_MESSAGES:
                await self._make_room()
        self._flush()

    async def _is_known(self, message: Outgoing) -> bool:
        exchange = message.exchange
        self._flush()
        if await self._inquiry.is_there(exchange):
            self._exchanges.add(exchange)
            return True
        self.missing[exchange] = self.missing.get(exchange, 0) + 1
        return False

    def _due(self, time_us: int) -> float:
        """Return when a message is due (monotonic seconds); the first one now; 0 at unlimited
        speed.
        """
        if self._first_us is None:
            self._first_us, self.started_at = time_us, time.monotonic()
        if not self._speed:
            return 0
        return self.started_at + (time_us - self._first_us) / 1e6 / self._speed

    async def _until_due(self, due: float) -> None:
        self._flush()
        while (wait_s := due - time.monotonic()) > 0:
            self._check()
            await asyncio.sleep(min(wait_s, PAUSE_SECONDS_MAX))

    def _put(self, message: Outgoing, due: float) -> None:
        self._channel.publish(
            message.exchange, message.routing_key, message.properties, message.body, mandatory=True
        )
        if not self._buffered:
            self._oldest_due = due
        self._buffered += 1
        self._buffered_bytes += len(message.body)
        self._last_place = message.place

    async def _make_room(self) -> None:
        self._flush()
        # Let incoming confirms be processed.
        await asyncio.sleep(0)
        self._check()
        if not self._has_room():
            await self._until(self._has_room, 0)

    def _flush(self) -> None:
        """Count the messages that were published since the last call, before any is confirmed."""
        if not self._buffered:
            return
        now_ns = time.monotonic_ns()
        self.confirms.publish(self._buffered, now_ns)
        self.sent += self._buffered
        self.sent_bytes += self._buffered_bytes
        if self._speed:
            self.late.add(now_ns // 1_000 - int(self._oldest_due * 1e6), self._buffered)
        if self.on_written is not None:
            self.on_written(self._last_place, now_ns)
        self._buffered_bytes = self._buffered = 0

    def _has_room(self) -> bool:
        return self.confirms.open < OPEN_MAX and self._channel.is_writable

    async def _until(self, condition: Callable[[], bool], seconds_max: float) -> None:
        """Wait for a condition. seconds_max: 0 for no limit. Raises PerfError."""
        began = time.monotonic()
        while not condition():
            self._check()
            if seconds_max and time.monotonic() - began > seconds_max:
                raise PerfError(
                    f"{self.confirms.open} messages were not confirmed within {seconds_max} seconds"
                )
            self._changed.clear()
            # The end of the connection is noticed after a pause, at the latest.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), PAUSE_SECONDS_MAX)

    def _check(self) -> None:
        if self._connection.failure is not None:
            raise self._connection.failure

    # What the broker sends

    def _confirmed(self, tag: int, multiple: bool, is_ack: bool) -> None:
        settled = self.confirms.settle(tag, multiple=multiple, now_ns=time.monotonic_ns())
        if is_ack:
            self.confirmed += settled
        else:
            self.nacked += settled
        self._changed.set()

    def _returned(self, message: ReturnedMessage) -> None:
        self.returned.add(message.exchange, message.routing_key)
        self._changed.set()

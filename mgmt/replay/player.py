"""The publishing side of a replay: a channel with confirms, and one that asks about queues.

Messages are sent when they are due; what is not confirmed yet is limited, and so is what the
socket has not taken. Nothing of a message is kept after it is sent.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from pamqp import base, commands

from broker.amqp.content import body_frames, header_frame
from broker.amqp.frames import METHOD, encode_frame
from broker.amqp.methods import encode_method
from mgmt.perf.confirms import Confirms
from mgmt.perf.connection import ChannelClosed, Connection, PerfError
from mgmt.replay.original import QUEUES_MAX, Tally, Waits
from mgmt.replay.source import Outgoing

PUBLISHING, ASKING = 1, 2
"""Channels."""
OPEN_MAX = 2_000
"""Messages that are not confirmed."""
BUFFER_BYTES = 64 * 1024
MEASURE_SECONDS = 0.25
CONFIRM_SECONDS_MAX = 60
PAUSE_SECONDS_MAX = 0.5
_METHODS_MAX = 10_000


@dataclass
class Watched:
    """A queue of the target. before, after: its messages; None if it cannot be asked about.

    problem: why it cannot.
    """

    name: str
    before: int | None = None
    after: int | None = None
    consumers: int = 0
    problem: str = ""
    waits: Waits = field(default_factory=Waits)


class Player:
    """Publishes what it is given.

    sent, sent_bytes, confirmed, nacked: messages. returned: those that came back, by address.
    missing: messages that were not sent, by the exchange that is not there, with why.
    behind_s: how far it was behind its schedule at most.
    """

    def __init__(self, connection: Connection, speed: float) -> None:
        """speed: times faster than in the trace; 0: as fast as possible."""
        self.confirms = Confirms()
        self.sent = self.sent_bytes = self.confirmed = self.nacked = 0
        self.returned = Tally()
        self.missing: dict[str, int] = {}
        self.reasons: dict[str, str] = {}
        self.queues: dict[str, Watched] = {}
        self.behind_s = 0.0
        self.started_at = self.ended_at = time.monotonic()
        self._connection = connection
        self._speed = speed
        self._exchanges: set[str] = set()
        self._methods: dict[tuple[str, str], bytes] = {}
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._changed = asyncio.Event()
        self._asking = asyncio.Lock()

    async def open(self) -> None:
        """Open both channels. Raises PerfError."""
        await self._connection.call(PUBLISHING, commands.Channel.Open)
        await self._connection.call(PUBLISHING, commands.Confirm.Select)
        await self._connection.call(ASKING, commands.Channel.Open)
        self._connection.handlers[PUBLISHING] = self
        self._connection.on_writable.append(self._changed.set)

    # Sending

    async def play(self, messages: Iterable[Outgoing], progress: Callable[[], object]) -> None:
        """Publish all messages, and wait until they are confirmed. Raises PerfError."""
        measuring = asyncio.create_task(self._measure_always(progress))
        try:
            await self._play(messages)
            await self._until(lambda: not self.confirms.open, CONFIRM_SECONDS_MAX)
        finally:
            self.ended_at = time.monotonic()
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)

    async def _play(self, messages: Iterable[Outgoing]) -> None:
        first_us: int | None = None
        self.started_at = time.monotonic()
        for message in messages:
            if first_us is None:
                first_us, self.started_at = message.time_us, time.monotonic()
            if not await self._is_known(message.exchange):
                self.missing[message.exchange] = self.missing.get(message.exchange, 0) + 1
                continue
            for queue in message.queues:
                if queue not in self.queues and len(self.queues) < QUEUES_MAX:
                    await self._watch(queue)
            if self._speed:
                await self._until_due((message.time_us - first_us) / 1e6 / self._speed)
            await self._send(message)
        self._flush()

    async def _until_due(self, after_s: float) -> None:
        due = self.started_at + after_s
        if (wait_s := due - time.monotonic()) > 0:
            self._flush()
            while (wait_s := due - time.monotonic()) > 0:
                self._check()
                await asyncio.sleep(min(wait_s, PAUSE_SECONDS_MAX))
        self.behind_s = max(self.behind_s, time.monotonic() - due)

    async def _send(self, message: Outgoing) -> None:
        if self.confirms.open >= OPEN_MAX or not self._connection.is_writable:
            self._flush()
            await self._until(self._has_room, 0)
        frames = [
            self._method(message.exchange, message.routing_key),
            header_frame(PUBLISHING, message.properties, len(message.body)),
            *body_frames(PUBLISHING, message.body, self._connection.frame_bytes_max),
        ]
        self._buffer += frames
        self._buffered += sum(map(len, frames))
        self.confirms.publish(1, time.monotonic_ns())
        self.sent += 1
        self.sent_bytes += len(message.body)
        if self._buffered >= BUFFER_BYTES:
            self._flush()
            # What has come back meanwhile is taken.
            await asyncio.sleep(0)
            self._check()

    def _method(self, exchange: str, key: str) -> bytes:
        method = self._methods.get((exchange, key))
        if method is None:
            payload = encode_method(
                commands.Basic.Publish, exchange=exchange, routing_key=key, mandatory=True
            )
            if len(self._methods) >= _METHODS_MAX:
                self._methods.clear()
            method = self._methods[exchange, key] = encode_frame(METHOD, PUBLISHING, payload)
        return method

    def _flush(self) -> None:
        if self._buffer:
            self._connection.write(b"".join(self._buffer))
            self._buffer.clear()
            self._buffered = 0

    def _has_room(self) -> bool:
        return self.confirms.open < OPEN_MAX and self._connection.is_writable

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
            # The end of the connection is seen after a pause, at the latest.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), PAUSE_SECONDS_MAX)

    def _check(self) -> None:
        if self._connection.failure is not None:
            raise self._connection.failure

    # What comes back

    def take(self, data: bytes, start: int) -> int:
        """Leave all to `on_method`."""
        return start

    def on_method(self, method: base.Frame) -> None:
        """Confirms and returns."""
        now_ns = time.monotonic_ns()
        match method:
            case commands.Basic.Ack():
                self.confirmed += self.confirms.settle(
                    method.delivery_tag, multiple=method.multiple, now_ns=now_ns
                )
            case commands.Basic.Nack():
                self.nacked += self.confirms.settle(
                    method.delivery_tag, multiple=method.multiple, now_ns=now_ns
                )
            case commands.Basic.Return():
                self.returned.add(method.exchange or "", method.routing_key or "")
        self._changed.set()

    def on_content(self, kind: int, payload: bytes) -> None:
        """Of messages that came back, which are not needed."""

    # Asking

    async def _is_known(self, exchange: str) -> bool:
        """The exchange is there, and may be published to as far as can be asked."""
        if not exchange or exchange in self._exchanges:
            return True
        if exchange in self.reasons:
            return False
        async with self._asking:
            try:
                await self._connection.call(
                    ASKING, commands.Exchange.Declare, exchange=exchange, passive=True
                )
            except ChannelClosed as error:
                self.reasons[exchange] = str(error)
                await self._connection.call(ASKING, commands.Channel.Open)
                return False
        self._exchanges.add(exchange)
        return True

    async def _watch(self, name: str) -> None:
        watched = self.queues[name] = Watched(name)
        await self._measure(watched)
        watched.before = watched.after
        # What was there before is not what came.
        watched.waits = Waits()
        watched.waits.measure(0, time.monotonic_ns() // 1_000)

    async def _measure(self, watched: Watched) -> None:
        async with self._asking:
            try:
                answer = await self._connection.call(
                    ASKING, commands.Queue.Declare, queue=watched.name, passive=True
                )
            except ChannelClosed as error:
                watched.problem, watched.after = str(error), None
                await self._connection.call(ASKING, commands.Channel.Open)
                return
        if isinstance(answer, commands.Queue.DeclareOk):
            watched.after = answer.message_count or 0
            watched.consumers = max(watched.consumers, answer.consumer_count or 0)
            above = max(0, watched.after - (watched.before or 0))
            watched.waits.measure(above, time.monotonic_ns() // 1_000)

    async def measure(self) -> None:
        """Ask how many messages are in each queue. Raises PerfError."""
        for watched in list(self.queues.values()):
            if not watched.problem:
                await self._measure(watched)

    async def _measure_always(self, progress: Callable[[], object]) -> None:
        while True:
            await asyncio.sleep(MEASURE_SECONDS)
            await self.measure()
            progress()

    async def settle(self, seconds_max: float) -> None:
        """Wait until consumers have taken what came. Raises PerfError."""
        deadline = time.monotonic() + seconds_max
        await self.measure()
        while any(map(_is_draining, self.queues.values())) and time.monotonic() < deadline:
            await asyncio.sleep(MEASURE_SECONDS)
            await self.measure()


def _is_draining(watched: Watched) -> bool:
    return bool(watched.consumers) and (watched.after or 0) > (watched.before or 0)

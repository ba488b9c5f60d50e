"""A producer: one channel that publishes, as fast as it may.

All messages of a batch carry the same time in their first eight bytes, so a batch is one message's
frames multiplied, and costs one write. How large a batch is, the rate, the confirm window and the
socket decide.
"""

import asyncio
import random
import time
from collections import deque
from typing import Any

from pamqp import base, commands

from broker.amqp.content import content_frames
from broker.amqp.methods import encode_method
from broker.amqp.properties import encode_properties
from mgmt.perf.connection import Connection
from mgmt.perf.histogram import Histogram
from mgmt.perf.options import Options

BATCH_MAX = 200
BATCH_BYTES_MAX = 256 * 1024
TICK_SECONDS = 0.001
TIME_BYTES = 8


class Producer:
    """One publishing channel.

    key: its routing key. bodies: what it publishes in turn. sent, confirmed ...: totals.
    """

    def __init__(
        self, connection: Connection, channel: int, key: str, bodies: list[bytes], options: Options
    ) -> None:
        self.connection = connection
        self.channel = channel
        self.key = key
        self.bodies = bodies
        self.sent = self.confirmed = self.nacked = self.returned = 0
        self.latencies = Histogram()
        self.done = asyncio.get_running_loop().create_future()
        self._options = options
        self._unconfirmed: deque[tuple[int, int]] = deque()
        self._is_stopping = False
        self._started_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._in_transaction = 0
        self._awaits_commit = False
        self._frames: dict[int, tuple[bytes, int]] = {}

    async def open(self) -> None:
        """Open the channel."""
        await self.connection.call(self.channel, commands.Channel.Open)
        self.connection.handlers[self.channel] = self
        if self._options.confirm:
            await self.connection.call(self.channel, commands.Confirm.Select)
        if self._options.ptxsize:
            await self.connection.call(self.channel, commands.Tx.Select)

    def start(self) -> None:
        """Publish from now on."""
        self._started_at = time.monotonic()
        self.connection.on_writable.append(self._pump)
        self._pump()

    def stop(self) -> None:
        """Publish no more."""
        self._is_stopping = True
        self._finish_if_done()

    # Publishing

    def _allowed(self) -> int:
        """How many messages may be published now."""
        options = self._options
        allowed = BATCH_MAX
        if options.pmessages:
            allowed = min(allowed, options.pmessages - self.sent)
        if options.rate:
            due = int((time.monotonic() - self._started_at) * options.rate) + 1
            allowed = min(allowed, due - self.sent)
        if options.confirm:
            unconfirmed = self.sent - self.confirmed - self.nacked
            allowed = min(allowed, options.confirm - unconfirmed)
        if options.ptxsize:
            allowed = 0 if self._awaits_commit else min(
                allowed, options.ptxsize - self._in_transaction
            )  # fmt: skip
        return allowed

    def _pump(self) -> None:
        """Publish what may be published, and come back when there may be more."""
        self._timer = None
        if self._is_stopping or self.connection.failure is not None:
            return
        if self.connection.is_writable:
            count = self._allowed()
            if count > 0:
                self._publish(count)
            if self._options.pmessages and self.sent >= self._options.pmessages:
                self.stop()
                return
        self._come_back()

    def _come_back(self) -> None:
        if self._timer is not None or not self.connection.is_writable:
            return
        loop = asyncio.get_running_loop()
        if self._options.rate:
            self._timer = loop.call_later(TICK_SECONDS, self._pump)
        elif self._allowed() > 0:
            self._timer = loop.call_later(0, self._pump)

    def _publish(self, count: int) -> None:
        place = self.sent % len(self.bodies)
        body = self.bodies[place]
        frames, time_at = self._frames_of(place)
        count = min(count, max(1, BATCH_BYTES_MAX // len(frames)))
        if len(self.bodies) > 1:
            count = 1
        now_ns = time.monotonic_ns()
        if len(body) >= TIME_BYTES:
            stamp = now_ns.to_bytes(TIME_BYTES, "big")
            frames = frames[:time_at] + stamp + frames[time_at + TIME_BYTES :]
        self.connection.write(frames * count if count > 1 else frames)
        self.sent += count
        if self._options.confirm:
            self._unconfirmed.append((self.sent, now_ns))
        if self._options.ptxsize:
            self._commit_if_full(count)

    def _frames_of(self, place: int) -> tuple[bytes, int]:
        """A message's frames, and where in them its time is."""
        options = self._options
        if options.random_routing_key:
            return self._make_frames(place, f"{random.randrange(1 << 32):08x}")
        made = self._frames.get(place)
        if made is None:
            made = self._frames[place] = self._make_frames(place, self.key)
        return made

    def _make_frames(self, place: int, key: str) -> tuple[bytes, int]:
        options = self._options
        payload = encode_method(
            commands.Basic.Publish, exchange=options.exchange, routing_key=key,
            mandatory=options.mandatory,
        )  # fmt: skip
        properties: dict[str, Any] = dict(options.properties)
        if options.persistent:
            properties["delivery_mode"] = 2
        raw = encode_properties(dict(sorted(properties.items(), key=_order)))
        body = self.bodies[place]
        parts = content_frames(self.channel, payload, raw, body, self.connection.frame_max)
        frames = b"".join(parts)
        time_at = frames.find(body[:TIME_BYTES], len(payload)) if body else 0
        head = len(frames) - len(body) - 1 if len(body) < self.connection.frame_max - 8 else time_at
        return frames, head

    def _commit_if_full(self, count: int) -> None:
        self._in_transaction += count
        if self._in_transaction >= self._options.ptxsize:
            self._in_transaction = 0
            self._awaits_commit = True
            self.connection.send(self.channel, commands.Tx.Commit)

    # What comes back

    def take(self, data: bytes, start: int, end: int) -> int:
        """Nothing comes to a producer in runs."""
        return start

    def on_method(self, method: base.Frame) -> None:
        """Confirms, returns and commits."""
        if isinstance(method, commands.Basic.Ack):
            self._settle(method.delivery_tag, method.multiple, is_ack=True)
        elif isinstance(method, commands.Basic.Nack):
            self._settle(method.delivery_tag, method.multiple, is_ack=False)
        elif isinstance(method, commands.Basic.Return):
            self.returned += 1
        elif isinstance(method, commands.Tx.CommitOk):
            self._awaits_commit = False
        if self._is_stopping:
            self._finish_if_done()
        else:
            self._come_back()

    def on_content(self, kind: int, payload: bytes) -> None:
        """Of a returned message."""

    def _settle(self, tag: int, multiple: bool, *, is_ack: bool) -> None:
        settled = self.confirmed + self.nacked
        count = tag - settled if multiple else 1
        if is_ack:
            self.confirmed += count
        else:
            self.nacked += count
        now_ns = time.monotonic_ns()
        settled += count
        while self._unconfirmed and self._unconfirmed[0][0] <= settled:
            last, sent_ns = self._unconfirmed.popleft()
            self.latencies.add((now_ns - sent_ns) // 1000, 1)
            _ = last

    def _finish_if_done(self) -> None:
        settled = self.confirmed + self.nacked
        if not self.done.done() and (not self._options.confirm or settled >= self.sent):
            self.done.set_result(None)


_PROPERTY_ORDER = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id",
    "reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id",
)  # fmt: skip


def _order(item: tuple[str, Any]) -> int:
    return _PROPERTY_ORDER.index(item[0]) if item[0] in _PROPERTY_ORDER else len(_PROPERTY_ORDER)

"""A consumer: one channel that takes messages, times them, and acks them.

Deliveries to one consumer mostly look alike: the same method but for the delivery tag, the same
header, a body of the same size. The first is taken apart; those that follow are recognised by their
bytes and stepped over, so that a message costs a comparison and a look at its time.
"""

import asyncio
import time
from typing import Any

from pamqp import base, commands

from broker.amqp.frames import BODY, HEADER, METHOD
from mgmt.perf.connection import FRAME_HEAD, Connection
from mgmt.perf.histogram import Histogram
from mgmt.perf.options import Options

TIME_BYTES = 8
TAG_BYTES = 8
DELIVER = commands.Basic.Deliver.index.to_bytes(4, "big")


class Shape:
    """What deliveries look like: bytes before the tag, the tag, bytes up to the body, the body."""

    def __init__(self, prefix: bytes, middle: bytes, size: int) -> None:
        self.prefix = prefix
        self.middle = middle
        self.body_at = len(prefix) + TAG_BYTES + len(middle)
        self.size = size
        self.length = self.body_at + size + 1


def shape_of(data: bytes, start: int, end: int) -> Shape | None:
    """The shape of the delivery that begins here; None if it is not one, or not all here."""
    if end - start < FRAME_HEAD + 5 or data[start] != METHOD:
        return None
    if data[start + FRAME_HEAD : start + FRAME_HEAD + 4] != DELIVER:
        return None
    tag_at = start + FRAME_HEAD + 5 + data[start + FRAME_HEAD + 4]
    place = start
    for kind in (METHOD, HEADER, BODY):
        if end - place <= FRAME_HEAD or data[place] != kind:
            return None
        size = int.from_bytes(data[place + 3 : place + FRAME_HEAD], "big")
        if kind == BODY:
            body_at = place + FRAME_HEAD
            if end <= body_at + size:
                return None
            return Shape(data[start:tag_at], data[tag_at + TAG_BYTES : body_at], size)
        if kind == HEADER:
            total = int.from_bytes(data[place + FRAME_HEAD + 4 : place + FRAME_HEAD + 12], "big")
            following = place + FRAME_HEAD + size + 1
            if end - following <= FRAME_HEAD:
                return None
            if int.from_bytes(data[following + 3 : following + FRAME_HEAD], "big") != total:
                # A body in several frames goes the long way.
                return None
        place += FRAME_HEAD + size + 1
    return None


class Consumer:
    """One consuming channel. received, acked: totals."""

    def __init__(
        self, connection: Connection, channel: int, queues: list[str], options: Options
    ) -> None:
        self.connection = connection
        self.channel = channel
        self.queues = queues
        self.received = self.acked = 0
        self.latencies = Histogram()
        self.done = asyncio.get_running_loop().create_future()
        self._options = options
        self._shape: Shape | None = None
        self._tag = 0
        self._body_left = -1
        self._stamp = b""
        self._in_transaction = 0
        self._started_at = 0.0
        self._ack_timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Open the channel and consume."""
        call, options = self.connection.call, self._options
        await call(self.channel, commands.Channel.Open)
        self.connection.handlers[self.channel] = self
        if options.qos:
            await call(self.channel, commands.Basic.Qos, prefetch_count=options.qos)
        if options.global_qos:
            await call(
                self.channel, commands.Basic.Qos, prefetch_count=options.global_qos, global_=True
            )
        if options.ctxsize:
            await call(self.channel, commands.Tx.Select)
        self._started_at = time.monotonic()
        for queue in self.queues:
            await call(self.channel, commands.Basic.Consume, queue=queue, no_ack=options.autoack)

    # Taking deliveries

    def take(self, data: bytes, start: int, end: int) -> int:
        """Step over whole deliveries of the known shape."""
        shape = self._shape
        if self._body_left >= 0:
            return start
        if shape is None or data[start : start + len(shape.prefix)] != shape.prefix:
            shape = self._shape = shape_of(data, start, end)
            if shape is None:
                return start
        count, start, tag = self._step(data, start, end, shape)
        if count:
            self._received(count, tag)
        return start

    def _step(self, data: bytes, start: int, end: int, shape: Shape) -> tuple[int, int, int]:
        """How many there were, where they end, and the tag of the last."""
        prefix, middle, length = shape.prefix, shape.middle, shape.length
        tag_at = len(prefix)
        middle_at = tag_at + TAG_BYTES
        body_at = shape.body_at
        has_time = shape.size >= TIME_BYTES
        now_us = time.monotonic_ns() // 1000
        stamp, alike, count = b"", 0, 0
        while (
            end - start >= length
            and data[start : start + tag_at] == prefix
            and data[start + middle_at : start + body_at] == middle
        ):
            if has_time:
                found = data[start + body_at : start + body_at + TIME_BYTES]
                if found != stamp:
                    self._note_latency(stamp, alike, now_us)
                    stamp, alike = found, 0
                alike += 1
            count += 1
            start += length
        self._note_latency(stamp, alike, now_us)
        tag_end = start - length + middle_at
        return count, start, int.from_bytes(data[tag_end - TAG_BYTES : tag_end], "big")

    def _note_latency(self, stamp: bytes, count: int, now_us: int) -> None:
        if count:
            waited_us = now_us - int.from_bytes(stamp, "big") // 1000
            # A message of somebody else's has anything there.
            if -1_000_000 < waited_us < 86_400_000_000:
                self.latencies.add(waited_us, count)

    def on_method(self, method: base.Frame) -> None:
        """A delivery in several frames begins."""
        if isinstance(method, commands.Basic.Deliver):
            self._tag = method.delivery_tag or 0
            self._body_left = 0
            self._stamp = b""

    def on_content(self, kind: int, payload: bytes) -> None:
        """A part of it."""
        if kind == HEADER:
            self._body_left = int.from_bytes(payload[4:12], "big")
        else:
            if not self._stamp:
                self._stamp = payload[:TIME_BYTES]
            self._body_left -= len(payload)
        if self._body_left <= 0:
            self._body_left = -1
            if len(self._stamp) == TIME_BYTES:
                self._note_latency(self._stamp, 1, time.monotonic_ns() // 1000)
            self._received(1, self._tag)

    # Settling

    def _received(self, count: int, tag: int) -> None:
        options = self._options
        self.received += count
        if options.consumer_latency:
            time.sleep(options.consumer_latency * count / 1_000_000)
        self._tag = tag
        if not options.autoack:
            if options.consumer_rate:
                self._settle_later()
            else:
                self._settle(tag)
        if options.cmessages and self.received >= options.cmessages and not self.done.done():
            self._settle_rest()
            self.done.set_result(None)

    def _settle_later(self) -> None:
        """Ack when it is time, so that no more messages come than are wanted."""
        if self._ack_timer is None:
            due = self._started_at + self.received / self._options.consumer_rate
            delay = max(0.0, due - time.monotonic())
            self._ack_timer = asyncio.get_running_loop().call_later(delay, self._settle_due)

    def _settle_due(self) -> None:
        self._ack_timer = None
        self._settle(self._tag)

    def _settle(self, tag: int) -> None:
        every = self._options.multi_ack_every
        if every > 1:
            up_to = tag - tag % every
            if up_to > self.acked:
                self._send_settling(up_to, multiple=True)
        elif tag > self.acked:
            for one in range(self.acked + 1, tag + 1):
                self._send_settling(one, multiple=False)

    def _send_settling(self, tag: int, *, multiple: bool) -> None:
        options = self._options
        arguments: dict[str, Any] = {"delivery_tag": tag, "multiple": multiple}
        self._in_transaction += tag - self.acked
        self.acked = tag
        if options.nack:
            self.connection.send(
                self.channel, commands.Basic.Nack, requeue=options.requeue, **arguments
            )
        else:
            self.connection.send(self.channel, commands.Basic.Ack, **arguments)
        if options.ctxsize and self._in_transaction >= options.ctxsize:
            self._in_transaction = 0
            self.connection.send(self.channel, commands.Tx.Commit)

    def _settle_rest(self) -> None:
        """What a multiple ack was waited for."""
        if not self._options.autoack and self._tag > self.acked:
            self._send_settling(self._tag, multiple=True)

    def stop(self) -> None:
        """Settle what is left."""
        self._settle_rest()
        if not self.done.done():
            self.done.set_result(None)

"""How long the replay's messages really wait: measured by the copies that the firehose makes.

A broker that traces a vhost copies each publish and delivery to the exchange amq.rabbitmq.trace.
The replay marks each message with a header; a queue of its own, on a connection of its own, gets
the copies, and finds the mark in them. A wait is the time between the copy of the publish and that
of the first delivery: both come the same way, so that what the way takes is not in it.

The queue is bounded, and the broker drops the oldest copies if they are not taken quickly enough;
so are the messages that are followed (`WaitTimes`). Copies of others' messages are stepped over.
"""

import asyncio
import secrets
import time
from collections import deque

from pamqp import base, commands

from broker.amqp.content import header_frame
from broker.amqp.field_table import encode_short_string, encode_table
from broker.amqp.frames import HEADER
from broker.amqp.methods import method_frame
from broker.amqp.properties import decode_properties, encode_properties
from mgmt.perf.connection import ChannelClosed, Connection, PerfError
from mgmt.perf.histogram import Histogram
from mgmt.replay.properties import MARK
from mgmt.replay.wait_times import WaitTimes

CHANNEL = 1
TRACE_EXCHANGE = "amq.rabbitmq.trace"
PUBLISH, DELIVER = "publish.", "deliver."
COPIES_MAX, COPY_BYTES_MAX = 100_000, 256 * 1024 * 1024
"""What may wait in the queue of copies."""
PROBE, PROBE_SECONDS_MAX = 0, 5.0
"""The place of a message that is published to nobody, to see whether its copy comes."""
_HEADER_START_BYTES = 12
"""Class, weight and body size of a content header."""
_REDELIVERED = encode_table({"redelivered": ("I", 1)})[4:]


class Copies:
    """The copies of one replay.

    run: what marks its messages, before their place among what is replayed, from 1.
    seen: copies of publishes.
    lags: from writing a message to the copy of its publish, in microseconds.
    """

    def __init__(self, connection: Connection, vhost: str) -> None:
        self.run = secrets.token_hex(6)
        self.seen = 0
        self.lags = Histogram()
        self.waits = WaitTimes()
        self.connection = connection
        self._vhost = vhost
        self._mark = encode_short_string(MARK) + b"S"
        self._event, self._name = "", ""
        self._written: deque[tuple[int, int]] = deque()
        self._last_place = 0
        self._early: set[tuple[str, int]] = set()
        self._has_probe = asyncio.Event()

    async def open(self) -> None:
        """Begin to take copies. Raises PerfError, also if there are none."""
        try:
            await self._consume()
            await self._probe()
        except ChannelClosed as error:
            raise PerfError(f"waits cannot be measured: {error}") from None
        except TimeoutError:
            raise PerfError(
                "waits cannot be measured: no copies come from the exchange amq.rabbitmq.trace of"
                f" vhost '{self._vhost}'. Switch tracing on there: leveretctl trace_on -p"
                f" '{self._vhost}' (or rabbitmqctl), or leave --measure out"
            ) from None

    async def _consume(self) -> None:
        call = self.connection.call
        await call(CHANNEL, commands.Channel.Open)
        bounds = {"x-max-length": ("l", COPIES_MAX), "x-max-length-bytes": ("l", COPY_BYTES_MAX)}
        declared = await call(CHANNEL, commands.Queue.Declare, exclusive=True, arguments=bounds)
        name = getattr(declared, "queue", "")
        for pattern in (PUBLISH + "#", DELIVER + "#"):
            await call(
                CHANNEL, commands.Queue.Bind, queue=name, exchange=TRACE_EXCHANGE,
                routing_key=pattern,
            )  # fmt: skip
        self.connection.handlers[CHANNEL] = self
        await call(CHANNEL, commands.Basic.Consume, queue=name, no_ack=True, exclusive=True)

    async def caught_up(self) -> bool:
        """Wait for the copies of all that was published; False if they do not come in time."""
        try:
            await self._probe()
        except (TimeoutError, PerfError):
            return False
        return True

    async def _probe(self) -> None:
        """Publish to nobody, and wait for the copy of that. Raises PerfError, TimeoutError."""
        self._has_probe.clear()
        headers = {MARK: ("S", f"{self.run}-{PROBE}")}
        method = method_frame(
            CHANNEL, commands.Basic.Publish, exchange="", routing_key=f"{MARK}-{self.run}"
        )
        properties = encode_properties({"headers": headers})
        self.connection.write(method + header_frame(CHANNEL, properties, 0))
        has_probe = asyncio.ensure_future(self._has_probe.wait())
        try:
            async with asyncio.timeout(PROBE_SECONDS_MAX):
                await asyncio.wait(
                    (has_probe, self.connection.closed), return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            has_probe.cancel()
        if self.connection.failure is not None:
            raise self.connection.failure

    def written(self, place: int, now_ns: int) -> None:
        """The messages up to this place in the trace are on their way."""
        self._written.append((place, now_ns // 1_000))

    # What comes in

    def take(self, data: bytes, start: int) -> int:
        """Leave all to `on_method` and `on_content`."""
        return start

    def on_method(self, method: base.Frame) -> None:
        """The beginning of a copy."""
        if isinstance(method, commands.Basic.Deliver):
            self._event, dot, self._name = (method.routing_key or "").partition(".")
            self._event += dot

    def on_content(self, kind: int, payload: bytes) -> None:
        """The headers of a copy say all; its body is not needed."""
        if kind != HEADER:
            return
        place = self._place(payload)
        if place is None:
            return
        now_us = time.monotonic_ns() // 1_000
        if place == PROBE:
            self._has_probe.set()
        elif self._event == PUBLISH:
            self._published(place, payload, now_us)
        elif self._event == DELIVER and _REDELIVERED not in payload:
            self._delivered(place, now_us)

    def _place(self, payload: bytes) -> int | None:
        """Which message of this replay it is a copy of; None of others' messages."""
        at = payload.find(self._mark)
        if at < 0:
            return None
        at += len(self._mark)
        start = at + 4
        stop = start + int.from_bytes(payload[at:start], "big")
        run, _, place = payload[start:stop].decode("ascii", "replace").partition("-")
        return int(place) if run == self.run and place.isdecimal() else None

    def _published(self, place: int, payload: bytes, now_us: int) -> None:
        self.seen += 1
        self._last_place = max(self._last_place, place)
        headers = decode_properties(payload[_HEADER_START_BYTES:])["headers"]
        for _, queue in headers["routed_queues"][1]:
            self.waits.came(queue, place, now_us)
            if (queue, place) in self._early:
                self._early.discard((queue, place))
                self.waits.left(queue, place, now_us)
        while self._written and self._written[0][0] < place:
            self._written.popleft()
        if self._written:
            self.lags.add(now_us - self._written[0][1])

    def _delivered(self, place: int, now_us: int) -> None:
        if place > self._last_place:
            # In a cluster the copy of a publish can be overtaken by that of the delivery.
            self._early.add((self._name, place))
        else:
            self.waits.left(self._name, place, now_us)

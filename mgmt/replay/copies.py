"""Measures how long each replayed message waits, from the copies that the firehose makes.

A broker that traces a vhost copies each publish and delivery to the exchange amq.rabbitmq.trace.
The replay marks each message with a header. A queue of its own, on a second connection, receives
the copies, which contain the mark. A wait is the time between the copy of the publish and that of
the first delivery; both take the same path, so its latency cancels out.

The queue is bounded: the broker drops the oldest copies if they are not consumed fast enough. The
number of messages that are followed is bounded, too (`WaitTimes`). Copies of other messages are
ignored.
"""

import asyncio
import secrets
import time
from collections import deque

from pamqp import commands

from leveret.broker.amqp.field_table import encode_short_string, encode_table
from leveret.broker.amqp.properties import decode_properties, encode_properties
from leveret.broker.moving.client.channel import ClientChannel
from leveret.broker.moving.client.delivery_scanner import ClientDelivery
from leveret.mgmt.perf.connection import PerfChannelClosed, PerfConnection, PerfError
from leveret.mgmt.perf.histogram import LatencyHistogram
from leveret.mgmt.replay.properties import MARK
from leveret.mgmt.replay.wait_times import WaitTimes

TRACE_EXCHANGE = "amq.rabbitmq.trace"
PUBLISH, DELIVER = "publish.", "deliver."
COPIES_MAX, COPY_BYTES_MAX = 100_000, 256 * 1024 * 1024
"""Bounds of the queue of copies."""
PROBE, PROBE_SECONDS_MAX = 0, 5.0
"""The number of a message that no queue receives, published to see whether its copy arrives."""
_REDELIVERED = encode_table({"redelivered": ("I", 1)})[4:]


class Copies:
    """The copies of one replay.

    run: marks its messages, followed by their number among the replayed ones, from 1. seen: number
    of copies of publishes. lags: time from writing a message to the copy of its publish, in
    microseconds.
    """

    def __init__(self, connection: PerfConnection, vhost: str) -> None:
        self.run = secrets.token_hex(6)
        self.seen = 0
        self.lags = LatencyHistogram()
        self.waits = WaitTimes()
        self.connection = connection
        self._vhost = vhost
        self._mark = encode_short_string(MARK) + b"S"
        self._channel: ClientChannel
        self._written: deque[tuple[int, int]] = deque()
        self._last_place = 0
        self._early: set[tuple[str, int]] = set()
        self._has_probe = asyncio.Event()

    async def open(self) -> None:
        """Start to consume copies. Raises PerfError, also if none arrive."""
        try:
            await self._consume()
            await self._probe()
        except PerfChannelClosed as error:
            raise PerfError(f"waits cannot be measured: {error}") from None
        except TimeoutError:
            raise PerfError(
                "waits cannot be measured: no copies arrive from the exchange amq.rabbitmq.trace"
                f" of vhost '{self._vhost}'. Enable tracing: leveretctl trace_on -p"
                f" '{self._vhost}' (or rabbitmqctl), or run without --measure"
            ) from None

    async def _consume(self) -> None:
        call = self.connection.call
        channel = self._channel = await self.connection.open_channel()
        self.connection.require(channel)
        bounds = {"x-max-length": ("l", COPIES_MAX), "x-max-length-bytes": ("l", COPY_BYTES_MAX)}
        declared = await call(channel, commands.Queue.Declare, exclusive=True, arguments=bounds)
        name = getattr(declared, "queue", "")
        for pattern in (PUBLISH + "#", DELIVER + "#"):
            await call(
                channel, commands.Queue.Bind, queue=name, exchange=TRACE_EXCHANGE,
                routing_key=pattern,
            )  # fmt: skip
        await self.connection.consume(channel, name, self._take, no_ack=True, is_exclusive=True)

    async def caught_up(self) -> bool:
        """Wait for the copies of all published messages; False if they do not arrive in time."""
        try:
            await self._probe()
        except (TimeoutError, PerfError):
            return False
        return True

    async def _probe(self) -> None:
        """Publish an unroutable message and wait for its copy. Raises PerfError, TimeoutError."""
        self._has_probe.clear()
        headers = {MARK: ("S", f"{self.run}-{PROBE}")}
        properties = encode_properties({"headers": headers})
        self._channel.publish("", f"{MARK}-{self.run}", properties, b"")
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
        """Note that the messages up to this number were written. now_ns: monotonic time."""
        self._written.append((place, now_ns // 1_000))

    # What the broker sends

    def _take(self, copies: list[ClientDelivery]) -> None:
        for copy in copies:
            event, dot, name = copy.routing_key.partition(".")
            self._came(event + dot, name, copy.properties)

    def _came(self, event: str, name: str, properties: bytes) -> None:
        """Handle the properties of a copy; its body is not needed."""
        place = self._place(properties)
        if place is None:
            return
        now_us = time.monotonic_ns() // 1_000
        if place == PROBE:
            self._has_probe.set()
        elif event == PUBLISH:
            self._published(place, properties, now_us)
        elif event == DELIVER and _REDELIVERED not in properties:
            self._delivered(name, place, now_us)

    def _place(self, properties: bytes) -> int | None:
        """Return the number of the replayed message of a copy; None for other messages."""
        at = properties.find(self._mark)
        if at < 0:
            return None
        at += len(self._mark)
        start = at + 4
        stop = start + int.from_bytes(properties[at:start], "big")
        run, _, place = properties[start:stop].decode("ascii", "replace").partition("-")
        return int(place) if run == self.run and place.isdecimal() else None

    def _published(self, place: int, properties: bytes, now_us: int) -> None:
        self.seen += 1
        self._last_place = max(self._last_place, place)
        headers = decode_properties(properties)["headers"]
        for _, queue in headers["routed_queues"][1]:
            self.waits.came(queue, place, now_us)
            if (queue, place) in self._early:
                self._early.discard((queue, place))
                self.waits.left(queue, place, now_us)
        while self._written and self._written[0][0] < place:
            self._written.popleft()
        if self._written:
            self.lags.add(now_us - self._written[0][1])

    def _delivered(self, name: str, place: int, now_us: int) -> None:
        if place > self._last_place:
            # In a cluster the copy of a delivery can arrive before that of the publish.
            self._early.add((name, place))
        else:
            self.waits.left(name, place, now_us)

"""A producer: one channel that publishes as fast as allowed.

All messages of a batch have the same timestamp. The rate, the confirm window, transactions and the
socket limit the size of a batch.
"""

import asyncio
import random
import time
from contextlib import suppress
from itertools import cycle, islice

from pamqp import commands

from leveret.broker.moving.client.channel import ClientChannel
from leveret.mgmt.perf.confirms import PerfConfirms
from leveret.mgmt.perf.connection import PerfConnection, PerfError
from leveret.mgmt.perf.histogram import LatencyHistogram
from leveret.mgmt.perf.messages import MessageMaker, StampedMessage, clock_of
from leveret.mgmt.perf.options import PerfOptions
from leveret.mgmt.perf.schedule import Pace, Schedule

BATCH_MAX = 200
RANDOM_KEYS = 1000
BATCH_BYTES_MAX = 256 * 1024
ANSWER_SECONDS_MAX = 10.0
"""Less than the client's own limit, after which it gives the connection up."""
MESSAGE_OVERHEAD_BYTES = 64
"""About the bytes of a message's frames besides its body."""


class Producer:
    """One publishing channel.

    key: its routing key. bodies: published in turn; empty for zeros. sent, confirmed, nacked,
    returned: totals. done: all messages are published and settled. sent_at: time of the last batch,
    monotonic clock.
    """

    def __init__(
        self, connection: PerfConnection, key: str, bodies: list[bytes], options: PerfOptions
    ) -> None:
        self.connection = connection
        self.sent = self.confirmed = self.nacked = self.returned = 0
        self.sent_at = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._channel: ClientChannel
        self._options = options
        self._confirms = PerfConfirms()
        self._pace = Pace(_rates(options))
        self._sizes = Schedule.of(options.variable_size, options.size)
        self._clock = clock_of(options)
        self._messages = _Messages(key, bodies, options)
        self._is_stopping = False
        self._started_at = 0.0
        self._timer: asyncio.Handle | None = None
        self._uncommitted = 0
        self._awaits_commit = False

    async def open(self) -> None:
        """Open the channel. Raises PerfError."""
        channel = self._channel = await self.connection.open_channel()
        self.connection.require(channel)
        if self._options.confirm:
            await self.connection.call(channel, commands.Confirm.Select)
        if self._options.ptxsize:
            await self.connection.call(channel, commands.Tx.Select)
        channel.on_confirmed = self._confirmed
        channel.on_returned = self._returned

    def start(self) -> None:
        """Start publishing, after the random delay if there is one."""
        delay_s = random.uniform(0, self._options.producer_random_start_delay)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._begin)

    def stop(self) -> None:
        """Stop publishing; `done` is set when everything is settled."""
        self._is_stopping = True
        if self._uncommitted and not self._awaits_commit:
            self._commit()
        self._finish_if_settled()

    async def settle(self) -> None:
        """Wait until the broker has processed everything. Raises PerfError.

        The broker answers a method only after all that was published before it on the channel. A
        channel that is being closed takes no returned messages, so another method comes first.
        """
        limit_s = self._options.confirm_timeout
        try:
            await asyncio.wait_for(asyncio.shield(self.done), limit_s if limit_s > 0 else None)
        except TimeoutError:
            raise self._unconfirmed() from None
        # A broker that blocks publishers does not answer; the run ends nevertheless.
        seconds_max = min(self._options.shutdown_timeout, ANSWER_SECONDS_MAX)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                await self.connection.call(self._channel, commands.Basic.Qos, prefetch_count=0)
                await self._channel.close()

    def take_latencies(self) -> LatencyHistogram:
        """Return the confirm latencies since the last call."""
        taken, self._confirms.latencies = self._confirms.latencies, LatencyHistogram()
        return taken

    def check_confirms(self) -> None:
        """End the connection if a confirm is overdue."""
        limit_s = self._options.confirm_timeout
        if limit_s > 0 and self._confirms.waited_s(time.monotonic_ns()) > limit_s:
            self.connection.fail(self._unconfirmed())

    def _unconfirmed(self) -> PerfError:
        limit_s = self._options.confirm_timeout
        return PerfError(
            f"{self._confirms.open} messages were not confirmed within {limit_s:g} seconds"
        )

    # Publishing

    def _begin(self) -> None:
        self._started_at = time.monotonic()
        self._channel.on_writable = self._pump
        self._pump()

    def _pump(self) -> None:
        """Publish what may be published, and schedule the next call."""
        self._timer = None
        if self._is_stopping or self.connection.failure is not None:
            return
        if self._channel.is_writable:
            count = self._allowed()
            if count > 0:
                self._publish(count)
            if self._options.pmessages and self.sent >= self._options.pmessages:
                self.stop()
                return
        self._come_back()

    def _allowed(self) -> int:
        """Return how many messages may be published now."""
        options = self._options
        allowed = BATCH_MAX
        if options.pmessages:
            allowed = min(allowed, options.pmessages - self.sent)
        if self._pace.is_limited:
            due = self._pace.due(time.monotonic() - self._started_at)
            allowed = min(allowed, due - self.sent)
        if options.confirm:
            allowed = min(allowed, options.confirm - self._confirms.open)
        if options.ptxsize:
            room = 0 if self._awaits_commit else options.ptxsize - self._uncommitted
            allowed = min(allowed, room)
        return allowed

    def _come_back(self) -> None:
        """Schedule the next call; the socket, confirms and commits trigger theirs themselves."""
        if self._timer is not None or not self._channel.is_writable:
            return
        loop = asyncio.get_running_loop()
        if self._allowed() > 0:
            self._timer = loop.call_soon(self._pump)
        elif self._pace.is_limited:
            tick_s = self._pace.tick_s(time.monotonic() - self._started_at)
            self._timer = loop.call_later(tick_s, self._pump)

    def _publish(self, count: int) -> None:
        now_ns = time.monotonic_ns()
        self.sent_at = now_ns / 1e9
        size = int(self._sizes.value_at(self.sent_at - self._started_at))
        options, publish = self._options, self._channel.publish
        batch = self._messages.batch(count, size, self._clock())
        for key, properties, body in batch:
            publish(options.exchange, key, properties, body, options.is_mandatory)
        count = len(batch)
        self.sent += count
        if self._options.confirm:
            self._confirms.publish(count, now_ns)
        if self._options.ptxsize:
            self._uncommitted += count
            if self._uncommitted >= self._options.ptxsize:
                self._commit()

    def _commit(self) -> None:
        self._uncommitted = 0
        self._awaits_commit = True
        self.connection.begin(self._committed())

    async def _committed(self) -> None:
        await self._channel.call(commands.Tx.Commit)
        self._awaits_commit = False
        if self._is_stopping and self._uncommitted:
            self._commit()
        self._go_on()

    # What the broker sends

    def _confirmed(self, tag: int, multiple: bool, is_ack: bool) -> None:
        settled = self._confirms.settle(tag, multiple=multiple, now_ns=time.monotonic_ns())
        if is_ack:
            self.confirmed += settled
        else:
            self.nacked += settled
        if self._timer is None or self._is_stopping:
            self._go_on()

    def _returned(self, _message: object) -> None:
        self.returned += 1
        self._go_on()

    def _go_on(self) -> None:
        if self._is_stopping:
            self._finish_if_settled()
        else:
            self._come_back()

    def _finish_if_settled(self) -> None:
        is_settled = not self._confirms.open and not self._awaits_commit
        if is_settled and not self.done.done():
            self.done.set_result(None)


class _Messages:
    """The messages of a producer: bodies in turn, or zeros, with one routing key or random ones."""

    def __init__(self, key: str, bodies: list[bytes], options: PerfOptions) -> None:
        self._maker = MessageMaker(options.message_properties, is_persistent=options.is_persistent)
        self._keys = [key]
        if options.random_routing_key:
            self._keys = random_keys(options.routing_key_cache_size or RANDOM_KEYS)
        self._bodies = bodies
        self._size = -1
        self._messages: list[StampedMessage] = []
        self._turns = cycle(self._messages)

    def batch(self, count: int, size: int, stamp_ns: int) -> list[tuple[str, bytes, bytes]]:
        """Return keys, properties and bodies of the messages of a batch, at most `count`."""
        if size != self._size:
            self._size = size
            self._messages = self._made(size)
            self._turns = cycle(self._messages)
        messages = self._messages
        length = messages[0].size + MESSAGE_OVERHEAD_BYTES
        count = min(count, max(1, BATCH_BYTES_MAX // length))
        if len(messages) == 1:
            return [(messages[0].key, *messages[0].stamped(stamp_ns))] * count
        return [(one.key, *one.stamped(stamp_ns)) for one in islice(self._turns, count)]

    def _made(self, size: int) -> list[StampedMessage]:
        if self._bodies:
            turns = max(len(self._keys), len(self._bodies))
            pairs = zip(range(turns), cycle(self._keys), cycle(self._bodies), strict=False)
            return [self._maker.of_body(key, body) for _, key, body in pairs]
        return [self._maker.of_size(key, size) for key in self._keys]


def _rates(options: PerfOptions) -> Schedule:
    return Schedule.of(options.variable_rate, options.rate)


def random_keys(count: int) -> list[str]:
    """Return this number of unique routing keys."""
    return [f"{random.getrandbits(64):016x}" for _ in range(count)]

"""Takes samples of everything that is counted, every `collect_statistics_interval`.

A round goes over the node's queues, channels, connections and exchanges in slices, between which it
does its other work. It adds a row to the series of each object, unless nothing has happened to the
object yet, and drops the series of objects that no longer exist. The same round makes the sums for
the node and for each vhost.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from leveret.broker.node.broker import Broker
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.status import CoarseCounts, ConsumerFigures
from leveret.broker.runtime.counts import MessageCounts
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.status import unsettled_deliveries
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.mgmt.slices import GiveWay, Slices
from leveret.mgmt.statistics.holding import Holding
from leveret.mgmt.statistics.series import BASIC, GLOBAL, Retention, Row, Series

MESSAGES = (
    "publish", "confirm", "return_unroutable", "drop_unroutable", "deliver", "deliver_no_ack",
    "get", "get_no_ack", "get_empty", "redeliver", "ack", "deliver_get",
)  # fmt: skip
"""The columns of a channel's series, and of the sums over channels."""
DISK = ("disk_reads", "disk_writes")
QUEUE_MESSAGES = (
    "publish", "deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "ack",
    "deliver_get",
)  # fmt: skip
LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")
QUEUE = QUEUE_MESSAGES + LENGTHS
EXCHANGE = ("publish_in", "publish_out")
CONNECTION = ("recv_oct", "send_oct")
CHURN = (
    "connection_created", "connection_closed", "channel_created", "channel_closed",
    "queue_declared", "queue_created", "queue_deleted",
)  # fmt: skip

SUMMED_AT_ONCE = 100
SAMPLED_AT_ONCE = 20
LOOKED_AT_MAX = 1000
"""Unsettled deliveries of one channel that are looked at for the oldest one of each queue."""
STALLED_MS = 60_000
"""A consumer that holds messages and settles none for this long is shown as stalled."""

logger = logging.getLogger("leveret.management")


def message_row(counts: MessageCounts) -> Row:
    """In the order of `MESSAGES`."""
    given = counts.delivered + counts.delivered_no_ack + counts.got + counts.got_no_ack
    return (
        counts.published, counts.confirmed, counts.returned, counts.dropped, counts.delivered,
        counts.delivered_no_ack, counts.got, counts.got_no_ack, counts.got_empty,
        counts.redelivered, counts.acked, given,
    )  # fmt: skip


def queue_row(counts: CoarseCounts) -> Row:
    """In the order of `QUEUE`."""
    return (
        counts.published, counts.delivered, counts.delivered_no_ack, counts.got,
        counts.got_no_ack, counts.got_empty, counts.redelivered, counts.acked, counts.deliver_get,
        counts.messages, counts.ready, counts.unacked,
    )  # fmt: skip


class QueueSums(NamedTuple):
    """The messages and consumers of several queues. messages: ready, unacked, and dead letters."""

    ready: int
    unacked: int
    messages: int
    consumers: int


def own_queues(vhost: VirtualHost) -> list[QueueClient]:
    """The queues of a vhost that live on this node, which keeps their counts."""
    places = vhost.places
    if places is None:
        return list(vhost.queues.values())
    return [queue for queue in vhost.queues.values() if queue.placement.node == places.node]


async def sums_of(vhosts: Iterable[VirtualHost], give_way: GiveWay) -> QueueSums:
    """The messages and consumers of this node's queues in these vhosts, summed up in slices."""
    ready = unacked = messages = consumers = 0
    for vhost in vhosts:
        for number, queue in enumerate(own_queues(vhost)):
            counts = queue.figures.counts()
            ready += counts.ready
            unacked += counts.unacked
            messages += counts.messages
            consumers += counts.consumers
            if number % SUMMED_AT_ONCE == 0:
                await give_way()
    return QueueSums(ready, unacked, messages, consumers)


def add_rows(one: Row, other: Row) -> Row:
    """The sums of two rows, column by column."""
    return tuple(map(sum, zip(one, other, strict=True)))


class Sampler:
    """The series of a node, by the objects that they belong to, and of the whole node."""

    def __init__(self, broker: Broker, interval_ms: int) -> None:
        self.broker = broker
        self.interval_ms = interval_ms
        self.messages = Series(GLOBAL)
        self.lengths = Series(GLOBAL)
        self.churn = Series(GLOBAL)
        self.node = Series(GLOBAL)
        self.node_row: Callable[[], Row] = lambda: ()
        self.vhosts: dict[Hashable, Series] = {}
        self.vhost_lengths: dict[Hashable, Series] = {}
        self.objects: dict[Hashable, Series] = {}
        self.oldest_unacked_ms: dict[QueueClient, int] = {}
        self._holding = Holding()
        self._task: asyncio.Task[None] | None = None
        self.give_way = Slices().give_way

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds."""
        return int(self.broker.services.clock.wall_time_s() * 1000)

    def start(self) -> None:
        """Take samples until `stop`."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop taking samples."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self.sample()
            except Exception:
                logger.exception(
                    "a round of statistics failed; the next one follows in %d ms", self.interval_ms
                )
            await asyncio.sleep(self.interval_ms / 1000)

    async def sample(self) -> None:
        """Take one round of samples."""
        time_ms = self.now_ms()
        kept: dict[Hashable, Series] = {}
        totals, whole = await self._sample_channels(time_ms, kept)
        lengths = await self._sample_queues(time_ms, kept)
        self.objects = kept
        services = self.broker.services
        whole = (*whole, *self.disk_row())
        self.messages.add(time_ms, _not_less(whole, self.messages.last))
        self.lengths.add(time_ms, _summed(lengths.values(), len(LENGTHS)))
        self.churn.add(time_ms, self.churn_row())
        self.node.add(time_ms, self.node_row())
        self._add_all(self.vhosts, totals, time_ms)
        self._add_all(self.vhost_lengths, lengths, time_ms)
        for queue in [queue for queue in self.oldest_unacked_ms if queue.is_deleted]:
            del self.oldest_unacked_ms[queue]
        for all_series in (self.vhosts, self.vhost_lengths):
            for gone in all_series.keys() - services.vhosts.keys():
                del all_series[gone]

    async def _sample_channels(
        self, time_ms: int, kept: dict[Hashable, Series]
    ) -> tuple[dict[str, Row], Row]:
        """The messages of each vhost, and of the node."""
        # Closed channels come first: one that closes during the round must not be counted twice.
        services = self.broker.services
        whole = message_row(services.counts.closed_channels)
        totals = {
            name: message_row(vhost.closed_channels) for name, vhost in services.vhosts.items()
        }
        oldest: dict[QueueClient, int] = {}
        holding = self._holding.next_round()
        for connection in tuple(self.broker.connections):
            row: Row = (connection.bytes_in, connection.bytes_out)
            self._add(kept, connection, time_ms, row)
            for channel in tuple(connection.channels.values()):
                row = message_row(channel.message_counts())
                self._add(kept, channel, time_ms, row)
                whole = add_rows(whole, row)
                name = channel.vhost.name
                if name in totals:
                    totals[name] = add_rows(totals[name], row)
                deliveries = unsettled_deliveries(channel, LOOKED_AT_MAX)
                for one in deliveries:
                    at_ms = one.delivered_at_ms
                    oldest[one.queue] = min(at_ms, oldest.get(one.queue, at_ms))
                holding.add(channel, deliveries, services.clock.now_ms())
                await self.give_way()
        self.oldest_unacked_ms = oldest
        self._holding = holding
        for name, row in totals.items():
            if name in self.vhosts:
                totals[name] = _not_less(row, self.vhosts[name].last)
        return totals, whole

    async def _sample_queues(self, time_ms: int, kept: dict[Hashable, Series]) -> dict[str, Row]:
        lengths = {}
        for vhost in tuple(self.broker.services.vhosts.values()):
            total: Row = (0, 0, 0)
            for number, queue in enumerate(own_queues(vhost)):
                row = queue_row(queue.figures.counts())
                self._add(kept, queue, time_ms, row)
                if any(row[-3:]):
                    total = add_rows(total, row[-3:])
                if number % SAMPLED_AT_ONCE == 0:
                    await self.give_way()
            for exchange in tuple(vhost.exchanges.values()):
                self._add(
                    kept, exchange, time_ms, (exchange.published_count, exchange.routed_count)
                )
            lengths[vhost.name] = total
        return lengths

    def _add(
        self, kept: dict[Hashable, Series], key: Hashable, time_ms: int, row: Row,
        retention: tuple[Retention, ...] = BASIC,
    ) -> None:  # fmt: skip
        series = self.objects.get(key)
        if series is None:
            if not any(row):
                return
            series = Series(retention)
            series.add(time_ms - self.interval_ms, (0,) * len(row))
        series.add(time_ms, row)
        kept[key] = series

    @staticmethod
    def _add_all(all_series: dict[Hashable, Series], rows: dict[str, Row], time_ms: int) -> None:
        for name, row in rows.items():
            if name not in all_series:
                all_series[name] = Series(GLOBAL)
            all_series[name].add(time_ms, row)

    # Present values

    def idle_since_s(self, thing: QueueClient | Session, made_at_s: float) -> float | None:
        """Since when the object is idle, in wall-clock seconds; None if it is active.

        made_at_s: when it was declared or opened.
        """
        series = self.objects.get(thing)
        if series is None:
            return made_at_s
        changed_ms = series.changed_ms
        return None if self.now_ms() - changed_ms < 2 * self.interval_ms else changed_ms / 1000

    def oldest_unacked_age_ms(self, queue: QueueClient, counts: CoarseCounts) -> int | None:
        """How long ago the oldest unacked message was delivered; None if there is none.

        As of the last round: a later delivery is not known yet. counts: the queue's present counts.
        """
        delivered_at_ms = self.oldest_unacked_ms.get(queue)
        if delivered_at_ms is None or not counts.unacked:
            return None
        return self.broker.services.clock.now_ms() - delivered_at_ms

    def stalled_since_s(self, consumer: ConsumerFigures) -> float | None:
        """Since when the consumer holds messages and settles none, in wall-clock seconds.

        None if it is busy, or was within the last minute. As of the last round.
        """
        clock = self.broker.services.clock
        since_ms = self._holding.since_ms(consumer.channel_name, consumer.tag)
        if since_ms is None or not consumer.unacked:
            return None
        idle_ms = clock.now_ms() - since_ms
        return None if idle_ms < STALLED_MS else clock.wall_time_s() - idle_ms / 1000

    async def queue_sums(self) -> QueueSums:
        """The messages and consumers of the queues that live on this node."""
        return await sums_of(tuple(self.broker.services.vhosts.values()), self.give_way)

    def totals(self) -> MessageCounts:
        """The messages of the whole node since it started."""
        total = self.broker.services.counts.closed_channels.copy()
        for connection in self.broker.connections:
            for channel in connection.channels.values():
                total.add(channel.message_counts())
        return total

    def disk_row(self) -> Row:
        """In the order of `DISK`: messages that were paged in and out since the start."""
        store = self.broker.store
        if store is None:
            return (0, 0)
        figures = store.figures()
        return figures.messages_read, figures.messages_written

    def churn_row(self) -> Row:
        """In the order of `CHURN`."""
        counts = self.broker.services.counts
        return (
            counts.connections_opened, counts.connections_closed, counts.channels_opened,
            counts.channels_closed, counts.queues_declared, counts.queues_created,
            counts.queues_deleted,
        )  # fmt: skip


def _summed(rows: Iterable[Row], width: int) -> Row:
    total: Row = (0,) * width
    for row in rows:
        total = add_rows(total, row)
    return total


def _not_less(row: Row, before: Row | None) -> Row:
    """The row, or the one before where that is higher.

    A channel that closed during the round may be missing until the next one, and a total must not
    decrease.
    """
    return row if before is None else tuple(map(max, row, before))

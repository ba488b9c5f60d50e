"""Takes samples of everything that is counted, every `collect_statistics_interval`.

A round goes over the node's queues, channels, connections and exchanges in slices, between which
the node does its other work. The round adds a row to the series of each object, unless nothing has
happened to the object yet, and drops the series of objects that no longer exist. It also makes the
sums for the node and for each vhost.

Objects are known by their names. Counters of an object never decrease: if they are lower than in
the round before, the object has been deleted and declared again, and gets another series.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from leveret.broker.queues.contract.status import CoarseCounts, ConsumerFigures
from leveret.broker.runtime.counts import MessageCounts
from leveret.mgmt.node_facade.declared import NO_COUNTS
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.node_facade.facts import Place
from leveret.mgmt.slices import GiveWay, Slices
from leveret.mgmt.statistics.holding import Holding
from leveret.mgmt.statistics.series import GLOBAL, Row, Series
from leveret.mgmt.statistics.stream_lags import StreamLags, uses_of_streams

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

COUNTERS_OF_A_QUEUE = len(QUEUE_MESSAGES)
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


async def sums_of(node: NodeFacade, vhosts: Iterable[str], give_way: GiveWay) -> QueueSums:
    """The messages and consumers of this node's queues in these vhosts, summed up in slices."""
    ready = unacked = messages = consumers = 0
    for vhost in vhosts:
        for number, (_, counts) in enumerate(node.own_counts(vhost)):
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


class ObjectSeries:
    """The series of objects, by their names; those of a vhost's objects by vhost and name."""

    def __init__(self) -> None:
        self.connections: dict[str, Series] = {}
        self.channels: dict[str, Series] = {}
        self.queues: dict[str, dict[str, Series]] = {}
        self.exchanges: dict[str, dict[str, Series]] = {}

    def connection(self, name: str, row: Row) -> Series | None:
        """The series of a connection with these counts; None if it has none yet."""
        return _of_same(self.connections.get(name), row, len(CONNECTION))

    def channel(self, name: str, row: Row) -> Series | None:
        """The series of a channel."""
        return _of_same(self.channels.get(name), row, len(MESSAGES))

    def queue(self, vhost: str, name: str, row: Row) -> Series | None:
        """The series of a queue."""
        return _of_same(self.queues.get(vhost, {}).get(name), row, COUNTERS_OF_A_QUEUE)

    def exchange(self, vhost: str, name: str, row: Row) -> Series | None:
        """The series of an exchange."""
        return _of_same(self.exchanges.get(vhost, {}).get(name), row, len(EXCHANGE))


def _of_same(series: Series | None, row: Row, counters: int) -> Series | None:
    """The series, unless the counters, which a row begins with, are those of another object."""
    return None if series is None or series.is_of_another(row, counters) else series


class Sampler:
    """The series of a node, by the objects that they belong to, and of the whole node.

    node_row: makes the present row of the node's own series.
    """

    def __init__(
        self, node: NodeFacade, interval_ms: int, node_row: Callable[[], Row] = lambda: ()
    ) -> None:
        self.facade = node
        self.interval_ms = interval_ms
        self.messages = Series(GLOBAL)
        self.lengths = Series(GLOBAL)
        self.churn = Series(GLOBAL)
        self.node = Series(GLOBAL)
        self.vhosts: dict[str, Series] = {}
        self.vhost_lengths: dict[str, Series] = {}
        self.objects = ObjectSeries()
        self.oldest_unacked_ms: dict[Place, int] = {}
        self.stream_lags = StreamLags()
        self._node_row = node_row
        self._holding = Holding()
        self._task: asyncio.Task[None] | None = None
        self.give_way = Slices().give_way

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds."""
        return int(self.facade.wall_time_s() * 1000)

    def forget_objects(self) -> None:
        """Begin all series of objects again."""
        self.objects = ObjectSeries()

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
        kept = ObjectSeries()
        totals, whole = await self._sample_channels(time_ms, kept)
        lengths = await self._sample_vhosts(time_ms, kept)
        self.objects = kept
        self.stream_lags.sample(time_ms, await uses_of_streams(self.facade, self.give_way))
        whole = (*whole, *self.disk_row())
        self.messages.add(time_ms, _not_less(whole, self.messages.last))
        self.lengths.add(time_ms, _summed(lengths.values(), len(LENGTHS)))
        self.churn.add(time_ms, self.churn_row())
        self.node.add(time_ms, self._node_row())
        self._add_all(self.vhosts, totals, time_ms)
        self._add_all(self.vhost_lengths, lengths, time_ms)
        for all_series in (self.vhosts, self.vhost_lengths):
            for gone in [name for name in all_series if not self.facade.has_vhost(name)]:
                del all_series[gone]

    async def _sample_channels(
        self, time_ms: int, kept: ObjectSeries
    ) -> tuple[dict[str, Row], Row]:
        """The messages of each vhost, and of the node."""
        # Closed channels come first: one that closes during the round must not be counted twice.
        node, before = self.facade, self.objects
        whole = message_row(node.counts.closed_channels)
        totals = {name: message_row(one) for name, one in node.closed_channels().items()}
        oldest: dict[Place, int] = {}
        holding = self._holding.next_round()
        for connection in node.connections_in_any_state():
            name = connection.name
            row: Row = connection.traffic[: len(CONNECTION)]
            self._add(kept.connections, name, before.connection(name, row), time_ms, row)
            has_channels = bool(connection.channel_count)
            for channel in connection.sessions():
                name = channel.name
                row = message_row(channel.counts())
                if has_channels:
                    self._add(kept.channels, name, before.channel(name, row), time_ms, row)
                whole = add_rows(whole, row)
                if channel.vhost in totals:
                    totals[channel.vhost] = add_rows(totals[channel.vhost], row)
                held = channel.held(LOOKED_AT_MAX)
                for place, at_ms in held.queues.items():
                    oldest[place] = min(at_ms, oldest.get(place, at_ms))
                holding.add(name, held, node.now_ms())
                await self.give_way()
        self.oldest_unacked_ms = oldest
        self._holding = holding
        for name, row in totals.items():
            if name in self.vhosts:
                totals[name] = _not_less(row, self.vhosts[name].last)
        return totals, whole

    async def _sample_vhosts(self, time_ms: int, kept: ObjectSeries) -> dict[str, Row]:
        """The messages in the queues of each vhost."""
        lengths = {}
        for vhost in self.facade.vhost_names():
            lengths[vhost] = await self._sample_queues(vhost, time_ms, kept)
            exchanges = kept.exchanges[vhost] = {}
            for one in self.facade.exchanges(vhost):
                row = (one.published, one.routed)
                series = self.objects.exchange(vhost, one.name, row)
                self._add(exchanges, one.name, series, time_ms, row)
        return lengths

    async def _sample_queues(self, vhost: str, time_ms: int, kept: ObjectSeries) -> Row:
        total: Row = (0, 0, 0)
        queues: dict[str, Series] = {}
        kept.queues[vhost] = queues
        known = self.objects.queues.get(vhost, {})
        for number, (name, counts) in enumerate(self.facade.own_counts(vhost)):
            series = known.get(name)
            if series is not None or counts != NO_COUNTS:
                row = queue_row(counts)
                if series is None or series.is_of_another(row, COUNTERS_OF_A_QUEUE):
                    self._add(queues, name, None, time_ms, row)
                else:
                    series.add(time_ms, row)
                    queues[name] = series
                if row[COUNTERS_OF_A_QUEUE]:
                    total = add_rows(total, row[COUNTERS_OF_A_QUEUE:])
            if number % SAMPLED_AT_ONCE == 0:
                await self.give_way()
        return total

    def _add(
        self, kept: dict[str, Series], name: str, series: Series | None, time_ms: int, row: Row
    ) -> None:
        """Add a row to the series of an object; without one, begin it if anything has happened."""
        if series is None:
            if not any(row):
                return
            series = Series()
            series.add(time_ms - self.interval_ms, (0,) * len(row))
        series.add(time_ms, row)
        kept[name] = series

    @staticmethod
    def _add_all(all_series: dict[str, Series], rows: dict[str, Row], time_ms: int) -> None:
        for name, row in rows.items():
            if name not in all_series:
                all_series[name] = Series(GLOBAL)
            all_series[name].add(time_ms, row)

    # Present values

    def idle_since_s(self, series: Series | None, made_at_s: float) -> float | None:
        """Since when an object has been idle, in wall-clock seconds; None if it is active.

        made_at_s: when it was declared or opened.
        """
        if series is None:
            return made_at_s
        changed_ms = series.changed_ms
        return None if self.now_ms() - changed_ms < 2 * self.interval_ms else changed_ms / 1000

    def oldest_unacked_age_ms(self, queue: Place, counts: CoarseCounts) -> int | None:
        """How long ago the oldest unacked message was delivered; None if there is none.

        As of the last round: a later delivery is not known yet. counts: the queue's present counts.
        """
        delivered_at_ms = self.oldest_unacked_ms.get(queue)
        if delivered_at_ms is None or not counts.unacked:
            return None
        return self.facade.now_ms() - delivered_at_ms

    def stalled_since_s(self, consumer: ConsumerFigures) -> float | None:
        """Since when the consumer has held messages and settled none, in wall-clock seconds.

        None if it is busy, or was within the last minute. As of the last round.
        """
        since_ms = self._holding.since_ms(consumer.channel_name, consumer.tag)
        if since_ms is None or not consumer.unacked:
            return None
        idle_ms = self.facade.now_ms() - since_ms
        return None if idle_ms < STALLED_MS else self.facade.wall_time_s() - idle_ms / 1000

    async def queue_sums(self) -> QueueSums:
        """The messages and consumers of the queues that live on this node."""
        return await sums_of(self.facade, self.facade.vhost_names(), self.give_way)

    def totals(self) -> MessageCounts:
        """The messages of the whole node since it started."""
        total = self.facade.counts.closed_channels.copy()
        for connection in self.facade.connections_in_any_state():
            for channel in connection.sessions():
                total.add(channel.counts())
        return total

    def disk_row(self) -> Row:
        """In the order of `DISK`: messages that were paged in and out since the start."""
        figures = self.facade.store_figures()
        return (0, 0) if figures is None else (figures.messages_read, figures.messages_written)

    def churn_row(self) -> Row:
        """In the order of `CHURN`."""
        counts = self.facade.counts
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

"""Takes samples of everything that is counted, every `collect_statistics_interval`.

A round goes over all queues, channels, connections and exchanges in slices, with the node's other
work in between, and adds a row to the series of each that has something to tell. What is gone is
forgotten with the round. Sums for the node and for each vhost are made on the way.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable

from broker.channel.channel import Channel
from broker.counts import MessageCounts
from broker.queues.actor import Queue
from broker.server import Broker
from mgmt.slices import Slices
from mgmt.statistics.series import BASIC, GLOBAL, Retention, Row, Series

MESSAGES = (
    "publish", "confirm", "return_unroutable", "drop_unroutable", "deliver", "deliver_no_ack",
    "get", "get_no_ack", "get_empty", "redeliver", "ack", "deliver_get",
)  # fmt: skip
"""The columns of a channel's series, and of the sums."""
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

logger = logging.getLogger("leveret.management")


def message_row(counts: MessageCounts) -> Row:
    """In the order of `MESSAGES`."""
    given = counts.delivered + counts.delivered_no_ack + counts.got + counts.got_no_ack
    return (
        counts.published, counts.confirmed, counts.returned, counts.dropped, counts.delivered,
        counts.delivered_no_ack, counts.got, counts.got_no_ack, counts.got_empty,
        counts.redelivered, counts.acked, given,
    )  # fmt: skip


def queue_row(queue: Queue) -> Row:
    """In the order of `QUEUE`."""
    backing = queue.backing
    ready, unacked = backing.ready_count, backing.unacked_count
    delivered, no_ack = queue.delivered_count, queue.delivered_no_ack_count
    got, got_no_ack = queue.got_count, queue.got_no_ack_count
    return (
        queue.published_count, delivered, no_ack, got, got_no_ack, queue.got_empty_count,
        queue.redelivered_count, queue.acked_count, delivered + no_ack + got + got_no_ack,
        ready + unacked, ready, unacked,
    )  # fmt: skip


def add_rows(one: Row, other: Row) -> Row:
    """Column by column."""
    return tuple(map(sum, zip(one, other, strict=True)))


class Sampler:
    """The series of a node. now_ms: wall-clock time in milliseconds."""

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
        self.oldest_unacked_ms: dict[Queue, int] = {}
        self._task: asyncio.Task[None] | None = None
        self.give_way = Slices().give_way

    def now_ms(self) -> int:
        """Wall-clock time."""
        return int(self.broker.services.clock.wall_time_s() * 1000)

    def start(self) -> None:
        """Take samples until `stop`."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Take no more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self.sample()
            except Exception:
                logger.exception("statistics could not be taken")
            await asyncio.sleep(self.interval_ms / 1000)

    async def sample(self) -> None:
        """One round."""
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
        # Channels that are gone first: one that closes meanwhile must not count twice.
        services = self.broker.services
        whole = message_row(services.counts.closed_channels)
        totals = {
            name: message_row(vhost.closed_channels) for name, vhost in services.vhosts.items()
        }
        oldest: dict[Queue, int] = {}
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
                _note_oldest(channel, oldest)
                await self.give_way()
        self.oldest_unacked_ms = oldest
        for name, row in totals.items():
            if name in self.vhosts:
                totals[name] = _not_less(row, self.vhosts[name].last)
        return totals, whole

    async def _sample_queues(self, time_ms: int, kept: dict[Hashable, Series]) -> dict[str, Row]:
        lengths = {}
        for vhost in tuple(self.broker.services.vhosts.values()):
            total: Row = (0, 0, 0)
            for queue in tuple(vhost.queues.values()):
                row = queue_row(queue)
                self._add(kept, queue, time_ms, row)
                total = add_rows(total, row[-3:])
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
                all_series[name] = Series(BASIC)
            all_series[name].add(time_ms, row)

    # What is now

    def idle_since_s(self, thing: Queue | Channel) -> float | None:
        """Since when nothing has happened to it, in wall-clock seconds; None if something does."""
        series = self.objects.get(thing)
        if series is None:
            return thing.idle_since_s
        changed_ms = series.changed_ms
        return None if self.now_ms() - changed_ms < 2 * self.interval_ms else changed_ms / 1000

    def totals(self) -> MessageCounts:
        """The messages of the whole node since it started."""
        total = self.broker.services.counts.closed_channels.copy()
        for connection in self.broker.connections:
            for channel in connection.channels.values():
                total.add(channel.message_counts())
        return total

    def disk_row(self) -> Row:
        """In the order of `DISK`: messages that were paged in and out, since the start."""
        store = self.broker.store
        return (0, 0) if store is None else (store.disk_reads, store.disk_writes)

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
    """What closed while others were looked at counts the next time; until then all is as before."""
    return row if before is None else tuple(map(max, row, before))


LOOKED_AT_MAX = 1000
"""Unsettled deliveries of one channel that are looked at for the oldest of each queue."""


def _note_oldest(channel: Channel, oldest: dict[Queue, int]) -> None:
    """When the oldest unsettled delivery of each queue was made, on the broker's clock."""
    for number, record in enumerate(channel.unacked.records.values()):
        if number >= LOOKED_AT_MAX:
            return
        known = oldest.get(record.queue)
        if known is None or record.delivered_at_ms < known:
            oldest[record.queue] = record.delivered_at_ms

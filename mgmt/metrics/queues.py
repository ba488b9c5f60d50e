"""The metrics of queues: a table with a row for each queue and a column for each family; sums."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from leveret.broker.queues.contract.retry_delay import DISABLED
from leveret.broker.queues.contract.status import CoarseCounts, QueueStatus
from leveret.broker.runtime.patterns import Pattern
from leveret.mgmt.metrics import families as names
from leveret.mgmt.metrics.text import Exposition, Row, Value, render_labels
from leveret.mgmt.node_facade.facts import Place
from leveret.mgmt.statistics.sampler import Sampler

COLUMNS = (
    names.QUEUE_COARSE + names.QUEUE_CONSUMERS + names.QUEUE + names.PUBLISHED
    + names.QUEUE_DELIVERY
)  # fmt: skip
GROUPS = {
    "queue_coarse_metrics": names.QUEUE_COARSE,
    "queue_consumer_count": names.QUEUE_CONSUMERS,
    "queue_metrics": names.QUEUE_CONSUMERS + names.QUEUE,
    "queue_delivery_metrics": names.QUEUE_DELIVERY,
}
OTHER_GROUPS = frozenset(("channel_queue_metrics", "channel_queue_exchange_metrics"))
ALL = names.QUEUE_COARSE + names.QUEUE_CONSUMERS + names.QUEUE
NOT_SUMMED = frozenset((
    "queue_consumer_capacity", "queue_head_message_timestamp",
    "queue_next_delayed_timestamp_seconds",
))  # fmt: skip
DISK_FAMILIES = ("queue_disk_reads_total", "queue_disk_writes_total")
SUMMED_AT_ONCE = 256
LOOKED_AT_ONCE = 20
"""Queues examined before the slice may end: a tenth of a millisecond."""
PUBLISHED_AT = COLUMNS.index(names.PUBLISHED[0])
TIMESTAMP_AT, SEGMENTS_AT, DUPLICATES_AT, IDENTIFIERS_AT, DELAYED_AT, NEXT_DELAYED_AT = (
    [family.name for family in COLUMNS].index(name)
    for name in (
        "queue_head_message_timestamp", "stream_segments", "queue_duplicates_total",
        "queue_deduplication_identifiers", "queue_messages_delayed",
        "queue_next_delayed_timestamp_seconds",
    )
)  # fmt: skip
DELIVERY_AT = COLUMNS.index(names.QUEUE_DELIVERY[0])


class QueueRows(NamedTuple):
    """Queues, and the row of each."""

    queues: list[Place]
    rows: list[Row]


async def each_queue(
    sampler: Sampler, vhosts: set[str] | None = None
) -> AsyncIterator[tuple[Place, QueueStatus]]:
    """The queues that live on this node, of all vhosts or of some, in slices."""
    for vhost in sampler.facade.vhost_names():
        if vhosts is None or vhost in vhosts:
            for number, (name, status) in enumerate(sampler.facade.own_statuses(vhost)):
                yield (vhost, name), status
                if number % LOOKED_AT_ONCE == 0:
                    await sampler.give_way()


async def gather(sampler: Sampler, vhosts: set[str] | None = None) -> QueueRows:
    """A row for each queue."""
    found = QueueRows([], [])
    async for place, status in each_queue(sampler, vhosts):
        found.queues.append(place)
        row: list[Value] = [*_state(status), *_counts(status.counts)]
        row[TIMESTAMP_AT] = status.head_timestamp_s
        if status.stream is None:
            row[SEGMENTS_AT] = None
        row[NEXT_DELAYED_AT] = _next_delayed_s(status)
        if row[NEXT_DELAYED_AT] is None:
            row[DELAYED_AT] = None
        if status.deduplication is None:
            row[DUPLICATES_AT] = row[IDENTIFIERS_AT] = None
        found.rows.append(row)
    return found


async def labels_of(sampler: Sampler, found: QueueRows, vhost_label: str = "vhost") -> list[str]:
    """The labels of queues, rendered."""
    labels = []
    for vhost, queue in found.queues:
        labels.append(render_labels(((vhost_label, vhost), ("queue", queue))))
        await sampler.give_way()
    return labels


async def add_queues(
    page: Exposition, sampler: Sampler, vhosts: set[str] | None, groups: set[str]
) -> None:
    """Add each queue to a page. groups: the groups of families, by RabbitMQ's names."""
    found = await gather(sampler, vhosts)
    wanted = tuple(dict.fromkeys(family for name in GROUPS if name in groups
                                 for family in GROUPS[name]))  # fmt: skip
    labels = await labels_of(sampler, found)
    page.add_table(wanted, [COLUMNS.index(family) for family in wanted], labels, found.rows)
    if "channel_queue_metrics" in groups:
        # RabbitMQ has these for each pair of a channel and a queue; here they are counted by queue.
        end = DELIVERY_AT + len(names.CHANNEL_QUEUE)
        page.add_table(names.CHANNEL_QUEUE, range(DELIVERY_AT, end), labels, found.rows)
    if "channel_queue_exchange_metrics" in groups:
        labels = await labels_of(sampler, found, "queue_vhost")
        page.add_table(names.PUBLISHED, (PUBLISHED_AT,), labels, found.rows)


async def add_sums(page: Exposition, sampler: Sampler, left_out: Pattern | None) -> None:
    """Add the sums over queues to a page. left_out: matches the names of queues to leave out."""
    rows: list[tuple[float, ...]] = [(0,) * len(ALL)]
    async for (_, name), status in each_queue(sampler):
        if left_out is None or not left_out.matches(name):
            rows.append(_state(status))
        if len(rows) > SUMMED_AT_ONCE:
            rows = [_sums(rows)]
    # Counters of the disk include queues that were deleted.
    on_disk = dict(zip(DISK_FAMILIES, sampler.disk_row(), strict=True))
    for family, total in zip(ALL, _sums(rows), strict=True):
        value = None if family.name in NOT_SUMMED else on_disk.get(family.name, total)
        page.add(family, value)


def _sums(rows: list[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*rows, strict=True)))


def _state(status: QueueStatus) -> tuple[float, ...]:
    """In the order of `ALL`; without the timestamp, which may be None."""
    counts, storage, capacity = status.counts, status.storage, status.consumer_capacity
    # Delayed messages of a classic queue are among those of its store.
    delayed = 0 if status.retries is not None else counts.delayed
    return (
        counts.ready, counts.unacked, counts.messages, counts.consumers, capacity, capacity,
        status.memory_bytes, storage.ram, storage.ram_bytes, storage.ready_ram, storage.unacked_ram,
        storage.persistent + counts.dlx + delayed,
        storage.persistent_bytes + status.dlx_bytes,
        storage.ready_bytes + storage.unacked_bytes + status.dlx_bytes,
        storage.ready_bytes, storage.unacked_bytes, storage.paged_out, storage.paged_out_bytes,
        0, storage.disk_reads, storage.disk_writes, 0,
        0 if status.stream is None else status.stream.segments,
        counts.duplicates, 0 if status.deduplication is None else status.deduplication.entries,
        counts.delayed, 0, counts.expired_on_time,
    )  # fmt: skip


def _next_delayed_s(status: QueueStatus) -> float | None:
    """When the first delayed message is delivered again; None without delayed retries."""
    retries = status.retries or status.quorum
    if retries is None or (retries.delayed_retry == DISABLED and not status.counts.delayed):
        return None
    return retries.next_delayed_ms / 1000


def _counts(counts: CoarseCounts) -> tuple[int, ...]:
    """In the order of `PUBLISHED` and `QUEUE_DELIVERY`."""
    return (
        counts.published, counts.got, counts.got_no_ack, counts.delivered,
        counts.delivered_no_ack, counts.redelivered, counts.acked, counts.got_empty,
    )  # fmt: skip

"""The metrics of queues: a row for each, of which families are columns, and their sums."""

import re
from collections.abc import AsyncIterator
from typing import NamedTuple

from broker.queues.actor import Queue
from broker.vhost import VirtualHost
from mgmt.metrics import families as names
from mgmt.metrics.text import Exposition, Row, Value, render_labels
from mgmt.statistics.sampler import Sampler
from mgmt.views.queues import capacity_of, head_timestamp, memory_of

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
NOT_SUMMED = frozenset(("queue_consumer_capacity", "queue_head_message_timestamp"))
DISK_FAMILIES = ("queue_disk_reads_total", "queue_disk_writes_total")
SUMMED_AT_ONCE = 256
PUBLISHED_AT = COLUMNS.index(names.PUBLISHED[0])
TIMESTAMP_AT = next(
    place for place, family in enumerate(COLUMNS) if family.name == "queue_head_message_timestamp"
)
DELIVERY_AT = COLUMNS.index(names.QUEUE_DELIVERY[0])


class Rows(NamedTuple):
    """Queues, and a row for each."""

    queues: list[tuple[VirtualHost, Queue]]
    rows: list[Row]


async def each_queue(
    sampler: Sampler, vhosts: set[str] | None = None
) -> AsyncIterator[tuple[VirtualHost, Queue]]:
    """All queues, or those of some vhosts, with the node's other work in between."""
    for vhost in tuple(sampler.broker.services.vhosts.values()):
        if vhosts is None or vhost.name in vhosts:
            for queue in tuple(vhost.queues.values()):
                yield vhost, queue
                await sampler.give_way()


async def gather(sampler: Sampler, vhosts: set[str] | None = None) -> Rows:
    """A row for each queue."""
    found = Rows([], [])
    async for vhost, queue in each_queue(sampler, vhosts):
        found.queues.append((vhost, queue))
        row: list[Value] = [*_state(queue), *_counts(queue)]
        row[TIMESTAMP_AT] = head_timestamp(queue)
        found.rows.append(row)
    return found


async def labels_of(sampler: Sampler, found: Rows, vhost_label: str = "vhost") -> list[str]:
    """The labels of queues, rendered."""
    labels = []
    for vhost, queue in found.queues:
        labels.append(render_labels(((vhost_label, vhost.name), ("queue", queue.name))))
        await sampler.give_way()
    return labels


async def add_queues(
    page: Exposition, sampler: Sampler, vhosts: set[str] | None, groups: set[str]
) -> None:
    """Each queue. groups: of families, by RabbitMQ's names for them."""
    found = await gather(sampler, vhosts)
    wanted = tuple(dict.fromkeys(family for name in GROUPS if name in groups
                                 for family in GROUPS[name]))  # fmt: skip
    labels = await labels_of(sampler, found)
    page.add_table(wanted, [COLUMNS.index(family) for family in wanted], labels, found.rows)
    if "channel_queue_metrics" in groups:
        # RabbitMQ has these for each channel and queue; which channel it was is not counted here.
        end = DELIVERY_AT + len(names.CHANNEL_QUEUE)
        page.add_table(names.CHANNEL_QUEUE, range(DELIVERY_AT, end), labels, found.rows)
    if "channel_queue_exchange_metrics" in groups:
        labels = await labels_of(sampler, found, "queue_vhost")
        page.add_table(names.PUBLISHED, (PUBLISHED_AT,), labels, found.rows)


async def add_sums(page: Exposition, sampler: Sampler, left_out: re.Pattern[str] | None) -> None:
    """All queues together. left_out: names of queues that do not count."""
    rows: list[tuple[float, ...]] = [(0,) * len(ALL)]
    async for _, queue in each_queue(sampler):
        if left_out is None or left_out.search(queue.name) is None:
            rows.append(_state(queue))
        if len(rows) > SUMMED_AT_ONCE:
            rows = [_sums(rows)]
    # Those of queues that are gone are not to be missing.
    on_disk = dict(zip(DISK_FAMILIES, sampler.disk_row(), strict=True))
    for family, total in zip(ALL, _sums(rows), strict=True):
        value = None if family.name in NOT_SUMMED else on_disk.get(family.name, total)
        page.add(family, value)


def _sums(rows: list[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*rows, strict=True)))


def _state(queue: Queue) -> tuple[float, ...]:
    """In the order of `ALL`; without the timestamp, which may be none."""
    status = queue.backing.status()
    ready, unacked = queue.backing.ready_count, queue.backing.unacked_count
    capacity = capacity_of(queue)
    return (
        ready, unacked, ready + unacked, len(queue.ring.consumers), capacity, capacity,
        memory_of(queue, status), status["messages_ram"], status["message_bytes_ram"],
        status["messages_ready_ram"], status["messages_unacknowledged_ram"],
        status["messages_persistent"], status["message_bytes_persistent"],
        status["message_bytes"], status["message_bytes_ready"],
        status["message_bytes_unacknowledged"], status["messages_paged_out"],
        status["message_bytes_paged_out"], 0, status["disk_reads"], status["disk_writes"],
    )  # fmt: skip


def _counts(queue: Queue) -> tuple[int, ...]:
    """In the order of `PUBLISHED` and `QUEUE_DELIVERY`."""
    return (
        queue.published_count, queue.got_count, queue.got_no_ack_count, queue.delivered_count,
        queue.delivered_no_ack_count, queue.redelivered_count, queue.acked_count,
        queue.got_empty_count,
    )  # fmt: skip

"""Collects the metrics of a node: totals, or each object's, or the families that are asked for.

`/metrics` sums over objects, so that its size does not grow with them; `/metrics/per-object` has a
sample for each; `/metrics/detailed?family=...&vhost=...` the chosen families of chosen vhosts, with
`rabbitmq_detailed_` before their names. Ages have a bounded number of labels even in the totals:
the `BUSIEST_MAX` queues that delivered most, and the others summed.
"""

import time
from collections.abc import Iterable
from heapq import nlargest
from typing import Any

from broker.channel.channel import Channel
from broker.net.connection import Connection
from broker.net.handshake import COMPATIBLE_VERSION
from broker.queues.actor import Queue
from broker.queues.age import BOUNDS_MS
from broker.vhost import VirtualHost
from mgmt.metrics import families as names
from mgmt.metrics.text import Exposition, render_labels
from mgmt.node import Node, file_limit
from mgmt.statistics.sampler import message_row
from mgmt.views.connections import open_connections
from mgmt.views.queues import memory_of

PREFIX, DETAILED_PREFIX = "rabbitmq_", "rabbitmq_detailed_"
BUSIEST_MAX = 20
OTHERS = "(others)"
PROTOCOL = (("protocol", "amqp091"),)
QUEUE_TYPES = ("rabbit_classic_queue", "rabbit_quorum_queue", "rabbit_stream_queue")
VHOST_FAMILIES = frozenset(
    ("queue_coarse_metrics", "queue_consumer_count", "queue_metrics", "exchange_metrics")
)
FAMILIES = VHOST_FAMILIES | {
    "channel_metrics", "channel_exchange_metrics", "channel_queue_metrics",
    "channel_queue_exchange_metrics", "channel_process_metrics", "connection_coarse_metrics",
    "connection_metrics", "connection_churn_metrics", "auth_attempt_metrics",
    "auth_attempt_detailed_metrics", "node_coarse_metrics", "node_metrics",
    "node_persister_metrics", "ra_metrics", "vhost_status", "exchange_bindings",
    "exchange_names",
}  # fmt: skip

QueueRow = tuple[float | None, ...]


class Collector:
    """The metrics of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def totals(self) -> bytes:
        """`/metrics`."""
        page = Exposition(PREFIX)
        self._add_node(page)
        sums: list[float] = [0.0] * len(_QUEUE_FAMILIES)
        async for _, _, row in self._queue_rows(None):
            for column, value in enumerate(row):
                if _QUEUE_FAMILIES[column] in _SUMMED:
                    sums[column] += value or 0
        for family, value in zip(_QUEUE_FAMILIES, sums, strict=True):
            if family in _SUMMED:
                page.add(family, _plain(value))
        await self._add_sums_of_clients(page)
        await self._add_ages(page)
        return page.render()

    async def per_object(self) -> bytes:
        """`/metrics/per-object`."""
        page = Exposition(PREFIX)
        self._add_node(page)
        await self._add_queues(page, _QUEUE_FAMILIES, None)
        await self._add_connections(page)
        await self._add_channels(page, names.CHANNEL + names.CHANNEL_MESSAGES)
        await self._add_ages(page)
        return page.render()

    async def detailed(self, wanted: set[str], vhosts: set[str] | None) -> bytes:
        """`/metrics/detailed`."""
        page = Exposition(DETAILED_PREFIX)
        chosen = [
            family for name, group in _QUEUE_GROUPS.items() if name in wanted for family in group
        ]
        if chosen:
            await self._add_queues(page, tuple(dict.fromkeys(chosen)), vhosts)
        if wanted & {"connection_coarse_metrics", "connection_metrics"}:
            await self._add_connections(page)
        channel_families = [
            family for name, group in _CHANNEL_GROUPS.items() if name in wanted for family in group
        ]
        if channel_families:
            await self._add_channels(page, tuple(dict.fromkeys(channel_families)))
        self._add_detailed_node(page, wanted)
        self._add_detailed_objects(page, wanted, vhosts)
        self._add_identity(page)
        return page.render()

    # The node

    def _add_node(self, page: Exposition) -> None:
        node = self._node
        broker = node.sampler.broker
        used, files, sockets, _, free = node.node_row()
        uptime = time.time() - node.started_at_s
        page.add_row(names.NODE, (
            files, sockets, used, free, file_limit(), file_limit(), node.memory_limit,
            node.disk_limit, round(uptime, 3),
        ))  # fmt: skip
        page.add_row(names.CHURN, tuple(node.sampler.churn_row()))
        alarms = broker.services.alarms
        page.add_row(names.ALARMS, (0, int(alarms.has("disk")), int(alarms.has("memory"))))
        connections = open_connections(node.sampler)
        vhosts = broker.services.vhosts.values()
        consumers = sum(len(q.ring.consumers) for v in vhosts for q in v.queues.values())
        page.add_row(names.TOTALS, (
            len(connections), sum(len(one.channels) for one in connections), consumers,
            sum(len(vhost.queues) for vhost in vhosts),
        ))  # fmt: skip
        self._add_auth(page)
        page.add_row(names.STORE, (0, 0, 0, 0, 0))
        self._add_global(page, consumers)
        self._add_identity(page)

    def _add_auth(self, page: Exposition) -> None:
        limiter = self._node.sampler.broker.services.access.limiter
        succeeded, failed = limiter.succeeded, limiter.failed
        page.add_row(names.AUTH, (succeeded + failed, succeeded, failed), render_labels(PROTOCOL))

    def _add_identity(self, page: Exposition) -> None:
        node = self._node
        build = (
            ("rabbitmq_version", COMPATIBLE_VERSION),
            ("prometheus_plugin_version", COMPATIBLE_VERSION),
            ("prometheus_client_version", "0"),
            ("erlang_version", "0"),
        )
        identity = (
            ("rabbitmq_node", node.name),
            ("rabbitmq_cluster", node.cluster_name),
            ("rabbitmq_cluster_permanent_id", node.cluster_name),
        )
        page.add(names.BUILD_INFO, 1, render_labels(build), prefix=PREFIX)
        page.add(names.IDENTITY_INFO, 1, render_labels(identity), prefix=PREFIX)

    def _add_global(self, page: Exposition, consumers: int) -> None:
        sampler = self._node.sampler
        services = sampler.broker.services
        totals = sampler.totals()
        with_confirms = services.counts.published_with_confirms
        publishers = 0
        for connection in open_connections(sampler):
            for channel in connection.channels.values():
                publishers += channel.counts.published > 0
                if channel.confirms is not None:
                    with_confirms += channel.confirms.published
        labels = render_labels(PROTOCOL)
        page.add_row(names.GLOBAL, (
            totals.published, with_confirms, totals.routed, totals.dropped, totals.returned,
            totals.confirmed, publishers, consumers,
        ), labels)  # fmt: skip
        delivered = totals.delivered + totals.delivered_no_ack + totals.got + totals.got_no_ack
        by_type = (
            delivered, totals.delivered_no_ack, totals.delivered, totals.got_no_ack, totals.got,
            totals.got_empty, totals.redelivered, totals.acked,
        )  # fmt: skip
        for number, queue_type in enumerate(QUEUE_TYPES):
            labels = render_labels((*PROTOCOL, ("queue_type", queue_type)))
            zeros = (0,) * len(by_type)
            page.add_row(names.GLOBAL_BY_QUEUE_TYPE, zeros if number else by_type, labels)
        dead = services.counts.dead_lettered
        for number, queue_type in enumerate(QUEUE_TYPES[:2]):
            labels = render_labels(
                (("queue_type", queue_type), ("dead_letter_strategy", "at_most_once"))
            )
            for reason, family in names.DEAD_LETTERED.items():
                page.add(family, 0 if number else dead.get(reason, 0), labels)
        page.add(names.DEAD_LETTERED_CONFIRMED, 0)

    # Queues

    async def _queue_rows(self, vhosts: set[str] | None) -> Any:
        sampler = self._node.sampler
        for vhost in tuple(sampler.broker.services.vhosts.values()):
            if vhosts is not None and vhost.name not in vhosts:
                continue
            for queue in tuple(vhost.queues.values()):
                yield vhost, queue, _queue_row(queue)
                await sampler.give_way()

    async def _add_queues(
        self, page: Exposition, wanted: tuple[names.Family, ...], vhosts: set[str] | None
    ) -> None:
        columns = [(family, _QUEUE_FAMILIES.index(family)) for family in wanted]
        async for vhost, queue, row in self._queue_rows(vhosts):
            labels = render_labels((("vhost", vhost.name), ("queue", queue.name)))
            for family, column in columns:
                page.add(family, row[column], labels)

    async def _add_ages(self, page: Exposition) -> None:
        """The busiest queues, each with its labels, and the others together."""
        sampler = self._node.sampler
        found: list[tuple[VirtualHost, Queue]] = [
            (vhost, queue)
            for vhost in sampler.broker.services.vhosts.values()
            for queue in vhost.queues.values()
            if queue.published_count or queue.backing.ready_count
        ]
        busiest = nlargest(BUSIEST_MAX, found, key=lambda pair: pair[1].published_count)
        chosen = {id(queue) for _, queue in busiest}
        others = [queue for _, queue in found if id(queue) not in chosen]
        for vhost, queue in busiest:
            self._add_age(page, [queue], (("vhost", vhost.name), ("queue", queue.name)))
        if others:
            self._add_age(page, others, (("vhost", OTHERS), ("queue", OTHERS)))
        await sampler.give_way()

    def _add_age(
        self, page: Exposition, queues: list[Queue], labels: tuple[tuple[str, str], ...]
    ) -> None:
        sampler = self._node.sampler
        now_ms = sampler.broker.services.clock.now_ms()
        ready = [age for age in (queue.oldest_ready_age_ms() for queue in queues) if age]
        unacked = [
            now_ms - sampler.oldest_unacked_ms[queue]
            for queue in queues
            if queue in sampler.oldest_unacked_ms and queue.backing.unacked_count
        ]
        page.add_row(
            names.AGES,
            (max(ready, default=0) / 1000, max(unacked, default=0) / 1000),
            render_labels(labels),
        )
        every = [ages for queue in queues for ages in (queue.ages, *_levels(queue))]
        counts = [sum(column) for column in zip(*(ages.counts for ages in every), strict=True)]
        bounds = {bound / 1000: count for bound, count in zip(BOUNDS_MS, counts, strict=False)}
        total_s = sum(ages.sum_ms for ages in every) / 1000
        page.add_histogram(names.TIME_IN_QUEUE, bounds, counts[-1], total_s, labels)

    # Clients

    async def _add_sums_of_clients(self, page: Exposition) -> None:
        sampler = self._node.sampler
        connections = open_connections(sampler)
        rows = [_connection_row(connection) for connection in connections]
        _add_sum(page, _CONNECTION_FAMILIES, rows)
        channels = [one for connection in connections for one in connection.channels.values()]
        _add_sum(page, _CHANNEL_FAMILIES, [_channel_row(channel) for channel in channels])
        await sampler.give_way()

    async def _add_connections(self, page: Exposition) -> None:
        for connection in open_connections(self._node.sampler):
            labels = render_labels((("channel", connection.name),))
            page.add_row(_CONNECTION_FAMILIES, _connection_row(connection), labels)
            await self._node.sampler.give_way()

    async def _add_channels(self, page: Exposition, wanted: tuple[names.Family, ...]) -> None:
        columns = [(family, _CHANNEL_FAMILIES.index(family)) for family in wanted]
        for connection in open_connections(self._node.sampler):
            for channel in tuple(connection.channels.values()):
                labels = render_labels((("channel", f"{connection.name} ({channel.number})"),))
                row = _channel_row(channel)
                for family, column in columns:
                    page.add(family, row[column], labels)
            await self._node.sampler.give_way()

    # Details

    def _add_detailed_node(self, page: Exposition, wanted: set[str]) -> None:
        node = self._node
        if "connection_churn_metrics" in wanted:
            page.add_row(names.CHURN, tuple(node.sampler.churn_row()))
        if "auth_attempt_metrics" in wanted:
            self._add_auth(page)
        if wanted & {"node_coarse_metrics", "node_metrics"}:
            used, files, sockets, _, free = node.node_row()
            page.add_row(names.NODE[:4], (files, sockets, used, free))
        if "node_persister_metrics" in wanted:
            page.add_row(names.STORE, (0, 0, 0, 0, 0))

    def _add_detailed_objects(
        self, page: Exposition, wanted: set[str], vhosts: set[str] | None
    ) -> None:
        for vhost in self._node.sampler.broker.services.vhosts.values():
            if vhosts is not None and vhost.name not in vhosts:
                continue
            if "vhost_status" in wanted:
                labels = render_labels((("vhost", vhost.name),))
                page.add(names.VHOST_STATUS, int(not vhost.is_deleted), labels)
            for exchange in vhost.exchanges.values():
                labels = render_labels(
                    (("vhost", vhost.name), ("exchange", exchange.name),
                     ("type", exchange.type_name))
                )  # fmt: skip
                if "exchange_bindings" in wanted:
                    page.add(names.EXCHANGE_BINDINGS, len(exchange.bindings), labels)
                if "exchange_names" in wanted:
                    page.add(names.EXCHANGE_NAME, 1, labels)


def _plain(value: float) -> float:
    return int(value) if value == int(value) else value


def _levels(queue: Queue) -> Iterable[Any]:
    return (queue.level_ages or {}).values()


def _add_sum(
    page: Exposition, families: tuple[names.Family, ...], rows: list[tuple[int, ...]]
) -> None:
    sums = tuple(map(sum, zip(*rows, strict=True))) if rows else (0,) * len(families)
    page.add_row(families, sums)


_QUEUE_FAMILIES = names.QUEUE_COARSE + names.QUEUE_CONSUMERS + names.QUEUE + names.PUBLISHED
_QUEUE_GROUPS = {
    "queue_coarse_metrics": names.QUEUE_COARSE,
    "queue_consumer_count": names.QUEUE_CONSUMERS,
    "queue_metrics": names.QUEUE_CONSUMERS + names.QUEUE,
    "channel_queue_exchange_metrics": names.PUBLISHED,
}
_NOT_SUMMED = frozenset(
    ("queue_consumer_capacity", "queue_consumer_utilisation", "queue_head_message_timestamp")
)
_SUMMED = frozenset(family for family in _QUEUE_FAMILIES if family.name not in _NOT_SUMMED)
_CONNECTION_FAMILIES = names.CONNECTION + names.CONNECTION_PACKETS
_CHANNEL_FAMILIES = names.CHANNEL + names.CHANNEL_MESSAGES
_CHANNEL_GROUPS = {
    "channel_metrics": names.CHANNEL,
    "channel_exchange_metrics": names.CHANNEL_MESSAGES[:4],
    "channel_queue_metrics": names.CHANNEL_MESSAGES[4:],
}


def _queue_row(queue: Queue) -> QueueRow:
    """In the order of `_QUEUE_FAMILIES`."""
    status = queue.backing.status()
    ready, unacked = queue.backing.ready_count, queue.backing.unacked_count
    consumers = queue.ring.consumers
    capacity = sum(one.room() > 0 for one in consumers) / len(consumers) if consumers else 0
    return (
        ready, unacked, ready + unacked, 0, len(consumers), capacity, capacity,
        memory_of(queue, status), status["messages_ram"], status["message_bytes_ram"],
        status["messages_ready_ram"], status["messages_unacknowledged_ram"],
        status["messages_persistent"], status["message_bytes_persistent"],
        status["message_bytes"], status["message_bytes_ready"],
        status["message_bytes_unacknowledged"], status.get("messages_paged_out", 0),
        status.get("message_bytes_paged_out", 0), None, 0, 0, queue.published_count,
    )  # fmt: skip


def _connection_row(connection: Connection) -> tuple[int, ...]:
    return (
        connection.bytes_in, connection.bytes_out, 0, connection.reads, connection.writes, 0,
        len(connection.channels),
    )  # fmt: skip


def _channel_row(channel: Channel) -> tuple[int, ...]:
    confirms, transaction = channel.confirms, channel.transaction
    return (
        len(channel.consumers), len(channel.unacked),
        confirms.unconfirmed_count if confirms is not None else 0,
        len(transaction.publishes) if transaction is not None else 0,
        len(transaction.taken()) if transaction is not None else 0,
        channel.prefetch_count, channel.global_prefetch_count,
        *message_row(channel.message_counts())[:-1],
    )  # fmt: skip

"""Queues as JSON, with RabbitMQ's fields (`rabbit_mgmt_wm_queue`) and those of docs/http-api.md."""

from collections.abc import Iterator
from typing import Any

from broker.channel.consumer import Consumer
from broker.net.connection import Connection
from broker.policies import merged
from broker.queues.actor import Queue
from broker.queues.age import BOUNDS_MS
from broker.vhost import VirtualHost
from mgmt.statistics.sampler import LENGTHS, QUEUE, QUEUE_MESSAGES, Sampler, queue_row
from mgmt.statistics.series import Window
from mgmt.views.channels import connection_details, consumer_view, message_stats
from mgmt.views.values import iso_time, table_to_json, text

NO_GARBAGE_COLLECTION = {
    "fullsweep_after": 0, "max_heap_size": 0, "min_bin_vheap_size": 0, "min_heap_size": 0,
    "minor_gcs": 0,
}  # fmt: skip
"""Erlang's; there for clients that look for it."""
QUEUE_BYTES = 2_500
MESSAGE_BYTES = 120
"""What a queue, and a message in it, take beside bodies, roughly."""


class QueueViews:
    """Makes views of queues. windows: samples that are asked for, of messages and of lengths."""

    def __init__(
        self, sampler: Sampler, node_name: str, windows: tuple[Window | None, Window | None]
    ) -> None:
        self._sampler = sampler
        self._node_name = node_name
        self._message_window, self._length_window = windows
        self._now_ms = sampler.now_ms()

    def listed(self, vhost: VirtualHost, queue: Queue) -> dict[str, Any]:
        """A queue as a list of queues has it."""
        status = queue.backing.status()
        row = queue_row(queue)
        policy, operator_policy = queue.policy, queue.operator_policy
        ring = queue.ring
        exclusive = next((one.tag for one in ring.consumers if one.is_exclusive), None)
        view: dict[str, Any] = {
            "name": text(queue.name),
            "vhost": text(vhost.name),
            "type": "classic",
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "exclusive": queue.is_exclusive,
            "arguments": table_to_json(queue.arguments),
            "node": self._node_name,
            "state": "running",
            "policy": policy.name if policy else None,
            "operator_policy": operator_policy.name if operator_policy else None,
            "effective_policy_definition": dict(merged(policy, operator_policy)),
            "consumers": len(ring.consumers),
            "consumer_utilisation": capacity_of(queue),
            "consumer_capacity": capacity_of(queue),
            "exclusive_consumer_tag": exclusive,
            "single_active_consumer_tag": ring.active.tag if ring.active else None,
            "recoverable_slaves": None,
            "head_message_timestamp": head_timestamp(queue),
            "garbage_collection": NO_GARBAGE_COLLECTION,
            "memory": memory_of(queue, status),
            "reductions": 0,
            "reductions_details": {"rate": 0.0},
            "storage_version": 1,
            "message_bytes_paged_out": 0,
            "messages_paged_out": 0,
            **status,
        }
        self._add_rates(view["backing_queue_status"], queue, row)
        self._add_owner(view, queue)
        self._add_counts(view, queue, row)
        view.update(self._ages(queue))
        return view

    def _add_rates(self, parts: dict[str, Any], queue: Queue, row: tuple[int, ...]) -> None:
        """How fast messages come and go, as RabbitMQ's backing queues show it."""
        series = self._sampler.objects.get(queue)

        def rate(name: str) -> float:
            return 0.0 if series is None else series.rate(QUEUE.index(name), self._now_ms)

        parts["version"] = 1
        parts["avg_ingress_rate"] = rate("publish")
        parts["avg_egress_rate"] = rate("deliver_get")
        parts["avg_ack_ingress_rate"] = rate("deliver")
        parts["avg_ack_egress_rate"] = rate("ack")
        parts["next_deliver_seq_id"] = row[QUEUE.index("deliver_get")]

    def _add_owner(self, view: dict[str, Any], queue: Queue) -> None:
        owner = queue.owner_connection
        if isinstance(owner, Connection):
            view["owner_pid_details"] = connection_details(owner)
        idle_since_s = self._sampler.idle_since_s(queue)
        if idle_since_s is not None:
            view["idle_since"] = iso_time(idle_since_s)

    def _add_counts(self, view: dict[str, Any], queue: Queue, row: tuple[int, ...]) -> None:
        series = self._sampler.objects.get(queue)
        for column, name in enumerate(LENGTHS, len(QUEUE_MESSAGES)):
            view[name] = row[column]
            view[f"{name}_details"] = (
                series.details(column, self._now_ms, self._length_window)
                if series is not None
                else {"rate": 0.0}
            )
        if series is not None and any(row[: len(QUEUE_MESSAGES)]):
            view["message_stats"] = message_stats(
                QUEUE[: len(QUEUE_MESSAGES)], row, series, self._now_ms, self._message_window
            )

    def _ages(self, queue: Queue) -> dict[str, Any]:
        clock_ms = self._sampler.broker.services.clock.now_ms()
        oldest_unacked = self._sampler.oldest_unacked_ms.get(queue)
        if not queue.backing.unacked_count:
            oldest_unacked = None
        every = [queue.ages, *(queue.level_ages or {}).values()]
        columns = zip(*(ages.counts for ages in every), strict=True)
        return {
            "oldest_ready_age_ms": queue.oldest_ready_age_ms(),
            "oldest_unacked_age_ms": (
                None if oldest_unacked is None else clock_ms - oldest_unacked
            ),
            "time_in_queue": {
                "bounds_ms": list(BOUNDS_MS),
                "counts": [sum(column) for column in columns],
                "sum_ms": sum(ages.sum_ms for ages in every),
            },
            "tiers": tiers_of(queue),
        }

    def single(self, vhost: VirtualHost, queue: Queue) -> dict[str, Any]:
        """A queue on its own: with its consumers, too."""
        view = self.listed(vhost, queue)
        view["consumer_details"] = [
            consumer_view(consumer, self._node_name) for consumer in consumers_of(queue)
        ]
        view["deliveries"] = []
        view["incoming"] = []
        return view


def consumers_of(queue: Queue) -> Iterator[Consumer]:
    """Those of clients."""
    for consumer in queue.ring.consumers:
        if isinstance(consumer, Consumer):
            yield consumer


def tiers_of(queue: Queue) -> dict[str, dict[str, int]]:
    """Where a queue's messages are, from memory to disk only."""
    status = queue.backing.status()
    parts = status["backing_queue_status"]
    in_delta = status.get("messages_paged_out", 0)
    delta_bytes = status.get("message_bytes_paged_out", 0)
    ready_ram = queue.backing.ready_count - in_delta
    ready_bytes = queue.backing.ready_bytes - delta_bytes
    # What came back from disk, or is about to go there, is on disk and in memory.
    beta = min(ready_ram, parts.get("q2", 0) + parts.get("q3", 0))
    beta_bytes = ready_bytes * beta // max(1, ready_ram)
    return {
        "alpha": {"messages": ready_ram - beta, "bytes": ready_bytes - beta_bytes},
        "beta": {"messages": beta, "bytes": beta_bytes},
        "gamma": {"messages": 0, "bytes": 0},
        "delta": {"messages": in_delta, "bytes": delta_bytes},
        "unacked": {"messages": queue.backing.unacked_count, "bytes": queue.backing.unacked_bytes},
    }


def memory_of(queue: Queue, status: dict[str, Any]) -> int:
    """Bytes of memory that a queue takes, roughly."""
    in_ram: int = status.get("messages_ram", 0)
    body_bytes: int = status.get("message_bytes_ram", 0)
    return QUEUE_BYTES + MESSAGE_BYTES * in_ram + body_bytes


def capacity_of(queue: Queue) -> float:
    """The share of consumers that could take a message now."""
    consumers = queue.ring.consumers
    if not consumers:
        return 0
    return sum(consumer.room() > 0 for consumer in consumers) / len(consumers)


def head_timestamp(queue: Queue) -> int | None:
    """The timestamp of the first ready message, if it has one and is in memory, in seconds."""
    heads = queue.backing.heads()
    if not heads or heads[0].entry is None:
        return None
    stamp = getattr(heads[0].entry.message.header, "properties", {}).get("timestamp")
    return stamp if isinstance(stamp, int) else None

"""Queues as JSON: RabbitMQ's fields (`rabbit_mgmt_wm_queue`), those of docs/reference/http-api.md.

A view combines the declaration, the queue's status (broker/queues/contract/status.py) and the
samples of its counts.
"""

from typing import Any

from leveret.broker.amqp.json_form import table_to_json, text
from leveret.broker.queues.contract.placement import QueueMembers
from leveret.broker.queues.contract.status import QueueStatus, StreamStatus
from leveret.broker.queues.delivery.age import BOUNDS_MS
from leveret.mgmt.node_facade.facts import OwnFigures, QueueFacts
from leveret.mgmt.statistics.sampler import LENGTHS, QUEUE, QUEUE_MESSAGES, Sampler, queue_row
from leveret.mgmt.statistics.series import Row, SampleWindow, Series
from leveret.mgmt.views.channels import connection_details, message_stats
from leveret.mgmt.views.deduplication import deduplication_fields
from leveret.mgmt.views.mirrors import mirror_fields
from leveret.mgmt.views.quorum import quorum_fields, retry_fields
from leveret.mgmt.views.to_json import NO_ERLANG_PROCESS, iso_time
from leveret.storage.contract.queue_status import StorageCounts

DOWN, SYNCING = "down", "syncing"
"""The states of a queue whose node does not answer, and of one whose mirrors are synchronised."""
CLASSIC_ONLY = ("exclusive_consumer_tag", "recoverable_slaves", "head_message_timestamp")
"""Fields that RabbitMQ does not show of queues that are always replicated."""
NOT_OF_STREAMS = (
    "backing_queue_status", "consumer_utilisation", "messages_dlx", "message_bytes_dlx",
    "single_active_consumer_ctag", "storage_version",
)  # fmt: skip


class QueueViews:
    """Makes views of queues. windows: the samples to include, of messages and of lengths."""

    def __init__(
        self,
        sampler: Sampler,
        node_name: str,
        windows: tuple[SampleWindow | None, SampleWindow | None],
    ) -> None:
        self._sampler = sampler
        self._node_name = node_name
        self._message_window, self._length_window = windows
        self._now_ms = sampler.now_ms()

    def listed(self, queue: QueueFacts) -> dict[str, Any]:
        """A queue as an item of a list; only its declaration if its node does not answer."""
        declared = self._declared(queue)
        members = queue.members
        if members is not None and not queue.is_replicated:
            declared |= mirror_fields(members, queue.declared.durable)
        if queue.own is None:
            return {**declared, "state": DOWN, **self._members(queue, members)}
        vhost, name, own = queue.declared.vhost, queue.declared.name, queue.own
        status = own.status
        row = queue_row(status.counts)
        series = self._sampler.objects.queue(vhost, name, row)
        view: dict[str, Any] = {
            "recoverable_slaves": None,
            **declared,
            "state": status.state,
            "consumers": status.counts.consumers,
            "consumer_utilisation": status.consumer_capacity,
            "consumer_capacity": status.consumer_capacity,
            "exclusive_consumer_tag": status.exclusive_consumer_tag,
            "single_active_consumer_tag": status.single_active_consumer_tag,
            "head_message_timestamp": status.head_timestamp_s,
            "memory": status.memory_bytes,
            **NO_ERLANG_PROCESS,
            "storage_version": 1,
            **status.storage.named(),
        }
        view["backing_queue_status"] = {**own.tiers, **self._rates(series, row)}
        if members is not None:
            if members.syncing is not None:
                view |= {"state": SYNCING, "sync_messages": members.syncing}
            if queue.is_replicated:
                self._make_replicated(view, queue, status, members)
        if status.retries is not None:
            view |= retry_fields(status.retries, status.counts.delayed)
        if status.stream is not None:
            view = _of_stream(view, status.stream)
        if status.deduplication is not None:
            view |= deduplication_fields(status.deduplication, status.counts.duplicates)
        if status.expires_on_time:
            view["messages_expired_on_time"] = status.counts.expired_on_time
        if status.owner is not None:
            view["owner_pid_details"] = connection_details(status.owner)
        idle_since_s = self._sampler.idle_since_s(series, status.declared_at_s)
        if idle_since_s is not None:
            view["idle_since"] = iso_time(idle_since_s)
        self._add_counts(view, series, row)
        if status.stream is None:
            view.update(self._ages(vhost, name, own))
            view["tiers"] = tiers_of(status.storage, own.tiers)
        return view

    def _declared(self, queue: QueueFacts) -> dict[str, Any]:
        declared = queue.declared
        return {
            "name": text(declared.name),
            "vhost": text(declared.vhost),
            "type": declared.kind,
            "durable": declared.durable,
            "auto_delete": declared.auto_delete,
            "exclusive": declared.is_exclusive,
            "arguments": table_to_json(declared.arguments),
            "node": queue.node or self._node_name,
            "policy": queue.policy,
            "operator_policy": queue.operator_policy,
            "effective_policy_definition": dict(queue.policy_definition),
        }

    def _make_replicated(
        self, view: dict[str, Any], queue: QueueFacts, status: QueueStatus, members: QueueMembers
    ) -> None:
        """Change the view to that of a quorum queue."""
        for name in CLASSIC_ONLY:
            del view[name]
        view["messages_persistent"] += status.counts.dlx
        for name in ("message_bytes", "message_bytes_persistent"):
            view[name] += status.dlx_bytes
        if status.quorum is not None:
            delayed = status.counts.delayed
            view["messages_persistent"] += delayed
            for name in ("message_bytes", "message_bytes_persistent"):
                view[name] += status.quorum.delayed_bytes
            view |= quorum_fields(status.quorum, delayed)
        view |= {
            **self._members(queue, members),
            "messages_dlx": status.counts.dlx,
            "message_bytes_dlx": status.dlx_bytes,
            "single_active_consumer_ctag": view.pop("single_active_consumer_tag"),
        }

    def _members(self, queue: QueueFacts, members: QueueMembers | None) -> dict[str, Any]:
        """The nodes of a quorum queue. The members of a group have no open files of their own."""
        if members is None or not queue.is_replicated:
            return {}
        own = (self._node_name,)
        nodes, online = (members.nodes, members.online) if queue.node else (own, own)
        return {
            "leader": members.leader if queue.node else self._node_name,
            "members": nodes,
            "online": online,
            "open_files": dict.fromkeys(online, 0),
        }

    def _rates(self, series: Series | None, row: Row) -> dict[str, Any]:
        """The rates of messages in and out, as RabbitMQ's backing queues show them."""

        def rate(name: str) -> float:
            return 0.0 if series is None else series.rate(QUEUE.index(name), self._now_ms)

        return {
            "version": 1,
            "avg_ingress_rate": rate("publish"),
            "avg_egress_rate": rate("deliver_get"),
            "avg_ack_ingress_rate": rate("deliver"),
            "avg_ack_egress_rate": rate("ack"),
            "next_deliver_seq_id": row[QUEUE.index("deliver_get")],
        }

    def _add_counts(self, view: dict[str, Any], series: Series | None, row: Row) -> None:
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

    def _ages(self, vhost: str, name: str, own: OwnFigures) -> dict[str, Any]:
        ages, counts = own.ages, own.status.counts
        return {
            "oldest_ready_age_ms": ages.oldest_ready_ms,
            "oldest_unacked_age_ms": self._sampler.oldest_unacked_age_ms((vhost, name), counts),
            "time_in_queue": {
                "bounds_ms": list(BOUNDS_MS),
                "counts": ages.waited_counts,
                "sum_ms": ages.waited_ms,
            },
        }

    def single(self, queue: QueueFacts, details: dict[str, Any]) -> dict[str, Any]:
        """A queue on its own, without its consumers. details: see `DeclaredObjects.details`."""
        view = self.listed(queue)
        view["deliveries"] = []
        view["incoming"] = []
        return view | details


def _of_stream(view: dict[str, Any], stream: StreamStatus) -> dict[str, Any]:
    """The view of a stream: it has offsets and segments, and no messages in memory."""
    left_out = {*StorageCounts().named(), *NOT_OF_STREAMS}
    kept = {name: value for name, value in view.items() if name not in left_out}
    return kept | {
        "readers": stream.readers,
        "segments": stream.segments,
        "size_bytes": stream.size_bytes,
        "first_offset": stream.first_offset,
        "next_offset": stream.next_offset,
    }


def tiers_of(storage: StorageCounts, parts: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The numbers of a queue's messages in memory only, in both, and on disk only.

    parts: the queue's `backing_queue_status`.
    """
    ready_ram, ready_bytes = storage.ready_ram, storage.ready_bytes - storage.paged_out_bytes
    # Messages that were paged in, or that are about to be paged out, are on disk and in memory.
    beta = min(ready_ram, parts.get("q2", 0) + parts.get("q3", 0))
    beta_bytes = ready_bytes * beta // max(1, ready_ram)
    return {
        "alpha": {"messages": ready_ram - beta, "bytes": ready_bytes - beta_bytes},
        "beta": {"messages": beta, "bytes": beta_bytes},
        "gamma": {"messages": 0, "bytes": 0},
        "delta": {"messages": storage.paged_out, "bytes": storage.paged_out_bytes},
        "unacked": {"messages": storage.unacked, "bytes": storage.unacked_bytes},
    }

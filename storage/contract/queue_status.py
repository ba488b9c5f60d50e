"""The contents of a backing queue by place, with RabbitMQ's names (`rabbit_variable_queue:info`).

`StorageCounts` is cheap: metrics read it for every queue. The management API shows a queue's
`backing_queue_status`, as RabbitMQ does. Pure: figures in, figures out. Counts are of messages;
bytes are of their bodies.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from leveret.storage.contract.paging import NO_TARGET
from leveret.storage.messages.message import ENTRY_BYTES

EMPTY = ("delta", "undefined", 0, 0, "undefined")
SUMMED = ("q1", "q2", "q3", "q4", "len", "ram_msg_count", "ram_ack_count", "next_seq_id")


class StorageCounts(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The numbers of messages that a queue holds, by place.

    paged_out: ready messages that are on disk only. disk_reads, disk_writes: messages read from
    segments and written to them since the start. unacked_paged_out: unacknowledged messages that
    are on disk only.
    """

    ready: int = 0
    ready_bytes: int = 0
    unacked: int = 0
    unacked_bytes: int = 0
    persistent: int = 0
    persistent_bytes: int = 0
    paged_out: int = 0
    paged_out_bytes: int = 0
    disk_reads: int = 0
    disk_writes: int = 0
    unacked_paged_out: int = 0
    unacked_paged_out_bytes: int = 0

    @property
    def ready_ram(self) -> int:
        """The number of ready messages in memory."""
        return self.ready - self.paged_out

    @property
    def unacked_ram(self) -> int:
        """The number of unacknowledged messages in memory."""
        return self.unacked - self.unacked_paged_out

    @property
    def ram(self) -> int:
        """The number of messages in memory."""
        return self.ready_ram + self.unacked_ram

    @property
    def ram_bytes(self) -> int:
        """The bytes of messages in memory."""
        ready_bytes = self.ready_bytes - self.paged_out_bytes
        return ready_bytes + self.unacked_bytes - self.unacked_paged_out_bytes

    def named(self) -> dict[str, int]:
        """The counts by RabbitMQ's names."""
        return {
            "messages_ram": self.ram,
            "messages_ready_ram": self.ready_ram,
            "messages_unacknowledged_ram": self.unacked_ram,
            "messages_persistent": self.persistent,
            "message_bytes": self.ready_bytes + self.unacked_bytes,
            "message_bytes_ready": self.ready_bytes,
            "message_bytes_unacknowledged": self.unacked_bytes,
            "message_bytes_ram": self.ram_bytes,
            "message_bytes_persistent": self.persistent_bytes,
            "messages_paged_out": self.paged_out,
            "message_bytes_paged_out": self.paged_out_bytes,
            "disk_reads": self.disk_reads,
            "disk_writes": self.disk_writes,
        }


def summed_counts(counts: Iterable[StorageCounts]) -> StorageCounts:
    """The sum of the counts of several queues."""
    rows = [msgspec.structs.astuple(one) for one in counts]
    return StorageCounts(*map(sum, zip(*rows, strict=True)))


class Places(NamedTuple):
    """The numbers of a tiered queue's ready messages by place.

    q1, q2, q3, q4: messages in each; messages in q2 are being written, to be on disk only.
    delta_count: messages on disk only and not in q3. delta_first, delta_end: their lowest position,
    and one more than the highest; 0 if there are none.
    """

    q1: int
    q2: int
    q3: int
    q4: int
    delta_count: int
    delta_first: int
    delta_end: int


class TieredLimits(NamedTuple):
    """The memory limit of a tiered queue in bytes, and the position of its next message."""

    is_lazy: bool
    target_bytes: int
    next_position: int


def tiered_status(counts: StorageCounts, places: Places, limits: TieredLimits) -> dict[str, Any]:
    """The `backing_queue_status` of a tiered queue."""
    has_delta = places.delta_count > 0
    return {
        "mode": "lazy" if limits.is_lazy else "default",
        "q1": places.q1,
        "q2": places.q2,
        "delta": [
            "delta", places.delta_first if has_delta else "undefined", places.delta_count, 0,
            places.delta_end if has_delta else "undefined",
        ],
        "q3": places.q3,
        "q4": places.q4,
        "len": counts.ready,
        "target_ram_count": _target_ram_count(counts, limits),
        "ram_msg_count": counts.ready_ram,
        "ram_ack_count": counts.unacked,
        "next_seq_id": limits.next_position,
    }  # fmt: skip


def _target_ram_count(counts: StorageCounts, limits: TieredLimits) -> int | str:
    if limits.is_lazy:
        return 0
    if limits.target_bytes >= NO_TARGET:
        return "infinity"
    size = counts.ready_bytes + counts.unacked_bytes
    average = size // max(1, counts.ready + counts.unacked)
    return limits.target_bytes // (ENTRY_BYTES + average)


def memory_status(ready_count: int) -> dict[str, Any]:
    """The `backing_queue_status` of a queue that keeps everything in memory."""
    return {"mode": "default", "len": ready_count}


def summed_status(levels: Iterable[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    """The `backing_queue_status` of a priority queue, from those of its levels: pairs of a
    priority and a status.
    """
    parts = list(levels)
    status: dict[str, Any] = {name: sum(part.get(name, 0) for _, part in parts) for name in SUMMED}
    status["mode"] = parts[0][1]["mode"] if parts else "default"
    paged_out = sum(part.get("delta", EMPTY)[2] for _, part in parts)
    status["delta"] = ["delta", "undefined", paged_out, 0, "undefined"]
    targets = [part.get("target_ram_count", "infinity") for _, part in parts]
    status["target_ram_count"] = (
        "infinity" if "infinity" in targets or not targets else sum(targets)
    )
    status["priority_lengths"] = {str(priority): part["len"] for priority, part in parts}
    return status

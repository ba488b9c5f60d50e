"""What a backing queue holds and where, by RabbitMQ's names (`rabbit_variable_queue:info`).

The management API shows it for each queue as `backing_queue_status`, with the counts beside it.
"""

from collections.abc import Iterable
from typing import Any

from storage.tiers import ENTRY_BYTES, EVERYTHING, Tiers

COUNTS = (
    "messages_ram", "messages_ready_ram", "messages_unacknowledged_ram", "messages_persistent",
    "message_bytes", "message_bytes_ready", "message_bytes_unacknowledged", "message_bytes_ram",
    "message_bytes_persistent", "messages_paged_out", "message_bytes_paged_out", "disk_reads",
    "disk_writes",
)  # fmt: skip
EMPTY = ("delta", "undefined", 0, 0, "undefined")
SUMMED = ("q1", "q2", "q3", "q4", "len", "ram_msg_count", "ram_ack_count", "next_seq_id")


def queue_status(queue: Tiers) -> dict[str, Any]:
    """The counts of one queue, and its `backing_queue_status`."""
    delta = queue.delta
    ready_ram = queue.ready_count - delta.count
    persistent_count, persistent_bytes = queue.persistent
    return {
        "messages_ram": ready_ram + queue.unacked_count,
        "messages_ready_ram": ready_ram,
        "messages_unacknowledged_ram": queue.unacked_count,
        "messages_persistent": persistent_count,
        "message_bytes": queue.ready_bytes + queue.unacked_bytes,
        "message_bytes_ready": queue.ready_bytes,
        "message_bytes_unacknowledged": queue.unacked_bytes,
        "message_bytes_ram": queue.ready_bytes + queue.unacked_bytes - delta.size,
        "message_bytes_persistent": persistent_bytes,
        "messages_paged_out": delta.count,
        "message_bytes_paged_out": delta.size,
        "disk_reads": queue.disk_reads,
        "disk_writes": queue.disk_writes,
        "backing_queue_status": _parts(queue, ready_ram),
    }


def _parts(queue: Tiers, ready_ram: int) -> dict[str, Any]:
    q1, q2, paged_out, q3, q4 = queue.parts
    positions = queue.delta.positions
    first, end = (positions.first, positions.end) if positions else ("undefined", "undefined")
    return {
        "mode": "lazy" if queue.is_lazy else "default",
        "q1": q1,
        "q2": q2,
        "delta": ["delta", first, paged_out, 0, end],
        "q3": q3,
        "q4": q4,
        "len": queue.ready_count,
        "target_ram_count": _target_ram_count(queue),
        "ram_msg_count": ready_ram,
        "ram_ack_count": queue.unacked_count,
        "next_seq_id": queue.next_position,
    }


def _target_ram_count(queue: Tiers) -> int | str:
    if queue.is_lazy:
        return 0
    if queue.target_bytes >= EVERYTHING:
        return "infinity"
    count = queue.ready_count + queue.unacked_count
    size = queue.ready_bytes + queue.unacked_bytes
    return queue.target_bytes // (ENTRY_BYTES + size // max(1, count))


def summed_status(statuses: Iterable[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    """The status of a priority queue, of those of its levels: (priority, status) pairs."""
    levels = list(statuses)
    summed: dict[str, Any] = {name: sum(status[name] for _, status in levels) for name in COUNTS}
    parts = [(priority, status["backing_queue_status"]) for priority, status in levels]
    inner: dict[str, Any] = {name: sum(part.get(name, 0) for _, part in parts) for name in SUMMED}
    inner["mode"] = parts[0][1]["mode"] if parts else "default"
    paged_out = sum(part.get("delta", EMPTY)[2] for _, part in parts)
    inner["delta"] = ["delta", "undefined", paged_out, 0, "undefined"]
    targets = [part.get("target_ram_count", "infinity") for _, part in parts]
    inner["target_ram_count"] = "infinity" if "infinity" in targets or not targets else sum(targets)
    inner["priority_lengths"] = {str(priority): part["len"] for priority, part in parts}
    return {**summed, "backing_queue_status": inner}

"""What a backing queue holds and where, by RabbitMQ's names (`rabbit_variable_queue:info`).

The management API shows it for each queue as `backing_queue_status`, with the counts beside it.
Pure: figures in, a dict out. Counts are of messages; bytes are those of their bodies.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from leveret.storage.message import ENTRY_BYTES
from leveret.storage.paging import NO_TARGET

COUNTS = (
    "messages_ram", "messages_ready_ram", "messages_unacknowledged_ram", "messages_persistent",
    "message_bytes", "message_bytes_ready", "message_bytes_unacknowledged", "message_bytes_ram",
    "message_bytes_persistent", "messages_paged_out", "message_bytes_paged_out", "disk_reads",
    "disk_writes",
)  # fmt: skip
EMPTY = ("delta", "undefined", 0, 0, "undefined")
SUMMED = ("q1", "q2", "q3", "q4", "len", "ram_msg_count", "ram_ack_count", "next_seq_id")


class TieredFigures(NamedTuple):
    """The figures of one tiered queue.

    q1, q2, q3, q4: messages in each; those in q2 are being written, to be on disk only.
    delta_count: messages on disk only and not in q3. delta_first, delta_end: their lowest position,
    and one more than the highest; 0 if there are none. paged_out_count, paged_out_bytes: of delta
    and q3. target_bytes: that the queue may have in memory. disk_reads, disk_writes: messages read
    from segments and written to them since the start.
    """

    ready_count: int
    ready_bytes: int
    unacked_count: int
    unacked_bytes: int
    persistent_count: int
    persistent_bytes: int
    paged_out_count: int
    paged_out_bytes: int
    disk_reads: int
    disk_writes: int
    q1: int
    q2: int
    q3: int
    q4: int
    delta_count: int
    delta_first: int
    delta_end: int
    is_lazy: bool
    target_bytes: int
    next_position: int


def tiered_status(figures: TieredFigures) -> dict[str, Any]:
    """The counts of one queue, and its `backing_queue_status`."""
    ready_ram = figures.ready_count - figures.paged_out_count
    total_bytes = figures.ready_bytes + figures.unacked_bytes
    return {
        "messages_ram": ready_ram + figures.unacked_count,
        "messages_ready_ram": ready_ram,
        "messages_unacknowledged_ram": figures.unacked_count,
        "messages_persistent": figures.persistent_count,
        "message_bytes": total_bytes,
        "message_bytes_ready": figures.ready_bytes,
        "message_bytes_unacknowledged": figures.unacked_bytes,
        "message_bytes_ram": total_bytes - figures.paged_out_bytes,
        "message_bytes_persistent": figures.persistent_bytes,
        "messages_paged_out": figures.paged_out_count,
        "message_bytes_paged_out": figures.paged_out_bytes,
        "disk_reads": figures.disk_reads,
        "disk_writes": figures.disk_writes,
        "backing_queue_status": _backing_queue_status(figures, ready_ram),
    }


def _backing_queue_status(figures: TieredFigures, ready_ram: int) -> dict[str, Any]:
    has_delta = figures.delta_count > 0
    return {
        "mode": "lazy" if figures.is_lazy else "default",
        "q1": figures.q1,
        "q2": figures.q2,
        "delta": [
            "delta", figures.delta_first if has_delta else "undefined", figures.delta_count, 0,
            figures.delta_end if has_delta else "undefined",
        ],
        "q3": figures.q3,
        "q4": figures.q4,
        "len": figures.ready_count,
        "target_ram_count": _target_ram_count(figures),
        "ram_msg_count": ready_ram,
        "ram_ack_count": figures.unacked_count,
        "next_seq_id": figures.next_position,
    }  # fmt: skip


def _target_ram_count(figures: TieredFigures) -> int | str:
    if figures.is_lazy:
        return 0
    if figures.target_bytes >= NO_TARGET:
        return "infinity"
    count = figures.ready_count + figures.unacked_count
    size = figures.ready_bytes + figures.unacked_bytes
    return figures.target_bytes // (ENTRY_BYTES + size // max(1, count))


def memory_status(
    ready_count: int, ready_bytes: int, unacked_count: int, unacked_bytes: int
) -> dict[str, Any]:
    """The counts of a queue that keeps everything in memory."""
    total_bytes = ready_bytes + unacked_bytes
    return {
        **dict.fromkeys(COUNTS, 0),
        "messages_ram": ready_count + unacked_count,
        "messages_ready_ram": ready_count,
        "messages_unacknowledged_ram": unacked_count,
        "message_bytes": total_bytes,
        "message_bytes_ready": ready_bytes,
        "message_bytes_unacknowledged": unacked_bytes,
        "message_bytes_ram": total_bytes,
        "backing_queue_status": {"mode": "default", "len": ready_count},
    }


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

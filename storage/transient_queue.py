"""A backing queue that keeps its messages in memory only.

Ready entries are in a deque in the order of their positions. Entries that were fetched all have
lower positions than those never fetched, so requeued entries form a heap of their own that is
always taken from first: a message goes back to its old place in O(log n) without a search.
"""

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

from storage.backing_queue import Head, Waiter
from storage.message import Entry, Message


class TransientQueue:
    """See `storage.backing_queue.BackingQueue`."""

    __slots__ = (
        "_next_position", "_ready", "_requeued", "has_expiring", "ready_bytes", "ready_count",
        "unacked_bytes", "unacked_count",
    )  # fmt: skip

    def __init__(self) -> None:
        self._ready: deque[Entry] = deque()
        self._requeued: list[tuple[int, Entry]] = []
        self._next_position = 0
        self.has_expiring = False
        self.ready_count = 0
        self.ready_bytes = 0
        self.unacked_count = 0
        self.unacked_bytes = 0

    @property
    def next_position(self) -> int:
        """The position that the next message gets."""
        return self._next_position

    def set_lazy(self, is_lazy: bool) -> None:
        """There is no disk here."""

    def publish(self, messages: list[Message], body_bytes: int, expires_at_ms: int) -> bool:
        """Append messages, in order. In memory they are as safe as they will be."""
        position = self._next_position
        count = len(messages)
        self._ready.extend(
            [
                Entry(message, place, False, expires_at_ms)
                for place, message in enumerate(messages, position)
            ]
        )
        self._next_position = position + count
        self.ready_count += count
        self.ready_bytes += body_bytes
        return False

    def when_safe(self, waiter: Waiter, sequence: int) -> None:
        """At once."""
        waiter.confirm(sequence)

    def peek(self) -> Entry | None:
        """The first ready entry, left where it is."""
        if self._requeued:
            return self._requeued[0][1]
        return self._ready[0] if self._ready else None

    def heads(self) -> list[Head]:
        """The same, for those who only look."""
        entry = self.peek()
        return [] if entry is None else [Head(0, entry.position, entry)]

    def fetch(self, count: int, ack_required: bool) -> list[Entry]:
        """Take up to `count` entries off the head."""
        if self._requeued:
            return self._fetch_requeued(count, ack_required)
        ready = self._ready
        if count >= self.ready_count:
            entries = list(ready)
            ready.clear()
            fetched_bytes = self.ready_bytes
        else:
            entries = [ready.popleft() for _ in range(count)]
            fetched_bytes = sum([len(entry.message.body) for entry in entries])
        self._count_fetched(len(entries), fetched_bytes, ack_required)
        return entries

    def _fetch_requeued(self, count: int, ack_required: bool) -> list[Entry]:
        entries = [heappop(self._requeued)[1] for _ in range(min(count, len(self._requeued)))]
        fetched_bytes = sum([len(entry.message.body) for entry in entries])
        self._count_fetched(len(entries), fetched_bytes, ack_required)
        if len(entries) < count and self._ready:
            entries += self.fetch(count - len(entries), ack_required)
        return entries

    def _count_fetched(self, count: int, fetched_bytes: int, ack_required: bool) -> None:
        self.ready_count -= count
        self.ready_bytes -= fetched_bytes
        if ack_required:
            self.unacked_count += count
            self.unacked_bytes += fetched_bytes

    def drop(self) -> Entry:
        """Take the first ready entry off the head for good."""
        entry = heappop(self._requeued)[1] if self._requeued else self._ready.popleft()
        self.ready_count -= 1
        self.ready_bytes -= len(entry.message.body)
        return entry

    def ack(self, entry: Entry) -> None:
        """An unacked entry is done with."""
        self.unacked_count -= 1
        self.unacked_bytes -= len(entry.message.body)

    def requeue(self, entries: Iterable[Entry]) -> None:
        """Unacked entries become ready again, each at its old place."""
        requeued = self._requeued
        for entry in entries:
            entry.redelivered = True
            heappush(requeued, (entry.position, entry))
            size = len(entry.message.body)
            self.unacked_count -= 1
            self.unacked_bytes -= size
            self.ready_count += 1
            self.ready_bytes += size

    def purge(self) -> int:
        """Drop every ready entry; how many there were."""
        count = self.ready_count
        self._ready.clear()
        self._requeued.clear()
        self.ready_count = self.ready_bytes = 0
        return count

    def entries(self) -> Iterable[Entry]:
        """The ready entries in order."""
        for _, entry in sorted(self._requeued, key=lambda item: item[0]):
            yield entry
        yield from self._ready

    def status(self) -> dict[str, Any]:
        """All is in memory, and nothing has parts."""
        size = self.ready_bytes + self.unacked_bytes
        return {
            "messages_ram": self.ready_count + self.unacked_count,
            "messages_ready_ram": self.ready_count,
            "messages_unacknowledged_ram": self.unacked_count,
            "messages_persistent": 0,
            "message_bytes": size,
            "message_bytes_ready": self.ready_bytes,
            "message_bytes_unacknowledged": self.unacked_bytes,
            "message_bytes_ram": size,
            "message_bytes_persistent": 0,
            "messages_paged_out": 0,
            "message_bytes_paged_out": 0,
            "disk_reads": 0,
            "disk_writes": 0,
            "backing_queue_status": {"mode": "default", "len": self.ready_count},
        }

    def delete(self) -> None:
        """The queue is gone: free its memory."""
        self.purge()

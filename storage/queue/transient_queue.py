"""A backing queue that keeps its messages in memory only.

Entries that were never fetched are in a deque in the order of their positions; requeued entries are
apart from these (in_memory.py). Unacked entries are only counted: the caller that fetched an entry
keeps it.

Of the contract's promises (backing_queue.py) BQ6 on disk reads does not apply. Messages never
survive a restart, so a publish is confirmed at once.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from mypy_extensions import mypyc_attr

from leveret.storage.contract.backing_queue import BackingQueue, FirstReady, Purged, Waiter
from leveret.storage.contract.queue_status import StorageCounts, memory_status
from leveret.storage.messages.intervals import NO_POSITION
from leveret.storage.messages.message import (
    Entry,
    Message,
    bytes_of,
    entries_from,
    expiring_entries_from,
)
from leveret.storage.messages.message_run import MessageRun
from leveret.storage.queue.in_memory import InMemory


@mypyc_attr(allow_interpreted_subclasses=True)
class TransientQueue(BackingQueue):
    """A backing queue in memory only."""

    __slots__ = (
        "_memory", "_next_position", "_ready", "has_expiring", "ready_bytes", "ready_count",
        "unacked_bytes", "unacked_count",
    )  # fmt: skip

    ready_count: int
    ready_bytes: int
    unacked_count: int
    unacked_bytes: int
    has_expiring: bool

    def __init__(self) -> None:
        self._memory = InMemory()
        self._ready = self._memory.q4
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

    def next_position_of(self, message: Message) -> int:
        """The next position: the queue has no priorities."""
        return self._next_position

    def position_of(self, entry: Entry) -> int:
        """The entry's own position: the queue has no priorities."""
        return entry.position

    def given_positions(self) -> list[tuple[int, int]]:
        """All positions from 0 on: the queue has no priorities."""
        return [(0, self._next_position)]

    def go_on_at(self, position: int) -> None:
        """Give the next message this position."""
        assert position >= self._next_position, "BQ1"
        self._next_position = position

    def set_lazy(self, is_lazy: bool) -> None:
        """Nothing to do: the queue has no messages on disk."""

    def set_loose(self, is_loose: bool) -> None:
        """Nothing to do: the queue has no blocks."""

    # Publishing

    def publish(self, run: MessageRun, expires_at_ms: int) -> bool:
        """Append messages, in order. Returns False: there is no sync to wait for."""
        messages = run.messages
        position = self._next_position
        count = len(messages)
        self._ready.extend(entries_from(messages, position, expires_at_ms))
        self._next_position = position + count
        self.ready_count += count
        self.ready_bytes += run.body_bytes
        if expires_at_ms:
            self.has_expiring = True
        return False

    def publish_each(self, run: MessageRun, expire_at_ms: list[int]) -> bool:
        """Append messages that expire at different times."""
        messages = run.messages
        position = self._next_position
        self._ready.extend(expiring_entries_from(messages, position, expire_at_ms))
        self._next_position = position + len(messages)
        self.ready_count += len(messages)
        self.ready_bytes += run.body_bytes
        self.has_expiring = True
        return False

    def when_safe(self, waiter: Waiter, first: int, holder: object) -> None:
        """Confirm at once."""
        waiter.confirm(first, holder)

    # Taking

    def peek(self) -> Entry | None:
        """The first ready entry, without taking it."""
        return self._memory.first()

    def heads(self) -> list[FirstReady]:
        """The first ready entry."""
        entry = self._memory.first()
        return [] if entry is None else [FirstReady(0, entry.position, entry)]

    def firsts(self) -> list[int]:
        """The position of the first ready entry; none if there is none."""
        return [head.position for head in self.heads()]

    def fetchable(self, count: int) -> int:
        """The next `count` ready entries: nothing is read from disk."""
        return min(count, self.ready_count)

    def unexpired(self, count: int, now_ms: int) -> int:
        """The number of the next entries, at least, that precede the first expired one."""
        return self._memory.unexpired(count, now_ms)

    def fetch(self, count: int, ack_required: bool) -> list[Entry]:
        """Take the first entries."""
        if self._memory.requeued:
            entries = self._memory.fetch(count, NO_POSITION)
        else:
            entries = self._memory.fetch_q4(count)
        fetched_bytes = bytes_of(entries)
        self.ready_count -= len(entries)
        self.ready_bytes -= fetched_bytes
        if ack_required:
            self.unacked_count += len(entries)
            self.unacked_bytes += fetched_bytes
        return entries

    def drop(self) -> Entry | None:
        """Remove the first ready entry and return it."""
        entries = self.fetch(1, ack_required=False)
        return entries[0] if entries else None

    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        """Take entries out of the middle of the queue."""
        return self.take_at([entry.position for entry in entries])

    def take_at(self, positions: Sequence[int]) -> list[Entry]:
        """Take the entries at these positions."""
        entries = self._memory.take(positions)
        size = bytes_of(entries)
        self.ready_count -= len(entries)
        self.ready_bytes -= size
        self.unacked_count += len(entries)
        self.unacked_bytes += size
        return entries

    def ready_between(self, start: int, end: int) -> list[Entry] | None:
        """The ready entries at these positions."""
        return self._memory.between(start, end)

    # Settling

    def ack(self, entries: Sequence[Entry]) -> None:
        """Settle unacked entries: they are gone."""
        self.unacked_count -= len(entries)
        for entry in entries:
            self.unacked_bytes -= len(entry.message.body)

    def requeue(self, entries: Sequence[Entry], redelivered: bool = True) -> None:
        """Make unacked entries ready again, each at its old position."""
        self._memory.requeued.add(entries)
        size = 0
        for entry in entries:
            if redelivered:
                entry.redelivered = True
            size += len(entry.message.body)
        self.unacked_count -= len(entries)
        self.unacked_bytes -= size
        self.ready_count += len(entries)
        self.ready_bytes += size

    def purge(self) -> Purged:
        """Drop every ready entry."""
        count = self.ready_count
        pieces = self._memory.hand_over()
        self._ready = self._memory.q4
        self.ready_count = self.ready_bytes = 0
        return Purged(count, map(len, pieces))

    # Inspecting

    def cursor(self, position: int = 0) -> "TransientCursor":
        """A cursor over the entries in memory."""
        return TransientCursor(self._memory, position)

    def counts(self) -> StorageCounts:
        """The numbers of messages: everything is in memory."""
        return StorageCounts(
            self.ready_count, self.ready_bytes, self.unacked_count, self.unacked_bytes
        )

    def status(self) -> dict[str, Any]:
        """RabbitMQ's `backing_queue_status`."""
        return memory_status(self.ready_count)

    def delete(self) -> Iterator[int]:
        """Free the memory of the deleted queue."""
        return self.purge().freeing


class TransientCursor:
    """Reads a transient queue from a position on. position: the start of the next read."""

    __slots__ = ("_memory", "position")

    def __init__(self, memory: InMemory, position: int) -> None:
        self._memory = memory
        self.position = position

    def read(self, bytes_max: int) -> list[Entry]:
        """The next entries, in order; none at the end of the queue."""
        entries = self._memory.read(self.position, NO_POSITION, max(1, bytes_max))
        if entries:
            self.position = entries[-1].position + 1
        return entries

    def close(self) -> None:
        """Nothing to do: no file is open."""

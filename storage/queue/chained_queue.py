"""Two backing queues in a row as one: the head that a mirror lacks, and its tail.

A joining mirror begins with an empty tail at its leader's next position. Synchronisation fills the
head in the order of positions while the tail grows; fetches take from the head first. Both parts
have the leader's positions:

    0 ...... filled so far ...... boundary ...... next
         head        lacked              tail

A restart rebuilds the chain. Its boundary is then the position up to which the head was filled.

`go_on_at` selects the part: after a position below the boundary, the next publish goes to the head.
All other publishes go to the tail.

A priority queue has a chain for each priority.

Invariants:

CQ1  Positions below the boundary are in the head, all other positions in the tail.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from mypy_extensions import mypyc_attr

from leveret.storage.contract.backing_queue import (
    BackingQueue,
    Cursor,
    FirstReady,
    Purged,
    Unreadable,
    Waiter,
)
from leveret.storage.contract.queue_status import StorageCounts, summed_counts, summed_status
from leveret.storage.messages.message import Entry, Message
from leveret.storage.messages.message_run import MessageRun


@mypyc_attr(allow_interpreted_subclasses=True)
class ChainedQueue(BackingQueue):
    """A backing queue of two parts.

    boundary: the first position of the tail.
    """

    __slots__ = ("_boundary", "_fills_head", "_head", "_tail")

    def __init__(self, head: BackingQueue, tail: BackingQueue, boundary: int) -> None:
        self._head = head
        self._tail = tail
        self._boundary = boundary
        self._fills_head = False

    @property
    def ready_count(self) -> int:
        """The sum of both parts."""
        return self._head.ready_count + self._tail.ready_count

    @property
    def ready_bytes(self) -> int:
        """The sum of both parts."""
        return self._head.ready_bytes + self._tail.ready_bytes

    @property
    def unacked_count(self) -> int:
        """The sum of both parts."""
        return self._head.unacked_count + self._tail.unacked_count

    @property
    def unacked_bytes(self) -> int:
        """The sum of both parts."""
        return self._head.unacked_bytes + self._tail.unacked_bytes

    @property
    def has_expiring(self) -> bool:
        """Whether one of the parts may have entries that expire."""
        return self._head.has_expiring or self._tail.has_expiring

    def next_position_of(self, message: Message) -> int:
        """The next position of the tail, or of the head if it is being filled."""
        if self._fills_head:
            return self._head.next_position_of(message)
        return max(self._boundary, self._tail.next_position_of(message))

    def position_of(self, entry: Entry) -> int:
        """The entry's own position: a chain has one priority."""
        return entry.position

    def given_positions(self) -> list[tuple[int, int]]:
        """All positions from 0 on, including those that the head lacks."""
        (given,) = self._tail.given_positions()
        return [(0, max(self._boundary, given[1]))]

    def go_on_at(self, position: int) -> None:
        """Continue the head or the tail at a position; the head for one publish only."""
        self._fills_head = position < self._boundary
        part = self._head if self._fills_head else self._tail
        part.go_on_at(position)

    def set_lazy(self, is_lazy: bool) -> None:
        """Set the mode of both parts."""
        self._head.set_lazy(is_lazy)
        self._tail.set_lazy(is_lazy)

    def set_loose(self, is_loose: bool) -> None:
        """Set both parts."""
        self._head.set_loose(is_loose)
        self._tail.set_loose(is_loose)

    # Publishing

    def publish(self, run: MessageRun, expires_at_ms: int) -> bool:
        """Append to the tail, or to the head after a `go_on_at` below the boundary."""
        return self._part_for(run.messages).publish(run, expires_at_ms)

    def publish_each(self, run: MessageRun, expire_at_ms: list[int]) -> bool:
        """The same, for messages that expire at different times."""
        return self._part_for(run.messages).publish_each(run, expire_at_ms)

    def _part_for(self, messages: list[Message]) -> BackingQueue:
        """The part that these messages are about to be appended to."""
        if self._fills_head:
            self._fills_head = False
            end = self._head.next_position_of(messages[0]) + len(messages)
            assert end <= self._boundary, "CQ1"
            return self._head
        tail = self._tail
        if tail.next_position_of(messages[0]) < self._boundary:
            tail.go_on_at(self._boundary)
        return tail

    def when_safe(self, waiter: Waiter, first: int, holder: object) -> None:
        """Ask the tail, since both use the same store."""
        self._tail.when_safe(waiter, first, holder)

    # Taking

    def peek(self) -> Entry | None:
        """The first entry of the head, else of the tail."""
        return self._head.peek() if self._head.ready_count else self._tail.peek()

    def heads(self) -> list[FirstReady]:
        """The first entry."""
        return self._head.heads() or self._tail.heads()

    def firsts(self) -> list[int]:
        """The position of the first ready entry; none if there is none."""
        return [head.position for head in self.heads()]

    def fetchable(self, count: int) -> int:
        """The fetchable entries of the head, and of the tail if all of the head's are fetchable."""
        head_count = min(count, self._head.ready_count)
        found = self._head.fetchable(head_count) if head_count else 0
        if found < head_count or found == count:
            return found
        try:
            return found + self._tail.fetchable(count - found)
        except Unreadable:
            if not found:
                raise
            return found

    def unexpired(self, count: int, now_ms: int) -> int:
        """The unexpired entries of the part that has the first entry."""
        head_count = self._head.ready_count
        if head_count:
            return self._head.unexpired(min(count, head_count), now_ms)
        return self._tail.unexpired(count, now_ms)

    def fetch(self, count: int, ack_required: bool) -> list[Entry]:
        """Take the first entries, up to a message that cannot be read."""
        head = self._head
        if not head.ready_count:
            return self._tail.fetch(count, ack_required)
        entries = head.fetch(count, ack_required)
        if len(entries) < count and not head.ready_count:
            try:
                entries += self._tail.fetch(count - len(entries), ack_required)
            except Unreadable:
                if not entries:
                    raise
        return entries

    def drop(self) -> Entry | None:
        """Remove the first ready entry."""
        entries = self.fetch(1, ack_required=False)
        return entries[0] if entries else None

    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        """Take entries from any place in both parts."""
        of_head, of_tail = self._by_part(entries)
        taken = self._head.take(of_head) if of_head else []
        return taken + self._tail.take(of_tail) if of_tail else taken

    def take_at(self, positions: Sequence[int]) -> list[Entry]:
        """Take the entries at these positions in both parts."""
        place = bisect_left(positions, self._boundary)
        taken = self._head.take_at(positions[:place]) if place else []
        if place == len(positions):
            return taken
        try:
            return taken + self._tail.take_at(positions[place:])
        except Unreadable:
            self._head.requeue(taken, False)
            raise

    def ready_between(self, start: int, end: int) -> list[Entry] | None:
        """The ready entries of both parts at these positions."""
        found: list[Entry] = []
        for part in (self._head, self._tail):
            entries = part.ready_between(start, end)
            if entries is None:
                return None
            found += entries
        return found

    # Settling

    def ack(self, entries: Sequence[Entry]) -> None:
        """Settle unacked entries: they are gone."""
        of_head, of_tail = self._by_part(entries)
        if of_head:
            self._head.ack(of_head)
        if of_tail:
            self._tail.ack(of_tail)

    def requeue(self, entries: Sequence[Entry], redelivered: bool = True) -> None:
        """Make unacked entries ready again, each at its old position."""
        of_head, of_tail = self._by_part(entries)
        if of_head:
            self._head.requeue(of_head, redelivered)
        if of_tail:
            self._tail.requeue(of_tail, redelivered)

    def _by_part(self, entries: Sequence[Entry]) -> tuple[Sequence[Entry], Sequence[Entry]]:
        head, boundary = self._head, self._boundary
        if not (head.unacked_count or head.ready_count):
            return [], entries
        of_head = [entry for entry in entries if entry.position < boundary]
        return of_head, [entry for entry in entries if entry.position >= boundary]

    def purge(self) -> Purged:
        """Drop every ready entry."""
        of_head, of_tail = self._head.purge(), self._tail.purge()
        freeing = chain(of_head.freeing, of_tail.freeing)
        return Purged(of_head.dropped + of_tail.dropped, freeing)

    # Inspecting

    def cursor(self, position: int = 0) -> "ChainedCursor":
        """A cursor over the head and then the tail."""
        return ChainedCursor(self._head, self._tail, self._boundary, position)

    def counts(self) -> StorageCounts:
        """The sums of both parts."""
        return summed_counts([self._head.counts(), self._tail.counts()])

    def status(self) -> dict[str, Any]:
        """The tail's status; the sums of both parts while there is a head."""
        if not self._head.ready_count:
            return self._tail.status()
        status = summed_status([(1, self._head.status()), (0, self._tail.status())])
        del status["priority_lengths"]
        return status

    def delete(self) -> Iterator[int]:
        """Delete both parts."""
        return chain(self._head.delete(), self._tail.delete())


class ChainedCursor:
    """Reads a chain from a position on."""

    __slots__ = ("_boundary", "_head", "_tail", "_tail_cursor")

    def __init__(
        self, head: BackingQueue, tail: BackingQueue, boundary: int, position: int
    ) -> None:
        self._boundary = boundary
        self._tail = tail
        self._head: Cursor | None = head.cursor(position) if position < boundary else None
        self._tail_cursor: Cursor | None = None if self._head else tail.cursor(position)

    @property
    def position(self) -> int:
        """The start of the next read."""
        cursor = self._tail_cursor or self._head
        assert cursor is not None, "there is a cursor on the head or on the tail"
        return cursor.position

    def read(self, bytes_max: int) -> list[Entry]:
        """The next entries in order, all from one part; empty at the end of the queue."""
        if self._tail_cursor is None:
            assert self._head is not None
            entries = self._head.read(bytes_max)
            if entries:
                return entries
            tail_cursor = self._tail.cursor(self._boundary)
            entries = tail_cursor.read(bytes_max)
            if entries:
                # Until then, the head may be filled further.
                self._tail_cursor = tail_cursor
                self._head.close()
            else:
                tail_cursor.close()
            return entries
        return self._tail_cursor.read(bytes_max)

    def close(self) -> None:
        """Close the open files."""
        cursor = self._tail_cursor or self._head
        if cursor is not None:
            cursor.close()

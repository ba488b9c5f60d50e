"""The order of a tiered queue's ready entries, and their moves between memory and disk.

    head                                                    tail
     q4   ........   q3   ........   delta   ........   q2, q1
    memory      bodies on disk     on disk only         memory

A message is appended to the tail: to q4 while delta and q1 are empty and q4 is not large, else to
q1. It is fetched from q4. When q4 is empty it is filled from delta, a run of messages at a time,
and when delta is empty the first block of q1 becomes q4. Requeued entries are apart from
these (in_memory.py).

**Promises.** `fetch` returns entries in the order of their positions, in memory or on disk. No more
is read than needed: `fill` reads one run of a segment, or 256 KiB of large bodies.

Invariants:

O1  While the order is not split, delta and q1 are empty, and the tail is q4.
O2  After `fill`, q4 has the lowest position of q4, delta and q1; or all three are empty.
O3  Positions on disk only are below all of q1 (IM3).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter

from leveret.storage.contract.backing_queue import FirstReady, Unreadable
from leveret.storage.contract.queue_status import Places
from leveret.storage.messages.entry_blocks import BLOCK_ENTRIES
from leveret.storage.messages.intervals import NO_POSITION
from leveret.storage.messages.message import Entry
from leveret.storage.queue.delta import Delta
from leveret.storage.queue.in_memory import InMemory


class TieredOrder:
    """The ready entries of one queue.

    tail: published entries are appended to it. is_split: q1, and delta if it is not empty, follow
    q4. block_entries: the size of a block of q4 and q1 that is not extended.
    """

    __slots__ = ("_delta", "_memory", "block_entries", "is_split", "tail")

    def __init__(self, memory: InMemory, delta: Delta) -> None:
        self._memory = memory
        self._delta = delta
        self.is_split = False
        self.block_entries = BLOCK_ENTRIES
        self.tail: deque[Entry] = memory.q4

    def __len__(self) -> int:
        return len(self._memory) + self._delta.count

    def places(self, planned_count: int) -> Places:
        """The numbers of entries by place. planned_count: those of the slice being written."""
        memory, delta = self._memory, self._delta
        written = min(planned_count, len(memory.q1)) if self.is_split else 0
        positions = delta.positions
        return Places(
            q1=len(memory.q1) - written, q2=written, q3=len(delta.bodiless),
            q4=len(memory.q4) + len(memory.requeued),
            delta_count=positions.count, delta_first=positions.first if positions else 0,
            delta_end=positions.end,
        )  # fmt: skip

    def restore(self, on_disk: Iterable[tuple[int, int]], size: int, entries: list[Entry]) -> None:
        """Begin with positions in segments, the sum of their bodies' bytes, and entries."""
        for start, end in on_disk:
            self._delta.positions.add_range(start, end)
        self._delta.size = size
        if self._delta.count:
            self._split()
        left = iter(entries)
        while block := tuple(islice(left, BLOCK_ENTRIES)):
            self.tail.extend(block)
            self.bound_tail()

    def _split(self) -> None:
        self.is_split = True
        self.tail = self._memory.q1.tail

    def bound_tail(self) -> None:
        """Append to a new block, if the tail is full."""
        if len(self.tail) >= self.block_entries:
            self._memory.q1.bound(self.block_entries)
            self._split()

    def fill(self) -> None:
        """Fill q4 with the first entries of q4, delta and q1 (O2). Raises Unreadable."""
        memory, delta = self._memory, self._delta
        q4 = memory.q4
        while delta.count:
            if q4 and q4[0].position < delta.first:
                return
            q4.extendleft(reversed(delta.read(q4[0].position if q4 else NO_POSITION)))
        if not q4:
            memory.make_q1_q4()
        self.is_split = bool(memory.q1)
        self.tail = memory.q1.tail if self.is_split else memory.q4

    @property
    def _first_behind(self) -> int:
        """The first position of delta and q1, behind which no requeued entry is fetched yet."""
        if self._delta.count:
            return self._delta.first
        q1 = self._memory.q1
        return q1.first.position if q1 else NO_POSITION

    # Inspecting

    def first(self) -> Entry | None:
        """The first entry. May read from disk."""
        if self.is_split:
            self.fill()
        return self._memory.first()

    def heads(self) -> list[FirstReady]:
        """The first entry and its position; reads nothing."""
        entry, behind = self._memory.first(), self._first_behind
        if entry is None or behind < entry.position:
            if self._delta.count:
                return [FirstReady(0, behind, None)]
            entry = self._memory.q1.first if self._memory.q1 else None
        return [] if entry is None else [FirstReady(0, entry.position, entry)]

    def unexpired(self, count: int, now_ms: int) -> int:
        """The number of the next entries, at least, that precede the first expired one."""
        if self.is_split:
            self.fill()
            count = min(count, max(1, self._memory.q4_before(self._first_behind)))
        return self._memory.unexpired(count, now_ms)

    def fetchable(self, count: int) -> int:
        """How many of the first `count` entries, if there are as many, precede the first one that
        is on disk only.
        """
        if self.is_split:
            self.fill()
        if not self._delta.count:
            # A sum over thousands of blocks would take longer than delivering a run.
            return count
        return min(count, self._memory.q4_before(self._delta.first))

    # Taking

    def fetch(self, count: int) -> list[Entry]:
        """Remove the first entries of requeued, q4, delta and q1. Raises Unreadable (BQ7)."""
        memory = self._memory
        entries: list[Entry] = []
        while len(entries) < count:
            before = NO_POSITION
            if self.is_split:
                try:
                    self.fill()
                except Unreadable:
                    if not entries:
                        raise
                    break
                before = self._first_behind
            found = memory.fetch(count - len(entries), before)
            if not found:
                break
            entries += found
        return entries

    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        """Remove those of these entries that are ready. Returned in order."""
        in_memory = self._memory.take([entry.position for entry in entries])
        taken = in_memory + self._delta.take(entries)
        taken.sort(key=attrgetter("position"))
        return taken

    def take_at(self, positions: Sequence[int]) -> list[Entry]:
        """Remove the entries at these positions that are ready, in order. May read from disk."""
        taken = self._delta.take_at(positions)
        taken += self._memory.take(positions)
        taken.sort(key=attrgetter("position"))
        return taken

    def page_out(self, flushed_to: int, bytes_max: int, is_gone: Callable[[int], bool]) -> int:
        """Drop entries in segments from memory, as `InMemory.page_out`. Returns how many."""
        dropped = self._memory.page_out(flushed_to, bytes_max, is_gone)
        if dropped:
            self._split()
            self._delta.put_out(dropped)
        return len(dropped)

    def hand_over(self) -> Iterator[list[Entry]]:
        """Remove all entries, in pieces as in `InMemory.hand_over`."""
        pieces = self._memory.hand_over()
        self._delta.clear()
        self.is_split = False
        self.tail = self._memory.q4
        return pieces

"""The ready entries of one queue that are in memory, in the order of their positions.

    requeued          q4                 (on disk only)        q1
    a heap            published,                               published after
                      next to be fetched                       those on disk, or
                                                               after a full q4

q1 is in blocks (entry_blocks.py); the first of them becomes q4. So q4 is not much larger than a
block either, and no part of a long queue takes long to find.

A requeued entry is sorted in by its position, in O(log n) and without a search. Mostly its position
is below that of every entry that was never fetched; an entry that was taken out of the middle of
the queue returns to the middle.

**Promises.** Entries are fetched in the order of their positions. Nothing is read from disk here,
and no entry is changed.

Invariants:

IM1  q4 and q1 are sorted by position, and all of q4 is below all of q1.
IM2  An entry is in one of requeued, q4 and q1.
IM3  Positions on disk only are below all of q1. They may be between entries of q4 and of requeued,
    so `fetch` and `read` take an upper bound.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator
from heapq import heapify, heappop
from itertools import islice
from operator import attrgetter, itemgetter

from leveret.storage.entry_blocks import EntryBlocks, within
from leveret.storage.intervals import NO_POSITION, Intervals
from leveret.storage.message import ENTRY_BYTES, Entry
from leveret.storage.untracked import untracked

SCANNED_ENTRIES_MAX = 4096
"""Requeued entries that are looked at one by one, rather than sorted."""
PIECE_ENTRIES = 1000
"""Of what is handed over. Freeing as many takes a tenth of a millisecond or two."""

_position = attrgetter("position")
_position_of_item = itemgetter(0)


class InMemory:
    """The entries in memory of one queue. The queue appends to q4, to the last block of q1 and to
    `requeued` directly.

    requeued: pairs of a position and an entry, as a heap.
    """

    __slots__ = ("q1", "q4", "requeued")

    def __init__(self) -> None:
        self.q4: deque[Entry] = untracked(deque())
        self.q1 = EntryBlocks()
        self.requeued: list[tuple[int, Entry]] = untracked([])

    def __len__(self) -> int:
        return len(self.requeued) + len(self.q4) + len(self.q1)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, in no order."""
        yield from (entry for _, entry in self.requeued)
        yield from self.q4
        yield from self.q1

    def first(self) -> Entry | None:
        """The first entry of requeued and q4."""
        requeued, q4 = self.requeued, self.q4
        if requeued and (not q4 or requeued[0][0] < q4[0].position):
            return requeued[0][1]
        return q4[0] if q4 else None

    def fetch(self, count: int, before: int) -> list[Entry]:
        """Remove up to `count` entries of requeued and q4, in order, with positions below `before`.

        Fewer only if there are no more below that position.
        """
        requeued, q4 = self.requeued, self.q4
        entries: list[Entry] = []
        while len(entries) < count:
            barrier = min(q4[0].position, before) if q4 else before
            while requeued and requeued[0][0] < barrier and len(entries) < count:
                entries.append(heappop(requeued)[1])
            barrier = min(requeued[0][0], before) if requeued else before
            if not q4 or q4[0].position >= barrier:
                break
            entries += self._fetch_q4(count - len(entries), barrier)
        return entries

    def _fetch_q4(self, count: int, before: int) -> list[Entry]:
        q4 = self.q4
        count = min(count, self.q4_before(before))
        if count == len(q4):
            entries = list(q4)
            q4.clear()
            return entries
        return [q4.popleft() for _ in range(count)]

    def q4_before(self, before: int) -> int:
        """How many entries of q4 are below a position."""
        q4 = self.q4
        if not q4 or q4[-1].position < before:
            return len(q4)
        return bisect_left(q4, before, key=_position)

    def make_q1_q4(self) -> None:
        """Fetch from q1 next: q4 is empty, and no position is on disk only."""
        assert not self.q4, "IM1: q4 is not empty"
        self.q4 = self.q1.pop_block()

    def take(self, positions: Collection[int]) -> list[Entry]:
        """Remove the entries at these positions that are in memory. Returned in order."""
        if not positions:
            return []
        wanted = frozenset(positions)
        taken = [entry for position, entry in self.requeued if position in wanted]
        if taken:
            self.requeued[:] = [item for item in self.requeued if item[0] not in wanted]
            heapify(self.requeued)
        first, last = min(wanted), max(wanted)
        taken += _take_out(self.q4, wanted, first, last)
        for block in self.q1.blocks:
            taken += _take_out(block, wanted, first, last)
        self.q1.drop_empty()
        taken.sort(key=_position)
        return taken

    def hand_over(self) -> Iterator[list[Entry]]:
        """Remove all entries at once, and return them in pieces, in no order.

        A piece is freed by whoever gets it; those that nobody asks for, with the iterator.
        """
        blocks = [self.q4, *self.q1.blocks]
        requeued, self.requeued = self.requeued, untracked([])
        self.q4, self.q1 = untracked(deque()), EntryBlocks()
        return _in_pieces(blocks, requeued)

    # Looking

    def read(self, position: int, before: int, bytes_max: int) -> list[Entry]:
        """Entries from `position` on and below `before`, in order, without removing them.

        Their sizes stop at `bytes_max`: see `Cursor.read`.
        """
        found = []
        if self.requeued:
            # A sorted list is a heap, and one that was sorted before is sorted quickly.
            self.requeued.sort(key=_position_of_item)
            start = bisect_left(self.requeued, position, key=_position_of_item)
            requeued = (entry for _, entry in islice(self.requeued, start, None))
            found += _within(requeued, before, bytes_max)
        if self.q4 and self.q4[-1].position >= position:
            found += _within(within(self.q4, position), before, bytes_max)
        found += _within(self.q1.start_at(position), before, bytes_max)
        found.sort(key=_position)
        return _within(iter(found), before, bytes_max)

    def next_position(self, position: int) -> int:
        """The lowest position in memory from `position` on; NO_POSITION if there is none."""
        found = self.read(position, NO_POSITION, 1)
        return found[0].position if found else NO_POSITION

    # Paging

    def between(self, start: int, end: int) -> list[Entry]:
        """The entries with positions from `start` up to, not including, `end`; in no order."""
        found = self._requeued_between(start, end)
        if self.q4 and self.q4[-1].position >= start:
            found += within(self.q4, start, end)
        found += self.q1.between(start, end)
        return found

    def _requeued_between(self, start: int, end: int) -> list[Entry]:
        requeued = self.requeued
        if len(requeued) > SCANNED_ENTRIES_MAX:
            # A sorted list is a heap, and one that was sorted before is sorted quickly.
            requeued.sort()
            first = bisect_left(requeued, start, key=_position_of_item)
            last = bisect_left(requeued, end, key=_position_of_item)
            return [entry for _, entry in islice(requeued, first, last)]
        return [entry for position, entry in requeued if start <= position < end]

    def positions(self) -> Intervals:
        """The positions of all entries."""
        found = Intervals()
        for block in (self.q4, *self.q1.blocks):
            if block and block[-1].position - block[0].position == len(block) - 1:
                found.add_range(block[0].position, block[-1].position + 1)
            else:
                for entry in block:
                    found.add(entry.position)
        requeued = sorted(map(_position_of_item, self.requeued))
        if requeued and requeued[-1] - requeued[0] == len(requeued) - 1:
            found.add_range(requeued[0], requeued[-1] + 1)
        else:
            for position in requeued:
                found.add(position)
        return found

    def page_out(
        self, flushed_to: int, bytes_max: int, is_gone: Callable[[int], bool]
    ) -> list[Entry]:
        """Remove entries that are in segments, those that will be fetched last first.

        flushed_to: entries below it are in segments, except those that `is_gone`. Returned in
        order, and all from one of q1, q4 and requeued.
        """
        dropped = self._page_out_q1(flushed_to, bytes_max)
        if not dropped:
            dropped = self._page_out_q4(flushed_to, bytes_max)
        if not dropped:
            dropped = self._page_out_requeued(flushed_to, bytes_max, is_gone)
        return dropped

    def _page_out_q1(self, flushed_to: int, bytes_max: int) -> list[Entry]:
        q1 = self.q1
        dropped, size = [], 0
        while q1 and size < bytes_max and q1.first.position < flushed_to:
            dropped.append(q1.popleft())
            size += len(dropped[-1].message.body) + ENTRY_BYTES
        return dropped

    def _page_out_q4(self, flushed_to: int, bytes_max: int) -> list[Entry]:
        q4 = self.q4
        dropped, size = [], 0
        while q4 and size < bytes_max and q4[-1].position < flushed_to:
            dropped.append(q4.pop())
            size += len(dropped[-1].message.body) + ENTRY_BYTES
        return dropped[::-1]

    def _page_out_requeued(
        self, flushed_to: int, bytes_max: int, is_gone: Callable[[int], bool]
    ) -> list[Entry]:
        below = min(flushed_to, self.q1.first.position) if self.q1 else flushed_to
        requeued = self.requeued
        # A sorted list is a heap, and one that was sorted before is sorted quickly.
        requeued.sort()
        place = end = bisect_left(requeued, below, key=_position_of_item)
        dropped, kept, size = [], [], 0
        while place and size < bytes_max:
            place -= 1
            position, entry = requeued[place]
            # Those requeued since a queue that is not durable started its ledger may be gone in it.
            if is_gone(position):
                kept.append((position, entry))
                continue
            dropped.append(entry)
            size += len(entry.message.body) + ENTRY_BYTES
        requeued[place:end] = reversed(kept)
        return dropped[::-1]


def _take_out(entries: deque[Entry], wanted: frozenset[int], first: int, last: int) -> list[Entry]:
    """Remove the entries with these positions, all from `first` to `last`, from a sorted deque."""
    if not entries or entries[-1].position < first or entries[0].position > last:
        return []
    start = bisect_left(entries, first, key=_position)
    entries.rotate(-start)
    taken: list[Entry] = []
    kept: list[Entry] = []
    for _ in range(len(entries) - start):
        if entries[0].position > last:
            break
        entry = entries.popleft()
        (taken if entry.position in wanted else kept).append(entry)
    entries.extendleft(reversed(kept))
    entries.rotate(start)
    return taken


def _in_pieces(
    blocks: list[deque[Entry]], requeued: list[tuple[int, Entry]]
) -> Iterator[list[Entry]]:
    for block in blocks:
        while block:
            yield [block.pop() for _ in range(min(PIECE_ENTRIES, len(block)))]
    while requeued:
        piece = [entry for _, entry in requeued[-PIECE_ENTRIES:]]
        del requeued[-PIECE_ENTRIES:]
        yield piece


def _within(entries: Iterator[Entry], before: int, bytes_max: int) -> list[Entry]:
    """The first entries, with positions below `before`, until their sizes reach `bytes_max`."""
    found, size = [], 0
    for entry in entries:
        if size >= bytes_max or entry.position >= before:
            break
        found.append(entry)
        size += len(entry.message.body) + ENTRY_BYTES
    return found

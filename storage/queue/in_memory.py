"""The ready entries of one queue that are in memory, in the order of their positions.

    requeued          q4                 (on disk only)        q1
    came back         published,                               published after
                      next to be fetched                       those on disk, or
                                                               after a full q4

q1 is in blocks (entry_blocks.py); the first block becomes q4. So q4 is not much larger than a block
either, and finding any part of a long queue is fast.

A requeued entry is inserted by its position (requeued_entries.py). Usually that is below the
position of every entry that was never fetched; an entry taken out of the middle of the queue
returns to the middle.

**Promises.** Entries are fetched in the order of their positions. Nothing is read from disk here,
and no entry is changed.

Invariants:

IM1  q4 and q1 are sorted by position, and all of q4 is below all of q1.
IM2  An entry is in one of requeued, q4 and q1.
IM3  Positions on disk only are below all of q1. They may be between entries of q4 and requeued,
    so `fetch` and `read` take an upper bound.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator
from itertools import chain, takewhile
from operator import attrgetter

from leveret.storage.messages.entry_blocks import EntryBlocks, take_out, within
from leveret.storage.messages.gc_untracked import gc_untracked
from leveret.storage.messages.intervals import NO_POSITION, Intervals
from leveret.storage.messages.message import ENTRY_BYTES, Entry
from leveret.storage.queue.requeued_entries import RequeuedEntries

PIECE_ENTRIES = 1000
"""Entries in a piece that is handed over. Freeing it takes 0.1 to 0.2 ms."""

_position = attrgetter("position")


class InMemory:
    """The entries in memory of one queue. The queue appends to q4, to the last block of q1 and to
    `requeued` directly.
    """

    __slots__ = ("q1", "q4", "requeued")

    def __init__(self) -> None:
        self.q4: deque[Entry] = gc_untracked(deque())
        self.q1 = EntryBlocks()
        self.requeued = RequeuedEntries()

    def __len__(self) -> int:
        return len(self.requeued) + len(self.q4) + len(self.q1)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, in no order."""
        yield from self.requeued
        yield from self.q4
        yield from self.q1

    def unexpired(self, count: int, now_ms: int) -> int:
        """How many of the first `count` entries precede the first that expired before now; if there
        are requeued entries, only the first entry is examined.
        """
        if self.requeued:
            first = self.first()
            return int(first is not None and not 0 < first.expires_at_ms < now_ms)
        found = 0
        for entry in self.q4:
            if found == count or 0 < entry.expires_at_ms < now_ms:
                break
            found += 1
        return found

    def first(self) -> Entry | None:
        """The first entry of requeued and q4."""
        requeued, q4 = self.requeued, self.q4
        if requeued and (not q4 or requeued.first.position < q4[0].position):
            return requeued.first
        return q4[0] if q4 else None

    def fetch(self, count: int, before: int) -> list[Entry]:
        """Remove up to `count` entries of requeued and q4, in order, with positions below `before`.

        Fewer only if there are not enough below that position.
        """
        requeued, q4 = self.requeued, self.q4
        entries: list[Entry] = []
        while len(entries) < count:
            barrier = min(q4[0].position, before) if q4 else before
            entries += requeued.fetch(count - len(entries), barrier)
            barrier = min(requeued.first.position, before) if requeued else before
            if not q4 or q4[0].position >= barrier:
                break
            entries += self.fetch_q4(min(count - len(entries), self.q4_before(barrier)))
        return entries

    def fetch_q4(self, count: int) -> list[Entry]:
        """Remove up to `count` entries of q4, in order."""
        q4 = self.q4
        if 1 < len(q4) <= count:
            entries = list(q4)
            q4.clear()
            return entries
        return [q4.popleft() for _ in range(min(count, len(q4)))]

    def q4_before(self, before: int) -> int:
        """The number of entries of q4 below a position."""
        q4 = self.q4
        if not q4 or q4[-1].position < before:
            return len(q4)
        return bisect_left(q4, before, key=_position)

    def make_q1_q4(self) -> None:
        """Make the first block of q1 q4. q4 must be empty, and no position on disk only."""
        assert not self.q4, "IM1: q4 is not empty"
        self.q4 = self.q1.pop_block()

    def take(self, positions: Collection[int]) -> list[Entry]:
        """Remove the entries at these positions that are in memory. Returned in order."""
        if not positions:
            return []
        wanted = frozenset(positions)
        taken = self.requeued.take(wanted) if self.requeued else []
        in_order = sorted(wanted)
        taken += take_out(self.q4, in_order)
        if self.q1:
            taken += self.q1.take(in_order)
        taken.sort(key=_position)
        return taken

    def hand_over(self) -> Iterator[list[Entry]]:
        """Remove all entries at once, and return them in pieces; each is in order.

        The caller frees the pieces that it gets; the rest are freed with the iterator.
        """
        blocks = [self.q4, *self.q1.blocks]
        pieces = chain(_in_pieces(blocks), self.requeued.hand_over())
        self.q4, self.q1, self.requeued = gc_untracked(deque()), EntryBlocks(), RequeuedEntries()
        return pieces

    # Inspecting

    def read(self, position: int, before: int, bytes_max: int) -> list[Entry]:
        """Entries from `position` on and below `before`, in order, without removing them.

        `bytes_max` limits their sizes as in `Cursor.read`.
        """
        found = []
        if self.requeued:
            found += _within(self.requeued.start_at(position), before, bytes_max)
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
        found: list[Entry] = []
        if self.requeued:
            found += takewhile(lambda entry: entry.position < end, self.requeued.start_at(start))
        if self.q4 and self.q4[-1].position >= start:
            found += within(self.q4, start, end)
        if self.q1:
            found += self.q1.between(start, end)
        return found

    @property
    def loose_count(self) -> int:
        """The number of entries that may have gaps around them."""
        loose = len(self.requeued)
        for block in (self.q4, *self.q1.blocks):
            if block and block[-1].position - block[0].position != len(block) - 1:
                loose += len(block)
        return loose

    def positions(self) -> Intervals:
        """The positions of all entries."""
        found = Intervals()
        for block in (self.q4, *self.q1.blocks):
            if block and block[-1].position - block[0].position == len(block) - 1:
                found.add_range(block[0].position, block[-1].position + 1)
            else:
                for entry in block:
                    found.add(entry.position)
        found.update(self.requeued.positions())
        return found

    def page_out(
        self, flushed_to: int, bytes_max: int, is_gone: Callable[[int], bool]
    ) -> list[Entry]:
        """Remove entries that are in segments, beginning with those that will be fetched last.

        flushed_to: entries below it are in segments, except those that `is_gone`. Returned in
        order, and all from one of q1, q4 and requeued.
        """
        dropped = self._page_out_q1(flushed_to, bytes_max)
        if not dropped:
            dropped = self._page_out_q4(flushed_to, bytes_max)
        if not dropped:
            below = min(flushed_to, self.q1.first.position) if self.q1 else flushed_to
            dropped = self.requeued.page_out(below, bytes_max, is_gone)
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


def _in_pieces(blocks: list[deque[Entry]]) -> Iterator[list[Entry]]:
    for block in blocks:
        while block:
            yield [block.popleft() for _ in range(min(PIECE_ENTRIES, len(block)))]


def _within(entries: Iterator[Entry], before: int, bytes_max: int) -> list[Entry]:
    """The first entries, with positions below `before`, until their sizes reach `bytes_max`."""
    found, size = [], 0
    for entry in entries:
        if size >= bytes_max or entry.position >= before:
            break
        found.append(entry)
        size += len(entry.message.body) + ENTRY_BYTES
    return found

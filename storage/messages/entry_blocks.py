"""Entries in the order of their positions, in blocks of bounded size.

One deque of millions is slow in its middle: finding a position there takes milliseconds, and
copying a part takes as long as walking to it. In blocks both take microseconds for any number of
entries.

Publishing extends the last block, `tail`, directly. The publishing queue begins a new block from
time to time (`bound`), so a block may be a little larger than `BLOCK_ENTRIES`.

Invariants:

EB1  Entries are sorted by position, within blocks and from block to block.
EB2  There is a last block, which may be empty. No other block is empty.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter

from leveret.storage.messages.gc_untracked import gc_untracked
from leveret.storage.messages.message import Entry

BLOCK_ENTRIES = 65_536
"""A block with this many entries is not extended."""
LOOSE_BLOCK_ENTRIES = 512
"""The same for a queue whose entries are often taken from the middle."""
FEW = 16
"""If fewer than one entry in this many is taken from a block, each is searched for in it."""
BLOCKS_NEAR = 8
"""The blocks that are examined one after another before the others are searched."""

Block = deque[Entry]
_position = attrgetter("position")


class EntryBlocks:
    """A sorted sequence of entries. tail: the last block, to which entries are appended."""

    __slots__ = ("_blocks", "tail")

    def __init__(self) -> None:
        self.tail: Block = gc_untracked(deque())
        self._blocks: list[Block] = [self.tail]

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def __bool__(self) -> bool:
        return bool(self._blocks[0])

    def __iter__(self) -> Iterator[Entry]:
        """All entries, in order."""
        return chain.from_iterable(self._blocks)

    @property
    def blocks(self) -> Iterator[Block]:
        """The blocks, in order."""
        return iter(self._blocks)

    @property
    def first(self) -> Entry:
        """The first entry. The sequence must not be empty."""
        return self._blocks[0][0]

    def bound(self, block_entries: int = 0) -> None:
        """Begin a new block, if the last one is full: it has BLOCK_ENTRIES, or as many as given."""
        if len(self.tail) >= (block_entries or BLOCK_ENTRIES):
            self.tail = gc_untracked(deque())
            self._blocks.append(self.tail)

    def pop_block(self) -> Block:
        """Remove and return the first block."""
        block = self._blocks.pop(0)
        self._keep_tail()
        return block

    def popleft(self) -> Entry:
        """Remove and return the first entry."""
        block = self._blocks[0]
        entry = block.popleft()
        if not block and block is not self.tail:
            self._blocks.pop(0)
        return entry

    def take(self, positions: Sequence[int]) -> list[Entry]:
        """Remove the entries at these positions, which are in order. Returned in order."""
        taken: list[Entry] = []
        has_empty = False
        place = number = 0
        while place < len(positions):
            number = self._block_at(positions[place], number)
            if number == len(self._blocks):
                break
            block = self._blocks[number]
            if len(block) > 2 * LOOSE_BLOCK_ENTRIES and block is not self.tail:
                self._divide(number)
                continue
            end = bisect_right(positions, block[-1].position, place)
            taken += take_out(block, positions[place:end])
            has_empty |= not block
            place = end
            number += 1
        if has_empty:
            self.drop_empty()
        return taken

    def _block_at(self, position: int, number: int) -> int:
        """The number of the first block, from this one on, that ends at a position or behind it;
        one more than that of the last block if there is none.
        """
        blocks = self._blocks
        end = len(blocks)
        near = min(end, number + BLOCKS_NEAR)
        while number < near:
            block = blocks[number]
            if block and block[-1].position >= position:
                return number
            number += 1
        if not self.tail:
            end -= 1
        while number < end:
            middle = (number + end) >> 1
            if blocks[middle][-1].position < position:
                number = middle + 1
            else:
                end = middle
        return end if end < len(blocks) and blocks[end] else len(blocks)

    def _divide(self, number: int) -> None:
        """Divide a block, from which entries are taken, into smaller ones."""
        entries = iter(self._blocks[number])
        parts: list[Block] = []
        while part := tuple(islice(entries, LOOSE_BLOCK_ENTRIES)):
            parts.append(gc_untracked(deque(part)))
        self._blocks[number : number + 1] = parts

    def drop_empty(self) -> None:
        """Remove blocks that are empty after entries were removed from the middle (EB2)."""
        self._blocks = [block for block in self._blocks if block or block is self.tail]

    def clear(self) -> None:
        """Remove all entries."""
        self._blocks.clear()
        self._keep_tail()

    def _keep_tail(self) -> None:
        if not self._blocks:
            self.tail = gc_untracked(deque())
            self._blocks.append(self.tail)

    def start_at(self, position: int) -> Iterator[Entry]:
        """The entries from a position on, in order."""
        for block in self._blocks:
            if block and block[-1].position >= position:
                yield from within(block, position)

    def between(self, start: int, end: int) -> list[Entry]:
        """The entries with positions from `start` up to, not including, `end`, in order."""
        found: list[Entry] = []
        for number in range(self._block_at(start, 0), len(self._blocks)):
            block = self._blocks[number]
            if not block or block[0].position >= end:
                break
            found += within(block, start, end)
        return found


def take_out(block: Block, positions: Sequence[int]) -> list[Entry]:
    """Remove the entries at these positions, which are in order, from a block."""
    if not block or not positions:
        return []
    if len(positions) * FEW < len(block) or len(positions) == 1:
        return _take_few(block, positions)
    first, last = positions[0], positions[-1]
    if block[-1].position < first or block[0].position > last:
        return []
    wanted = frozenset(positions)
    start = bisect_left(block, first, key=_position)
    block.rotate(-start)
    taken: list[Entry] = []
    kept: list[Entry] = []
    for _ in range(len(block) - start):
        if block[0].position > last:
            break
        entry = block.popleft()
        (taken if entry.position in wanted else kept).append(entry)
    block.extendleft(reversed(kept))
    block.rotate(start)
    return taken


def _take_few(block: Block, positions: Sequence[int]) -> list[Entry]:
    taken = []
    for position in positions:
        # Where the index can be follows from the gaps in the block, which are few.
        last = len(block) - 1
        low = max(0, last - (block[last].position - position))
        high = min(last, position - block[0].position)
        while low < high:
            middle = (low + high) >> 1
            if block[middle].position < position:
                low = middle + 1
            else:
                high = middle
        if low == high and block[low].position == position:
            taken.append(block[low])
            del block[low]
            if not block:
                break
    return taken


def within(block: Block, start: int, end: int | None = None) -> Iterator[Entry]:
    """The entries of a block with positions from `start` up to, not including, `end`."""
    first = bisect_left(block, start, key=_position)
    last = None if end is None else bisect_left(block, end, key=_position)
    return islice(block, first, last)

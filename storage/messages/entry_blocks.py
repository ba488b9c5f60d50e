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

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from itertools import chain, islice
from operator import attrgetter

from leveret.storage.messages.gc_untracked import gc_untracked
from leveret.storage.messages.message import Entry

BLOCK_ENTRIES = 65_536
"""A block with this many entries is not extended."""

Block = deque[Entry]
_position = attrgetter("position")


class EntryBlocks:
    """A sorted sequence of entries. tail: the last block, to which entries are appended."""

    __slots__ = ("_blocks", "tail")

    def __init__(self) -> None:
        self.tail: Block = gc_untracked(deque())
        self._blocks: deque[Block] = deque([self.tail])

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

    def bound(self) -> None:
        """Begin a new block, if the last one is full."""
        if len(self.tail) >= BLOCK_ENTRIES:
            self.tail = gc_untracked(deque())
            self._blocks.append(self.tail)

    def pop_block(self) -> Block:
        """Remove and return the first block."""
        block = self._blocks.popleft()
        self._keep_tail()
        return block

    def popleft(self) -> Entry:
        """Remove and return the first entry."""
        block = self._blocks[0]
        entry = block.popleft()
        if not block and block is not self.tail:
            self._blocks.popleft()
        return entry

    def drop_empty(self) -> None:
        """Remove blocks that are empty after entries were removed from the middle (EB2)."""
        self._blocks = deque(block for block in self._blocks if block or block is self.tail)

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

    def between(self, start: int, end: int) -> Iterator[Entry]:
        """The entries with positions from `start` up to, not including, `end`, in order."""
        for block in self._blocks:
            if not block or block[-1].position < start:
                continue
            if block[0].position >= end:
                return
            yield from within(block, start, end)


def within(block: Block, start: int, end: int | None = None) -> Iterator[Entry]:
    """The entries of a block with positions from `start` up to, not including, `end`."""
    first = bisect_left(block, start, key=_position)
    last = None if end is None else bisect_left(block, end, key=_position)
    return islice(block, first, last)

"""A set of positions, kept as intervals.

A queue's positions are taken and settled nearly in order, so a set of millions of them is one
interval, or a few. But a client that settles every second message leaves an interval for each.
Intervals are in blocks of bounded size, so that any change costs microseconds, for any number of
them; a lookup takes two binary searches, of the blocks and in the block. Adding at the end of the
last interval costs one comparison. Pure.

Invariants:

I1  Intervals are half-open and not empty: each start is below its end.
I2  Intervals are sorted and do not touch, in a block and from block to block: each end is below the
    next start.
I3  `count` is the sum of their lengths.
I4  No block is empty, or has more than BLOCK_INTERVALS_MAX intervals; `_firsts` has the first start
    of each.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

NO_POSITION = 1 << 62
"""Above all positions."""
BLOCK_INTERVALS_MAX = 1024


class IntervalBlock:
    """Some consecutive intervals. count: the sum of their lengths."""

    __slots__ = ("count", "ends", "starts")

    def __init__(self, starts: "array[int]", ends: "array[int]", count: int) -> None:
        self.starts = starts
        self.ends = ends
        self.count = count

    def insert(self, start: int, end: int) -> int:
        """Add an interval, merged with those that it touches. Returns how many numbers are new."""
        starts, ends = self.starts, self.ends
        low, high = bisect_left(ends, start), bisect_right(starts, end)
        if low == high:
            starts.insert(low, start)
            ends.insert(low, end)
            added = end - start
        else:
            known = sum(ends[low:high]) - sum(starts[low:high])
            starts[low] = min(start, starts[low])
            ends[low] = max(end, ends[high - 1])
            del starts[low + 1 : high], ends[low + 1 : high]
            added = ends[low] - starts[low] - known
        self.count += added
        return added

    def remove(self, start: int, end: int) -> int:
        """Take out numbers. Returns how many of them there were."""
        starts, ends = self.starts, self.ends
        low, high = bisect_right(ends, start), bisect_left(starts, end)
        if low >= high:
            return 0
        kept_starts, kept_ends = array("q"), array("q")
        if starts[low] < start:
            kept_starts.append(starts[low])
            kept_ends.append(start)
        if ends[high - 1] > end:
            kept_starts.append(end)
            kept_ends.append(ends[high - 1])
        removed = sum(ends[low:high]) - sum(starts[low:high])
        removed -= sum(kept_ends) - sum(kept_starts)
        starts[low:high] = kept_starts
        ends[low:high] = kept_ends
        self.count -= removed
        return removed

    def copy(self) -> "IntervalBlock":
        """A new block with the same intervals."""
        return IntervalBlock(self.starts[:], self.ends[:], self.count)


class Intervals:
    """A set of numbers that is mostly ranges. count: how many numbers it has."""

    __slots__ = ("_blocks", "_firsts", "count")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._blocks: list[IntervalBlock] = []
        self._firsts: list[int] = []
        self.count = 0
        for start, end in ranges:
            self.add_range(start, end)

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The intervals, in order, as (start, end)."""
        for block in self._blocks:
            yield from zip(block.starts, block.ends, strict=True)

    def __contains__(self, number: int) -> bool:
        return self.next_gap(number) > number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Intervals) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Intervals({list(self)})"

    @property
    def blocks(self) -> Iterator[IntervalBlock]:
        """The intervals in blocks, in order. They must not be changed."""
        return iter(self._blocks)

    @property
    def interval_count(self) -> int:
        """The number of intervals."""
        return sum([len(block.starts) for block in self._blocks])

    @property
    def first(self) -> int:
        """The lowest number. The set must not be empty."""
        return self._firsts[0]

    @property
    def end(self) -> int:
        """One more than the highest number; 0 if there is none."""
        return self._blocks[-1].ends[-1] if self._blocks else 0

    def copy(self) -> "Intervals":
        """A new set with the same numbers."""
        other = Intervals()
        other._blocks = [block.copy() for block in self._blocks]
        other._firsts, other.count = self._firsts[:], self.count
        return other

    # Changing

    def add(self, number: int) -> None:
        """Add one number."""
        if not self.extend(number):
            self.add_range(number, number + 1)

    def extend(self, number: int) -> bool:
        """Add a number if the last interval ends at it. Returns whether it was added."""
        blocks = self._blocks
        if not blocks:
            return False
        block = blocks[-1]
        ends = block.ends
        if ends[-1] != number:
            return False
        ends[-1] = number + 1
        block.count += 1
        self.count += 1
        return True

    def add_range(self, start: int, end: int) -> None:
        """Add the numbers from `start` up to, not including, `end`."""
        if start >= end:
            return
        if not self._blocks:
            self._blocks.append(IntervalBlock(array("q"), array("q"), 0))
            self._firsts.append(start)
        block = self._blocks[-1]
        last_end = block.ends[-1] if block.ends else -1
        if start < last_end:
            self._insert(start, end)
            return
        block.count += end - start
        self.count += end - start
        if start == last_end:
            block.ends[-1] = end
            return
        block.starts.append(start)
        block.ends.append(end)
        if len(block.starts) > BLOCK_INTERVALS_MAX:
            self._split(len(self._blocks) - 1)

    def _insert(self, start: int, end: int) -> None:
        """Add numbers below the end, and merge them with the intervals that they touch (I2)."""
        firsts = self._firsts
        place = max(0, bisect_right(firsts, start) - 1)
        if place + 1 < len(firsts) and firsts[place + 1] <= end:
            end = self.next_gap(end)
            self.remove_range(firsts[place + 1], end)
        block = self._blocks[place]
        added = block.insert(start, end)
        self.count += added
        firsts[place] = block.starts[0]
        if len(block.starts) > BLOCK_INTERVALS_MAX:
            self._split(place)

    def _split(self, place: int) -> None:
        block = self._blocks[place]
        starts, ends = block.starts, block.ends
        # Most intervals are added at the end: the block before it stays nearly full.
        is_last = place == len(self._blocks) - 1
        half = BLOCK_INTERVALS_MAX if is_last else BLOCK_INTERVALS_MAX // 2
        moved = IntervalBlock(starts[half:], ends[half:], sum(ends[half:]) - sum(starts[half:]))
        del starts[half:], ends[half:]
        block.count -= moved.count
        self._blocks.insert(place + 1, moved)
        self._firsts.insert(place + 1, moved.starts[0])

    def remove_range(self, start: int, end: int) -> None:
        """Take out the numbers from `start` up to, not including, `end`."""
        if start >= end or not self._blocks:
            return
        low = max(0, bisect_right(self._firsts, start) - 1)
        high = bisect_left(self._firsts, end)
        kept = []
        for block in self._blocks[low:high]:
            if start <= block.starts[0] and block.ends[-1] <= end:
                self.count -= block.count
                continue
            self.count -= block.remove(start, end)
            if block.starts:
                kept.append(block)
        self._blocks[low:high] = kept
        self._firsts[low:high] = [block.starts[0] for block in kept]
        # An interval of a single block may have been cut in two.
        if len(kept) == 1 and len(kept[0].starts) > BLOCK_INTERVALS_MAX:
            self._split(low)

    def update(self, other: "Intervals") -> None:
        """Add all numbers of another set."""
        for start, end in other:
            self.add_range(start, end)

    def pop_block(self) -> IntervalBlock:
        """Take out the first block of intervals. The set must not be empty."""
        self._firsts.pop(0)
        block = self._blocks.pop(0)
        self.count -= block.count
        return block

    def add_block(self, block: IntervalBlock) -> None:
        """Add the intervals of a block."""
        for start, end in zip(block.starts, block.ends, strict=True):
            self.add_range(start, end)

    def clear(self) -> None:
        """Take out every number."""
        self._blocks.clear()
        self._firsts.clear()
        self.count = 0

    # Inspecting

    def _block_at(self, number: int) -> IntervalBlock | None:
        """The last block that does not begin after a number."""
        place = bisect_right(self._firsts, number) - 1
        return self._blocks[place] if place >= 0 else None

    def start_of(self, number: int) -> int:
        """The lowest number from which on all up to, not including, this one are in the set."""
        block = self._block_at(number - 1)
        if block is None:
            return number
        place = bisect_right(block.starts, number - 1) - 1
        return block.starts[place] if number <= block.ends[place] else number

    def covers(self, start: int, end: int) -> bool:
        """Whether every number from `start` up to, not including, `end` is in the set."""
        return start >= end or end <= self.next_gap(start)

    def next_gap(self, number: int) -> int:
        """The lowest number from this one on that is not in the set."""
        block = self._block_at(number)
        if block is None:
            return number
        return max(number, block.ends[bisect_right(block.starts, number) - 1])

    def within(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of the set from `start` up to, not including, `end`."""
        place = max(0, bisect_right(self._firsts, start) - 1)
        while place < len(self._blocks) and self._firsts[place] < end:
            block = self._blocks[place]
            low, high = bisect_right(block.ends, start), bisect_left(block.starts, end)
            for first, after in zip(block.starts[low:high], block.ends[low:high], strict=True):
                yield max(start, first), min(end, after)
            place += 1

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The intervals from `start` up to, not including, `end` that are not in the set."""
        for covered_start, covered_end in self.within(start, end):
            if start < covered_start:
                yield start, covered_start
            start = covered_end
        if start < end:
            yield start, end

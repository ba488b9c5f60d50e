"""A set of positions, kept as intervals.

A queue's positions are taken and settled nearly in order, so a set of millions of them is one
interval, or a few. Adding at the end of the last interval costs one comparison; anything else is a
binary search. Pure.

Invariants:

I1  Intervals are half-open and not empty: each start is below its end.
I2  Intervals are sorted and do not touch: each end is below the next start.
I3  `count` is the sum of their lengths.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

NO_POSITION = 1 << 62
"""Above all positions."""


class Intervals:
    """A set of numbers that is mostly ranges."""

    __slots__ = ("count", "ends", "starts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.count = 0
        """How many numbers are in the set."""
        for start, end in ranges:
            self.add_range(start, end)

    def __bool__(self) -> bool:
        return bool(self.starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The intervals, in order, as (start, end)."""
        return zip(self.starts, self.ends, strict=True)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self.starts, number) - 1
        return place >= 0 and number < self.ends[place]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Intervals) and self.starts == other.starts and self.ends == other.ends
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Intervals({list(self)})"

    @property
    def first(self) -> int:
        """The lowest number. There must be one."""
        return self.starts[0]

    @property
    def end(self) -> int:
        """One more than the highest number; 0 if there is none."""
        return self.ends[-1] if self.ends else 0

    def copy(self) -> "Intervals":
        """A set of its own with the same numbers."""
        other = Intervals()
        other.starts, other.ends, other.count = self.starts[:], self.ends[:], self.count
        return other

    def add(self, number: int) -> None:
        """Add one number."""
        ends = self.ends
        if ends and ends[-1] == number:
            ends[-1] = number + 1
            self.count += 1
        else:
            self.add_range(number, number + 1)

    def add_range(self, start: int, end: int) -> None:
        """Add the numbers from `start` up to, not including, `end`."""
        if start >= end:
            return
        starts, ends = self.starts, self.ends
        if not ends or start > ends[-1]:
            starts.append(start)
            ends.append(end)
            self.count += end - start
            return
        if start == ends[-1]:
            ends[-1] = end
            self.count += end - start
            return
        low = bisect_left(ends, start)
        high = bisect_right(starts, end)
        covered = sum(map(int.__sub__, ends[low:high], starts[low:high]))
        if low < high:
            start = min(start, starts[low])
            end = max(end, ends[high - 1])
        starts[low:high] = [start]
        ends[low:high] = [end]
        self.count += end - start - covered

    def remove_range(self, start: int, end: int) -> None:
        """Take out the numbers from `start` up to, not including, `end`."""
        starts, ends = self.starts, self.ends
        low = bisect_right(ends, start)
        high = bisect_left(starts, end)
        if start >= end or low >= high:
            return
        kept_starts, kept_ends = [], []
        if starts[low] < start:
            kept_starts.append(starts[low])
            kept_ends.append(start)
        if ends[high - 1] > end:
            kept_starts.append(end)
            kept_ends.append(ends[high - 1])
        removed = sum(map(int.__sub__, ends[low:high], starts[low:high]))
        removed -= sum(map(int.__sub__, kept_ends, kept_starts))
        starts[low:high] = kept_starts
        ends[low:high] = kept_ends
        self.count -= removed

    def update(self, other: "Intervals") -> None:
        """Add all numbers of another set."""
        for start, end in other:
            self.add_range(start, end)

    def clear(self) -> None:
        """Take out every number."""
        self.starts.clear()
        self.ends.clear()
        self.count = 0

    def covers(self, start: int, end: int) -> bool:
        """Every number from `start` up to, not including, `end` is in the set."""
        place = bisect_right(self.starts, start) - 1
        return start >= end or (place >= 0 and end <= self.ends[place])

    def next_gap(self, number: int) -> int:
        """The lowest number from this one on that is not in the set."""
        place = bisect_right(self.starts, number) - 1
        return max(number, self.ends[place]) if place >= 0 else number

    def within(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of the set from `start` up to, not including, `end`."""
        place = bisect_right(self.ends, start)
        while place < len(self.starts) and self.starts[place] < end:
            yield max(start, self.starts[place]), min(end, self.ends[place])
            place += 1

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The intervals from `start` up to, not including, `end` that are not in the set."""
        for covered_start, covered_end in self.within(start, end):
            if start < covered_start:
                yield start, covered_start
            start = covered_end
        if start < end:
            yield start, end

"""The entries of a log that are still needed, as intervals of indexes: first, last, first ...

They may cover a few entries that are not needed: these cost less than another interval.

Invariants:

QM12  The intervals cover the entry of each message of the queue.
"""

from collections.abc import Iterable
from typing import Final

JOINED_GAP: Final = 64
"""How many unneeded entries between two needed ones are covered, too."""
GROUP_BITS: Final = 6
"""Entries are counted in groups of `JOINED_GAP`."""


class CountedEntries:
    """The entries of messages that leave in any order: how many messages each group of entries has.

    So the intervals of a million messages are found without looking at each of them.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, index: int, count: int) -> None:
        """Messages of an entry are added."""
        group = index >> GROUP_BITS
        self._counts[group] = self._counts.get(group, 0) + count

    def remove(self, index: int, count: int) -> None:
        """Messages of an entry are removed."""
        group = index >> GROUP_BITS
        left = self._counts[group] - count
        if left:
            self._counts[group] = left
        else:
            del self._counts[group]

    def clear(self) -> None:
        """No entry has messages."""
        self._counts.clear()

    def intervals(self) -> list[int]:
        """The intervals that cover all of them. An entry has an index above 0."""
        intervals: list[int] = []
        for group in sorted(self._counts):
            first, last = group << GROUP_BITS, (group + 1 << GROUP_BITS) - 1
            if intervals and first - intervals[-1] <= JOINED_GAP:
                intervals[-1] = last
            else:
                intervals.append(max(1, first))
                intervals.append(last)
        return intervals


def intervals_of_indexes(indexes: list[int]) -> list[int]:
    """The intervals that cover these indexes."""
    intervals: list[int] = []
    last = -1
    for index in sorted(indexes):
        if last >= 0 and index - last <= JOINED_GAP:
            intervals[-1] = index
        else:
            intervals.append(index)
            intervals.append(index)
        last = index
    return intervals


def joined(parts: Iterable[list[int]]) -> list[int]:
    """The intervals that cover all parts. Each part is in order."""
    pairs: list[tuple[int, int]] = []
    for part in parts:
        for at in range(0, len(part), 2):
            pairs.append((part[at], part[at + 1]))
    pairs.sort()
    intervals: list[int] = []
    for first, last in pairs:
        if intervals and first - intervals[-1] <= JOINED_GAP:
            intervals[-1] = max(intervals[-1], last)
        else:
            intervals.append(first)
            intervals.append(last)
    return intervals

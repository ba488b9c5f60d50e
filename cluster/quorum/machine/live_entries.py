"""The entries of a log that are still needed, as intervals of indexes: first, last, first ...

They may cover a few entries that are not needed: these cost less than another interval.

Invariants:

QM12  The intervals cover the entry of each message of the queue.
"""

from collections.abc import Iterable
from typing import Final

JOINED_GAP: Final = 64
"""How many unneeded entries between two needed ones are covered, too."""


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

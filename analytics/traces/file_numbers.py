"""Finds files that are missing: the broker numbers the files of a log from 0.

A name is NODE-TIME-NUMBER, where TIME is when the log was begun or continued. The oldest files may
have been deleted because of their age, so only numbers between two that are there are missing.
"""

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

from leveret.analytics.traces.trace_files import TraceFile

_NAME = re.compile(r"(?P<node>.+)-(?P<began_us>\d{15,17})-(?P<number>\d{1,9})\.[a-z.]+")


class MissingFiles(NamedTuple):
    """Files of a log that are missing. first, last: the lowest and the highest number."""

    node: str
    vhost: str
    began_us: int
    files: int
    first: int
    last: int


def missing_files(files: Iterable[TraceFile]) -> list[MissingFiles]:
    """Return the missing numbers of files, by log."""
    numbers: dict[tuple[str, str, int], set[int]] = {}
    for file in files:
        if found := _NAME.fullmatch(PurePosixPath(file.path).name):
            key = (found["node"], file.vhost or "", int(found["began_us"]))
            numbers.setdefault(key, set()).add(int(found["number"]))
    return [
        MissingFiles(*key, *between) for key, known in sorted(numbers.items())
        if (between := _between(sorted(known)))
    ]  # fmt: skip


def _between(numbers: list[int]) -> tuple[int, int, int] | None:
    """Return how many numbers are missing, the lowest and the highest of them."""
    pairs = pairwise(numbers)
    gaps = [(low + 1, high - 1) for low, high in pairs if high > low + 1]
    if not gaps:
        return None
    return sum(last - first + 1 for first, last in gaps), gaps[0][0], gaps[-1][1]

"""Conditions by which DuckDB reads only the blocks of a table that have certain numbers."""

from collections.abc import Iterable

RANGES_MAX = 100


def in_ranges(column: str, begins: Iterable[int], size: int) -> str:
    """Return the condition that a column is in a range of this size that begins at one of these.

    Ranges side by side are one. If there are very many, all between the first and the last count.
    """
    ranges = list[tuple[int, int]]()
    for begin in sorted(begins):
        if ranges and begin <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], begin + size - 1)
        else:
            ranges.append((begin, begin + size - 1))
    if len(ranges) > RANGES_MAX:
        ranges = [(ranges[0][0], ranges[-1][1])]
    conditions = [f"{column} between {first} and {last}" for first, last in ranges]
    return " or ".join(conditions) or "false"

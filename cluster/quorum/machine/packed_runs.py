"""Runs as bytes, in columns. A column whose number is the same in all runs is stored once.

    runs      number of runs u32, one column for each of the fields
    column    0 u8, number i64       all runs have this one
              1 u8, numbers u32      one for each run
              2 u8, numbers i64      one for each run

Numbers are little-endian. A message that was published alone takes 16 bytes if sizes are equal.
"""

from struct import Struct, pack, unpack_from
from struct import error as StructError
from typing import Final

from leveret.cluster.quorum.machine.runs import Run

ONE: Final = 0
SHORT: Final = 1
LONG: Final = 2
SHORT_MAX: Final = (1 << 32) - 1
FIELDS: Final = 11
_COUNT: Final = Struct("<I")
_NUMBER: Final = Struct("<Bq")


class PackedRunsError(ValueError):
    """The bytes are not packed runs."""


def pack_runs(runs: list[Run]) -> bytes:
    """Encode runs."""
    pieces = [_COUNT.pack(len(runs))]
    if runs:
        for column in (
            [run.position for run in runs], [run.count for run in runs],
            [run.index for run in runs], [run.place for run in runs], [run.size for run in runs],
            [run.priority for run in runs], [run.expires_at_ms for run in runs],
            [run.returns for run in runs], [run.delivery_count for run in runs],
            [run.delivery for run in runs], [run.time_ms for run in runs],
        ):  # fmt: skip
            pieces.append(_packed(column))
    return b"".join(pieces)


def _packed(column: list[int]) -> bytes:
    first, count = column[0], len(column)
    if column.count(first) == count:
        return _NUMBER.pack(ONE, first)
    if min(column) >= 0 and max(column) <= SHORT_MAX:
        return pack(f"<B{count}I", SHORT, *column)
    return pack(f"<B{count}q", LONG, *column)


def unpack_runs(data: bytes) -> list[Run]:
    """Decode runs. Raises PackedRunsError."""
    try:
        (count,) = _COUNT.unpack_from(data)
        if count == 0:
            if len(data) != _COUNT.size:
                raise PackedRunsError("there are bytes after packed runs")
            return []
        return _unpacked(data, count)
    except (StructError, IndexError) as error:
        raise PackedRunsError(f"packed runs are damaged: {error}") from error


def _unpacked(data: bytes, count: int) -> list[Run]:
    if count > len(data):
        # Positions are all different, so their column has at least four bytes for each run.
        raise PackedRunsError(f"{count} packed runs have {len(data)} bytes")
    at = _COUNT.size
    columns: list[list[int]] = []
    for _ in range(FIELDS):
        kind = data[at]
        if kind == ONE:
            _, number = _NUMBER.unpack_from(data, at)
            columns.append([number] * count)
            at += _NUMBER.size
        elif kind in {SHORT, LONG}:
            form = f"<{count}I" if kind == SHORT else f"<{count}q"
            columns.append(list(unpack_from(form, data, at + 1)))
            at += 1 + count * (4 if kind == SHORT else 8)
        else:
            raise PackedRunsError(f"a column of packed runs is of kind {kind}")
    if at != len(data):
        raise PackedRunsError("there are bytes after packed runs")
    (positions, counts, indexes, places, sizes, priorities, expiries, returns, delivery_counts,
     deliveries, times) = columns  # fmt: skip
    return [
        Run(positions[at], counts[at], indexes[at], places[at], sizes[at], priorities[at],
            expiries[at], returns[at], delivery_counts[at], deliveries[at], times[at])
        for at in range(count)
    ]  # fmt: skip

"""Runs as bytes, in columns. A column whose number is the same in all runs is stored once.

    runs      number of runs u32, one column for each of the fields, annotations and times
    column    0 u8, number i64       all runs have this one
              1 u8, numbers u32      one for each run
              2 u8, numbers i64      one for each run
    annotations    for each run that has some: its place u32, length u32, map in msgpack
    times     for each run that has some: its place u32 with the highest bit set, length u32,
              base i64, times (own_times.py)

Numbers are little-endian. A message that was published alone takes 16 bytes if sizes are equal.
Only nodes that take messages with times of their own get runs that have some (`EnqueueTimed`).
"""

from struct import Struct, pack, unpack_from
from struct import error as StructError
from typing import Final

import msgspec

from leveret.cluster.quorum.machine.own_times import TIME_BYTES, OwnTimes
from leveret.cluster.quorum.machine.runs import Annotations, Run

ONE: Final = 0
SHORT: Final = 1
LONG: Final = 2
SHORT_MAX: Final = (1 << 32) - 1
FIELDS: Final = 11
_COUNT: Final = Struct("<I")
_NUMBER: Final = Struct("<Bq")
_PART: Final = Struct("<II")
_BASE: Final = Struct("<q")
TIMES: Final = 1 << 31
"""Marks the place of a run that times belong to."""
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[Annotations]] = msgspec.msgpack.Decoder(dict[str, bytes])


class PackedRunsError(ValueError):
    """The bytes are not packed runs."""


def pack_runs(runs: list[Run], has_times: bool = True) -> bytes:
    """Encode runs. has_times: without them, runs are for clients, which need no times."""
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
        for place, run in enumerate(runs):
            if run.annotations is not None:
                data = _ENCODER.encode(run.annotations)
                pieces += (_PART.pack(place, len(data)), data)
            times = run.times
            if times is not None and has_times:
                data = _BASE.pack(times.base_ms) + times.part(run.place, run.count)
                pieces += (_PART.pack(place | TIMES, len(data)), data)
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
    except (StructError, IndexError, msgspec.MsgspecError, UnicodeDecodeError) as error:
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
    (positions, counts, indexes, places, sizes, priorities, expiries, returns, delivery_counts,
     deliveries, times) = columns  # fmt: skip
    runs = [
        Run(positions[at], counts[at], indexes[at], places[at], sizes[at], priorities[at],
            expiries[at], returns[at], delivery_counts[at], deliveries[at], times[at])
        for at in range(count)
    ]  # fmt: skip
    _unpack_parts(data, at, runs)
    return runs


def _unpack_parts(data: bytes, at: int, runs: list[Run]) -> None:
    """Decode the annotations and times of runs, which begin at a place."""
    while at < len(data):
        place, length = _PART.unpack_from(data, at)
        at += _PART.size
        if at + length > len(data):
            raise PackedRunsError("annotations or times of packed runs are cut off")
        part = data[at : at + length]
        if place < TIMES:
            runs[place].annotations = _DECODER.decode(part)
        else:
            run = runs[place - TIMES]
            if length != _BASE.size + run.count * TIME_BYTES:
                raise PackedRunsError(f"{run.count} packed messages have {length} bytes of times")
            (base_ms,) = _BASE.unpack_from(part)
            run.times = OwnTimes(base_ms, run.place, part[_BASE.size :])
        at += length

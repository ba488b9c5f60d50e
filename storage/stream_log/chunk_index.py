"""The index of a segment: a record for each of its chunks, in order.

A record has the first offset, the time, the term, the place and the type of a chunk. So the chunk
of an entry is found by its number, and that of an offset or a time by bisection.

**Promise.** A record was true when its chunk was written. **Not promised.** That the
last segment's index has all chunks: it is written beside them and not synced. A start reads the
rest from the segment (recovery.py).

SLG3  An index has a record for each chunk of its segment; that of the last segment, for the first
      ones.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from leveret.storage.stream_log.chunks import ChunkHead

RECORD_BYTES: Final = 32
_RECORD = Struct(">QqQIB3x")
_BEGINS_BATCH: Final = 0x80
"""Set in the type of a chunk that was written after all before it had been synced."""


class IndexRecord(NamedTuple):
    """The record of a chunk. place: the offset of its first byte in the file.

    begins_batch: all chunks before it were on disk before it was written. So none of them may be
    missing or damaged after a restart, whatever a power cut has left of the last batch.
    """

    offset: int
    time_ms: int
    term: int
    place: int
    kind: int
    begins_batch: bool = False


Reads = Callable[[int], IndexRecord]
"""The record at a position, from 0."""


def record_of(head: ChunkHead, place: int, begins_batch: bool = False) -> IndexRecord:
    """The record of the chunk with this head, at this place."""
    return IndexRecord(head.offset, head.time_ms, head.term, place, head.kind, begins_batch)


def encode_record(record: IndexRecord) -> bytes:
    """A record as bytes."""
    kind = record.kind | _BEGINS_BATCH if record.begins_batch else record.kind
    return _RECORD.pack(record.offset, record.time_ms, record.term, record.place, kind)


def decode_record(data: bytes, position: int = 0) -> IndexRecord:
    """The record at a position of an index, or of a part of one."""
    offset, time_ms, term, place, kind = _RECORD.unpack_from(data, position * RECORD_BYTES)
    return IndexRecord(offset, time_ms, term, place, kind & ~_BEGINS_BATCH, kind >= _BEGINS_BATCH)


def position_of_offset(read: Reads, count: int, offset: int) -> int:
    """The position of the last of `count` chunks that begins at an offset or before it.

    0 if all begin after it.
    """
    return max(0, _bisect(count, lambda position: read(position).offset > offset) - 1)


def position_of_time(read: Reads, count: int, time_ms: int) -> int:
    """The position of the first of `count` chunks that is not older than a time; else `count`."""
    return _bisect(count, lambda position: read(position).time_ms >= time_ms)


def _bisect(count: int, is_after: Callable[[int], bool]) -> int:
    """The first position for which `is_after` holds; it holds for all positions after it."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if is_after(middle):
            high = middle
        else:
            low = middle + 1
    return low

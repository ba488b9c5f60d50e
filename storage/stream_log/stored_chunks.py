"""Reads chunks of a segment, in a thread: their bytes, or where they are if they are to be sent.

Large chunks are sent from their file (file_parts.py): only the head and the filter are read. The
first time since the start, the whole chunk is read, to compare its checksums. Small chunks are read
together, which costs less than a system call for each.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.disk.file_parts import FilePart, OpenFile, open_kept
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.stream_log.chunk_index import RECORD_BYTES, decode_record
from leveret.storage.stream_log.chunks import (
    FILTER_BYTES_MAX,
    HEAD_BYTES,
    ChunkError,
    ChunkHead,
    check_chunk,
    filter_of,
    head_for_clients,
    read_head,
)
from leveret.storage.stream_log.segments import Segment

SENT_CHUNK_BYTES_MIN: Final = 64 * 1024
"""Chunks that are larger on average are sent from their file."""
SENT_BYTES_MAX: Final = 4 * 1024 * 1024
"""The bytes of the chunks that are found together to be sent."""


class ChunkDamaged(StoreError):
    """A chunk in the middle of a log cannot be read: its member has to be replaced."""


class StoredChunk(NamedTuple):
    """A chunk in a file. Readers may share it. place: of its first byte."""

    head: ChunkHead
    filter_bits: bytes
    file: OpenFile
    place: int

    @property
    def head_for_clients(self) -> bytes:
        """Its head as clients get it."""
        return head_for_clients(self.head)

    def entries(self) -> FilePart:
        """The part of the file that is sent to one client after the head."""
        begin = self.place + HEAD_BYTES + self.head.filter_bytes
        return FilePart(self.file, begin, self.head.entries_bytes)


class ChunksInFile(NamedTuple):
    """Consecutive chunks of a segment that are in its file.

    position: of the first one. chunk_count: of them. end: where the last one ends; 0 if the record
    after it tells.
    """

    segment: Segment
    position: int
    chunk_count: int
    end: int


def read_chunks(chunks: ChunksInFile, bytes_max: int, disk: Disk) -> list[bytes]:
    """Read chunks up to this many bytes; at least one. Raises ChunkDamaged and StoreError."""
    return _read(chunks.segment, _within(_places_of(chunks, disk), bytes_max), disk)


def find_chunks(
    chunks: ChunksInFile, bytes_max: int, disk: Disk, reads: FileReads
) -> Sequence[bytes | StoredChunk]:
    """Find large chunks to be sent from their file; read small ones. As `read_chunks` otherwise."""
    segment, places = chunks.segment, _places_of(chunks, disk)
    sent = _within(places, SENT_BYTES_MAX)
    file = None
    if sent[-1] - sent[0] >= SENT_CHUNK_BYTES_MIN * (len(sent) - 1):
        file = open_kept(segment.paths.segment, disk, reads)
    if file is None:
        return _read(segment, _within(places, bytes_max), disk)
    found = []
    for position, (place, after) in enumerate(pairwise(sent), chunks.position):
        head, filter_bits = _look_at(file, segment, position, place, after)
        found.append(StoredChunk(head, filter_bits, file, place))
    return found


def _places_of(chunks: ChunksInFile, disk: Disk) -> list[int]:
    """Where chunks begin, and where the last one ends."""
    segment, position, count, end = chunks
    records = count if end else count + 1
    index = disk.read(segment.paths.index, position * RECORD_BYTES, records * RECORD_BYTES)
    places = [decode_record(index, number).place for number in range(records)]
    if end:
        places.append(end)
    return places


def _within(places: list[int], bytes_max: int) -> list[int]:
    count = len(places)
    while count > 2 and places[count - 1] - places[0] > bytes_max:
        count -= 1
    return places[:count]


def _read(segment: Segment, places: list[int], disk: Disk) -> list[bytes]:
    path = segment.paths.segment
    data = disk.read(path, places[0], places[-1] - places[0])
    chunks = []
    for place, after in pairwise(places):
        chunk = data[place - places[0] : after - places[0]]
        try:
            check_chunk(chunk)
        except ChunkError as error:
            raise _damaged(segment, place, error) from error
        chunks.append(chunk)
    return chunks


def _look_at(
    file: OpenFile, segment: Segment, position: int, place: int, after: int
) -> tuple[ChunkHead, bytes]:
    """The head and the filter of a chunk, which is checked the first time."""
    is_checked = position < len(segment.checked) and segment.checked[position]
    try:
        if is_checked:
            data = file.read(place, HEAD_BYTES + FILTER_BYTES_MAX)
            head = read_head(data)
        else:
            data = file.read(place, after - place)
            head = check_chunk(data)
            segment.note_checked(position)
    except ChunkError as error:
        raise _damaged(segment, place, error) from error
    return head, filter_of(data, head)


def _damaged(segment: Segment, place: int, error: ChunkError) -> ChunkDamaged:
    return ChunkDamaged(f"{segment.paths.segment} at offset {place}: {error}")

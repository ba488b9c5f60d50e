"""Recovery of a stream at a start: reads the heads of its segments, and the end of the last one.

A batch of chunks is written after all before it was synced, and its first record in the index says
so (`begins_batch`). Only chunks from the last such record on may be torn: they were not reported as
written. A chunk that is cut or damaged among these ends the log. Earlier ones are not read, unless
records of the index are missing.
"""

import logging
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.disk.unsynced_files import SYNC_EACH_MAX
from leveret.storage.stream_log.chunk_index import (
    RECORD_BYTES,
    IndexRecord,
    decode_record,
    encode_record,
    record_of,
)
from leveret.storage.stream_log.chunks import (
    HEAD_BYTES,
    ChunkError,
    check_chunk,
    kind_of_entry,
    read_head,
)
from leveret.storage.stream_log.entry_runs import EntryRun, add, remove_before
from leveret.storage.stream_log.segment_files import (
    BEGUN,
    INDEX,
    RESET,
    SEGMENT,
    SegmentPaths,
    finish_reset,
)
from leveret.storage.stream_log.segment_heads import (
    FIXED_BYTES,
    SegmentHead,
    SegmentHeadError,
    decode_head,
    encode_head,
    size_of_head,
)
from leveret.storage.stream_log.segments import Segment
from leveret.storage.stream_log.stream_log import StreamLog

SCANNED_BYTES = 8 * 1024 * 1024
"""How much of a segment is read at once."""

logger = logging.getLogger("leveret.store")


class StreamDamaged(StoreError):
    """A stream's files cannot be used: its member has to be replaced."""


class _Found(NamedTuple):
    """A segment that a start has found."""

    segment: Segment
    head: SegmentHead


def open_stream(directory: Path, disk: Disk, reads: FileReads) -> StreamLog:
    """The log that a restart finds in a directory, not synced. Raises StreamDamaged, StoreError."""
    _finish_changes(directory, disk)
    found = [_found(directory, paths, disk) for paths in _paths(directory, disk)]
    if not found:
        raise StreamDamaged(f"{directory} has no segment of a stream")
    _count_chunks(found, disk)
    last = found[-1]
    runs = [*last.head.runs]
    next_offset = _recover_end(last, runs, disk)
    remove_before(runs, found[0].head.first_entry)
    return StreamLog(directory, disk, reads, [one.segment for one in found], runs, next_offset)


def sync_opened(logs: Sequence[StreamLog], directory: Path, disk: Disk) -> None:
    """Sync the ends of logs that were opened below a directory. Raises StoreError.

    They may be in the system's memory only, and from then on they count as written.
    """
    last = [log.segments[-1].paths for log in logs]
    if 2 * len(last) <= SYNC_EACH_MAX:
        disk.sync_paths([path for one in last for path in (one.segment, one.index)])
        return
    descriptor = disk.open_directory(directory)
    try:
        disk.sync_file_system(descriptor, directory)
    finally:
        disk.close(descriptor)


def _finish_changes(directory: Path, disk: Disk) -> None:
    """Finish a reset, and remove files of other changes that were cut off."""
    for name in disk.names_in(directory):
        path = directory / name
        head = _whole_head(path, disk) if path.suffix == RESET else None
        if head is not None:
            finish_reset(disk, path, encode_head(head), _paths(directory, disk))
        elif path.suffix in {BEGUN, RESET}:
            disk.remove(path)
    names = set(disk.names_in(directory))
    for name in names:
        if name.endswith(INDEX) and name.replace(INDEX, SEGMENT) not in names:
            disk.remove(directory / name)


def _whole_head(path: Path, disk: Disk) -> SegmentHead | None:
    try:
        return read_segment_head(path, disk)
    except SegmentHeadError:
        return None


def _paths(directory: Path, disk: Disk) -> list[SegmentPaths]:
    names = disk.names_in(directory)
    return [
        SegmentPaths(directory, int(name[: -len(SEGMENT)]))
        for name in names
        if name.endswith(SEGMENT)
    ]


def _found(directory: Path, paths: SegmentPaths, disk: Disk) -> _Found:
    try:
        head = read_segment_head(paths.segment, disk)
    except SegmentHeadError as error:
        raise StreamDamaged(f"{paths.segment}: {error}") from error
    size = len(encode_head(head))
    segment = Segment(directory, head, size)
    return _Found(segment, head)


def read_segment_head(path: Path, disk: Disk) -> SegmentHead:
    """The head of a segment. Raises SegmentHeadError, StoreError."""
    size = size_of_head(disk.read(path, 0, FIXED_BYTES))
    return decode_head(disk.read(path, 0, size))


def _count_chunks(found: list[_Found], disk: Disk) -> None:
    """Set the counts of all segments but the last one."""
    for one, after in pairwise(found):
        segment = one.segment
        segment.count = segment.written = after.head.first_entry - one.head.first_entry
        segment.size_bytes = disk.size(segment.paths.segment)
        segment.end_ms = after.head.began_ms
        if disk.size(segment.paths.index) != segment.count * RECORD_BYTES:
            _restore_index(one, after, disk)


def _restore_index(found: _Found, after: _Found, disk: Disk) -> None:
    """Make the index of a whole segment again."""
    segment = found.segment
    logger.warning("%s is not complete, and is made again", segment.paths.index)
    records, _ = _scan(segment, segment.head_bytes, found.head.first_offset, disk)
    if len(records) != segment.count:
        raise StreamDamaged(
            f"{segment.paths.segment} has {len(records)} undamaged chunks at its beginning; the "
            f"next segment begins after {segment.count}"
        )
    _write_index(segment.paths, 0, records, disk)


def _recover_end(last: _Found, runs: list[EntryRun], disk: Disk) -> int:
    """Find the chunks of the last segment, and cut off torn ones. Returns the next offset."""
    segment = last.segment
    data = disk.read_all(segment.paths.index) if disk.size(segment.paths.index) else b""
    known = records_before_last_batch(data, segment.head_bytes, last.head.first_offset)
    place, offset = segment.head_bytes, last.head.first_offset
    if known < len(data) // RECORD_BYTES:
        begin = decode_record(data, known)
        if known:
            place, offset = begin.place, begin.offset
    if disk.size(segment.paths.segment) < place:
        raise StreamDamaged(f"{segment.paths.segment} ends before offset {place}")
    scanned, end = _scan(segment, place, offset, disk)
    _cut_off(segment, end, disk)
    _write_index(segment.paths, known, scanned, disk)
    entry = last.head.first_entry
    for number in range(known):
        record = decode_record(data, number)
        add(runs, entry + number, 1, record.term, kind_of_entry(record.kind))
    for number, record in enumerate(scanned, known):
        add(runs, entry + number, 1, record.term, kind_of_entry(record.kind))
    segment.count = segment.written = known + len(scanned)
    segment.size_bytes = end
    if not segment.count:
        return last.head.first_offset
    record = segment.reads(disk)(segment.count - 1)
    segment.end_ms = record.time_ms
    return read_head(disk.read(segment.paths.segment, record.place, HEAD_BYTES)).next_offset


def records_before_last_batch(data: bytes, place: int, offset: int) -> int:
    """How many records of an index are of chunks that are known to have been synced.

    place, offset: where the first chunk of the segment begins. Records after one that cannot
    follow the one before it do not count: a power cut may have left anything there.
    """
    synced = 0
    for number in range(len(data) // RECORD_BYTES):
        record = decode_record(data, number)
        if number == 0 and (record.place, record.offset) != (place, offset):
            break
        if number and (record.place <= place or record.offset < offset):
            break
        place, offset = record.place, record.offset
        if record.begins_batch:
            synced = number
    return synced


def _scan(segment: Segment, place: int, offset: int, disk: Disk) -> tuple[list[IndexRecord], int]:
    """The records of the undamaged chunks from a place on, and the place after the last one."""
    records: list[IndexRecord] = []
    path = segment.paths.segment
    data, begin = b"", place
    while True:
        try:
            head = check_chunk(data, place - begin)
        except ChunkError:
            begin, data = place, read_part(path, place, disk)
            try:
                head = check_chunk(data)
            except ChunkError:
                return records, place
        if head.offset != offset:
            return records, place
        is_first = not records
        records.append(record_of(head, place, begins_batch=is_first))
        place += head.size
        offset = head.next_offset


def read_part(path: Path, place: int, disk: Disk) -> bytes:
    """A large part of a segment from a place on, and at least the whole chunk at this place."""
    data = disk.read(path, place, SCANNED_BYTES)
    try:
        missing = read_head(data).size - len(data)
    except ChunkError:
        return data
    return data + disk.read(path, place + len(data), missing) if missing > 0 else data


def _cut_off(segment: Segment, end: int, disk: Disk) -> None:
    path = segment.paths.segment
    size = disk.size(path)
    if size > end:
        logger.warning(
            "the last %d bytes of %s are cut off: they were being written when the node stopped",
            size - end, path,
        )  # fmt: skip
        disk.truncate(path, end)


def _write_index(paths: SegmentPaths, known: int, records: list[IndexRecord], disk: Disk) -> None:
    """Let the index have these records after the known ones."""
    if not disk.size(paths.index):
        disk.close(disk.create(paths.index))
    disk.truncate(paths.index, known * RECORD_BYTES)
    if not records:
        return
    descriptor = disk.open(paths.index)
    try:
        data = b"".join(map(encode_record, records))
        disk.write(descriptor, paths.index, data, known * RECORD_BYTES)
    finally:
        disk.close(descriptor)

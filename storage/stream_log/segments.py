"""The segments of a stream, as the event loop knows them: a few numbers for each.

A chunk is found through the index of its segment. Records of the index that are not written yet are
in memory, the others in a file.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.stream_log.chunk_index import RECORD_BYTES, IndexRecord, decode_record
from leveret.storage.stream_log.segment_files import SegmentPaths
from leveret.storage.stream_log.segment_heads import SegmentHead


class Segment:
    """A segment.

    first_entry, first_offset: of its first chunk, or of the next one if it has none.
    term_before: of the entry before this one; 0 if there was none. began_ms: the time of the first
    chunk. end_ms: that of the last one. count: its chunks. size_bytes: with its head. written: how
    many of its chunks are in the files. checked: a byte for each of the first chunks, not 0 if its
    checksums were compared in the file since the start.
    """

    __slots__ = (
        "began_ms", "checked", "count", "end_ms", "first_entry", "first_offset", "head_bytes",
        "paths", "size_bytes", "term_before", "unwritten", "written",
    )  # fmt: skip

    def __init__(self, directory: Path, head: SegmentHead, head_bytes: int) -> None:
        self.paths = SegmentPaths(directory, head.first_offset)
        self.first_entry = head.first_entry
        self.first_offset = head.first_offset
        self.term_before = head.runs[-1].term if head.runs else 0
        self.began_ms = self.end_ms = head.began_ms
        self.head_bytes = self.size_bytes = head_bytes
        self.count = self.written = 0
        self.checked = bytearray()
        self.unwritten: list[IndexRecord] = []
        """The records of the chunks after the written ones."""

    @property
    def end_of_written(self) -> int:
        """Where the chunks end that are in the files."""
        return self.unwritten[0].place if self.unwritten else self.size_bytes

    def add(self, record: IndexRecord, size: int) -> None:
        """Add a chunk."""
        assert record.place == self.size_bytes, "SLG1"
        self.unwritten.append(record)
        self.count += 1
        self.size_bytes += size
        self.end_ms = record.time_ms

    def wrote(self, count: int) -> None:
        """The first chunks, this many, are in the files."""
        if count > self.written:
            del self.unwritten[: count - self.written]
            self.written = count

    def note_checked(self, position: int) -> None:
        """The checksums of a chunk were compared. In a thread."""
        checked = self.checked
        if position >= len(checked):
            checked.extend(bytes(position + 1 - len(checked)))
        checked[position] = 1

    def cut(self, count: int, size_bytes: int, end_ms: int) -> None:
        """Remove all chunks but the first ones."""
        self.count = count
        self.written = min(self.written, count)
        self.checked = self.checked[:count]
        del self.unwritten[count - self.written :]
        self.size_bytes = size_bytes
        self.end_ms = end_ms

    def reads(self, disk: Disk) -> Callable[[int], IndexRecord]:
        """Reads a record of the index: at once if it is in memory, otherwise from the file."""
        return partial(self._read, disk)

    def _read(self, disk: Disk, position: int) -> IndexRecord:
        if position >= self.written:
            return self.unwritten[position - self.written]
        path = self.paths.index
        data = disk.read(path, position * RECORD_BYTES, RECORD_BYTES)
        if len(data) < RECORD_BYTES:
            raise StoreError(f"{path} ends before the record of chunk {position}")
        return decode_record(data)

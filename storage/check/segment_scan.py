"""Reads a whole segment of a stream: which chunks are whole, and what its index should have.

A start reads chunks at the end of the last segment only (stream_log/recovery.py); this reads all of
them. Where one is damaged, the index tells where the chunks after it are. A record of the index is
used for this only if a whole chunk is where a later record says.
"""

from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from leveret.storage.disk.disk import Disk
from leveret.storage.stream_log.chunk_index import (
    RECORD_BYTES,
    IndexRecord,
    decode_record,
    record_of,
)
from leveret.storage.stream_log.chunks import (
    CHUNK_BYTES_MIN,
    OF_GROUP,
    ChunkError,
    ChunkHead,
    check_chunk,
    kind_of_entry,
)
from leveret.storage.stream_log.entry_runs import EntryRun, add
from leveret.storage.stream_log.recovery import read_part, records_before_last_batch
from leveret.storage.stream_log.segment_files import SegmentPaths
from leveret.storage.stream_log.segment_heads import SegmentHead, encode_head

_EMPTY: Final = IndexRecord(0, 0, 0, 0, 0)
"""A record that a power cut has left empty: records are written and not synced."""


class DamagedChunk(NamedTuple):
    """Bytes of a segment that are not a whole chunk, from a place to an end.

    position: of the chunk in the segment. record: of it in the index; None if this does not tell.
    next_offset: of the messages after it; None if it is the last one. reason: what is wrong.
    """

    place: int
    end: int
    position: int
    record: IndexRecord | None
    next_offset: int | None
    reason: str

    @property
    def is_last(self) -> bool:
        """Whether no whole chunk follows."""
        return self.next_offset is None

    @property
    def problem(self) -> str:
        """A sentence about it."""
        where = f"bytes {self.place} to {self.end} are not a whole chunk: {self.reason}"
        record = self.record
        if self.next_offset is None:
            return f"{where}; no whole chunk follows"
        if record is not None and record.kind >= OF_GROUP:
            return f"{where}; an entry of the group is lost"
        if record is None or record.offset == self.next_offset:
            return where
        return f"{where}; the messages {record.offset} to {self.next_offset - 1} are lost"


class ScannedSegment:
    """A segment that was read. after: the head of the next segment; None for the last one.

    head_bytes: the size of its head. size: of the file. synced: how many chunks are known to have
    been on disk. damaged: what is not a whole chunk. misplaced: sentences about whole chunks that
    cannot follow the one before. end: where the last chunk ends. count: of all chunks, also of
    damaged ones before a whole one. next_offset: of the messages after them. runs: of its entries.
    expected: the records of these chunks. index: as it is in the file.
    """

    def __init__(
        self, disk: Disk, paths: SegmentPaths, head: SegmentHead, after: SegmentHead | None
    ) -> None:
        self.paths = paths
        self.head = head
        self.after = after
        self.head_bytes = len(encode_head(head))
        self.size = disk.size(paths.segment)
        self.index = disk.read_all(paths.index) if disk.size(paths.index) else b""
        self.synced = records_before_last_batch(self.index, self.head_bytes, head.first_offset)
        self.damaged: list[DamagedChunk] = []
        self.misplaced: list[str] = []
        self.end, self.next_offset, self.count = self.head_bytes, head.first_offset, 0
        self.runs: list[EntryRun] = []
        self._records = [
            decode_record(self.index, place) for place in range(len(self.index) // RECORD_BYTES)
        ]
        self.expected: list[IndexRecord] = []
        self._chunks = _Chunks(disk, paths.segment)
        self._scan()

    @property
    def has_whole_index(self) -> bool:
        """Whether it is missing, or has a record of each chunk, and nothing more.

        That of the last segment may end earlier, and have records of the last batch that was torn.
        """
        if self.after is None:
            return self.count >= self.synced
        return not self.index or len(self.index) == self.count * RECORD_BYTES

    @property
    def wrong_records(self) -> list[int]:
        """The positions of records that are neither those of their chunks nor left empty."""
        return [
            position
            for position, (found, expected) in enumerate(
                zip(self._records, self.expected, strict=False)
            )
            if found._replace(begins_batch=False) != expected
            and (found != _EMPTY or self.after is not None)
        ]

    def _scan(self) -> None:
        is_known = True
        while is_known and self.end < self.size:
            try:
                chunk = self._chunks.whole(self.end)
                if chunk.offset != self.next_offset:
                    raise ChunkError(
                        f"it begins with message {chunk.offset} where {self.next_offset} follows"
                    )
            except ChunkError as error:
                is_known = self._pass_over(str(error))
            else:
                self._add(chunk)
        if is_known and self.count < min(len(self._records), self._entries):
            self._pass_over("the file ends")

    @property
    def _entries(self) -> int:
        """How many entries the segment has by the head of the next one; 0 if it is the last."""
        return 0 if self.after is None else self.after.first_entry - self.head.first_entry

    def _add(self, chunk: ChunkHead) -> None:
        before = self.runs or self.head.runs
        if before and chunk.term < before[-1].term:
            self.misplaced.append(
                f"the chunk at offset {self.end} has term {chunk.term} after {before[-1].term}"
            )
        self._count(record_of(chunk, self.end), self.end + chunk.size, chunk.next_offset)

    def _count(self, record: IndexRecord, end: int, next_offset: int) -> None:
        self.expected.append(record._replace(begins_batch=False))
        entry = self.head.first_entry + self.count
        add(self.runs, entry, 1, record.term, kind_of_entry(record.kind))
        self.count += 1
        self.end, self.next_offset = end, next_offset

    def _pass_over(self, reason: str) -> bool:
        """Go on with the next whole chunk after a damaged one. Returns whether its place is known.

        All chunks before it are taken as damaged: they are not looked at if their places are wrong.
        """
        known = self._until_whole()
        if not known:
            self.damaged.append(DamagedChunk(self.end, self.size, self.count, None, None, reason))
            return False
        for record, follower in pairwise(known):
            self.damaged.append(
                DamagedChunk(
                    record.place, follower.place, self.count, record, follower.offset, reason
                )
            )
            self._count(record, follower.place, follower.offset)
        return True

    def _until_whole(self) -> list[IndexRecord]:
        """Records from that of the next chunk through that of the next whole one; or none."""
        known = self._records[self.count : self.count + 1]
        if not known or (known[0].place, known[0].offset) != (self.end, self.next_offset):
            return []
        for record in self._records[self.count + 1 :]:
            if record.place < known[-1].place + CHUNK_BYTES_MIN or record.offset < known[-1].offset:
                return []
            known.append(record)
            try:
                if self._chunks.whole(record.place).offset == record.offset:
                    return known
            except ChunkError:
                continue
        if self.after is None or len(self._records) != self._entries:
            return []
        end = max(self.size, known[-1].place + CHUNK_BYTES_MIN)
        return [*known, known[-1]._replace(place=end, offset=self.after.first_offset)]


class _Chunks:
    """Reads the chunks of a segment, many with one read."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._data, self._begin = b"", 0

    def whole(self, place: int) -> ChunkHead:
        """The head of the chunk at a place. Raises ChunkError if it is not whole."""
        if self._begin <= place:
            try:
                return check_chunk(self._data, place - self._begin)
            except ChunkError:
                pass
        self._data, self._begin = read_part(self._path, place, self._disk), place
        return check_chunk(self._data)

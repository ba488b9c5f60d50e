"""The log of one stream on one node: entries of its group, each of which is a chunk in a segment.

**Promise.** A restart finds the entries as they were after some step: the last one reported as
written, or a later one. An entry is written once, and read as it was appended. **Not promised.**
That the last segment's index is complete (chunk_index.py).

**Mechanism.** The event loop gathers steps (segment_files.py); a thread carries them out, one batch
after the other. Chunks that are not written yet, and the newest ones, are in memory. All others are
read from the files, by a thread if the system does not have them in memory (file_reads.py).

Invariants:

SLG1  Chunks follow each other without gaps, in the order of entries and of offsets.
SLG5  Truncation removes whole chunks, and only the last ones.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from leveret.storage.disk.disk import Disk
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.stream_log.chunk_index import (
    IndexRecord,
    encode_record,
    position_of_offset,
    position_of_time,
    record_of,
)
from leveret.storage.stream_log.chunks import (
    USER,
    ChunkError,
    ChunkHead,
    kind_of_entry,
    read_head,
)
from leveret.storage.stream_log.entry_runs import EntryRun, add, before, remove_before, remove_from
from leveret.storage.stream_log.segment_files import (
    BeginSegment,
    Create,
    CutSegment,
    Remove,
    RemoveOldest,
    ResetSegments,
    Step,
    Write,
)
from leveret.storage.stream_log.segment_heads import SegmentHead, encode_head
from leveret.storage.stream_log.segments import Segment
from leveret.storage.stream_log.stored_chunks import (
    ChunksInFile,
    StoredChunk,
    find_chunks,
    read_chunks,
)

Result = TypeVar("Result")

SEGMENT_BYTES = 500_000_000
"""The default of `x-stream-max-segment-size-bytes`."""
SEGMENT_CHUNKS_MAX = 256_000
RECENT_BYTES = 1024 * 1024
"""Memory of chunks that stay after they were applied: most readers want these."""
UNAPPLIED_BYTES = 16 * 1024 * 1024
"""Memory of chunks that stay after they were written: they are applied next, and then read."""
READ_RECORDS = 512
"""How many chunks are read together at most."""


def new_log(directory: Path, disk: Disk, reads: FileReads, head: SegmentHead) -> "StreamLog":
    """The log of a new stream. Its first step creates its files."""
    log = StreamLog(directory, disk, reads, [], [], head.first_offset)
    log.add_step(Create())
    log.reset(head)
    return log


class StreamLog:
    """One stream's log. All methods are for the event loop's thread.

    segments: oldest first; the last one is written to. runs: of all its entries. next_offset: the
    offset of the next message. segment_bytes: the size at which a segment ends.
    """

    def __init__(
        self, directory: Path, disk: Disk, reads: FileReads, segments: list[Segment],
        runs: list[EntryRun], next_offset: int,
    ) -> None:  # fmt: skip
        self.segments = segments
        self.runs = runs
        self.next_offset = next_offset
        self.segment_bytes = SEGMENT_BYTES
        self._directory = directory
        self._disk = disk
        self._reads = reads
        self._steps: list[Step] = []
        self._is_first_of_batch = True
        self._being_written: list[Step] = []
        self._recent: dict[int, bytes] = {}
        self._recent_bytes = 0
        self._applied = 0
        """The last entry that was applied before the last turn in which any was."""
        self._newly_applied = 0
        self._cuts = 0

    # Contents

    @property
    def first_entry(self) -> int:
        """The number of the first entry, or of the next one if there is none."""
        return self.segments[0].first_entry

    @property
    def last_entry(self) -> int:
        """The number of the last entry; one before the first one's if there is none."""
        last = self.segments[-1]
        return last.first_entry + last.count - 1

    @property
    def first_offset(self) -> int:
        """The offset of the first message, or of the next one if there is none."""
        return self.segments[0].first_offset

    @property
    def head(self) -> SegmentHead:
        """The head with which another member's log begins as this one does."""
        first = self.segments[0]
        before = EntryRun(first.first_entry - 1, 1, first.term_before, 0)
        runs = [before] if before.first else []
        return SegmentHead(first.first_entry, first.first_offset, first.began_ms, runs)

    @property
    def end_ms(self) -> int:
        """The time of the last chunk; 0 if there never was one."""
        return self.segments[-1].end_ms

    def first_ms(self) -> int:
        """The time of the first message, or of a chunk shortly before it. There has to be one.

        The first segment of a stream was begun before it had a chunk, so its index is read. Raises
        StoreError.
        """
        began_ms = self.segments[0].began_ms
        return began_ms or self._record_of(self.entry_of_offset(self.first_offset)).time_ms

    @property
    def size_bytes(self) -> int:
        """The size of its segments."""
        return sum(segment.size_bytes for segment in self.segments)

    # Appending

    def append(self, first: int, term: int, kind: int, chunks: Sequence[bytes]) -> None:
        """Append entries. Raises ChunkError if a chunk does not follow the one before it."""
        assert first == self.last_entry + 1, "SLG1"
        for chunk in chunks:
            head = read_head(chunk)
            if head.offset != self.next_offset or head.size != len(chunk):
                raise ChunkError(
                    f"a chunk of {len(chunk)} bytes for offset {head.offset} where one for "
                    f"{self.next_offset} follows"
                )
            assert kind == kind_of_entry(head.kind), "the type of a chunk tells its kind"
            self._append(chunk, head)
            add(self.runs, self.last_entry, 1, term, kind)

    def _append(self, chunk: bytes, head: ChunkHead) -> None:
        segment = self.segments[-1]
        is_full = segment.size_bytes >= self.segment_bytes or segment.count >= SEGMENT_CHUNKS_MAX
        if is_full and self.next_offset > segment.first_offset:
            segment = self.begin_segment(head.time_ms)
        record = record_of(head, segment.size_bytes, self._is_first_of_batch)
        self._is_first_of_batch = False
        position = segment.count
        segment.add(record, len(chunk))
        step = self._steps[-1] if self._steps else None
        if not isinstance(step, Write) or step.paths is not segment.paths:
            step = Write(segment.paths, record.place, position)
            self._steps.append(step)
        step.add(chunk, encode_record(record))
        self._recent[segment.first_entry + position] = chunk
        self._recent_bytes += len(chunk)
        self.next_offset = head.next_offset

    def begin_segment(self, now_ms: int) -> Segment:
        """Begin a segment with the next chunk. The last one has to have messages."""
        assert self.next_offset > self.segments[-1].first_offset, "names of files differ"
        entry = self.last_entry + 1
        head = SegmentHead(entry, self.next_offset, now_ms, before(self.runs, entry))
        data = encode_head(head)
        ended = self.segments[-1].paths
        segment = self._add_segment(head, len(data))
        self._steps.append(BeginSegment(segment.paths, data, ended))
        return segment

    def _add_segment(self, head: SegmentHead, size: int) -> Segment:
        segment = Segment(self._directory, head, size)
        self.segments.append(segment)
        return segment

    # Removing

    def truncate(self, first: int) -> None:
        """Remove the entries from this one on, which are not committed."""
        assert self.first_entry <= first <= self.last_entry + 1, "SLG5"
        self._cuts += 1
        later = [segment for segment in self.segments if segment.first_entry > first]
        del self.segments[len(self.segments) - len(later) :]
        if later:
            self._steps.append(Remove(segment.paths for segment in reversed(later)))
        segment = self.segments[-1]
        count = first - segment.first_entry
        if count < segment.count:
            self._cut(segment, count)
        remove_from(self.runs, first)
        for entry in [entry for entry in self._recent if entry >= first]:
            self._recent_bytes -= len(self._recent.pop(entry))

    def _cut(self, segment: Segment, count: int) -> None:
        read = segment.reads(self._disk)
        record = read(count)
        end_ms = read(count - 1).time_ms if count else segment.began_ms
        segment.cut(count, record.place, end_ms)
        for step in (*self._being_written, *self._steps):
            if isinstance(step, Write) and step.paths is segment.paths:
                step.kept = min(step.kept, max(0, count - step.position))
        self.next_offset = record.offset
        self._steps.append(CutSegment(segment.paths, record.place, count))

    def reset(self, head: SegmentHead) -> None:
        """Remove everything, and begin with this head."""
        old, self.segments = self.segments, []
        data = encode_head(head)
        segment = self._add_segment(head, len(data))
        self._steps.append(ResetSegments(segment.paths, data, [one.paths for one in old]))
        self.runs = [*head.runs]
        self.next_offset = head.first_offset
        self._cuts += 1
        self._recent.clear()
        self._recent_bytes = 0

    def remove_segments(self, count: int) -> None:
        """Remove the oldest segments, which are committed; not the last one."""
        assert count < len(self.segments), "SLG6"
        old, self.segments = self.segments[:count], self.segments[count:]
        self._steps.append(RemoveOldest(segment.paths for segment in old))
        remove_before(self.runs, self.first_entry)
        first = self.first_entry
        for entry in [entry for entry in self._recent if entry < first]:
            self._recent_bytes -= len(self._recent.pop(entry))

    # Writing

    def add_step(self, step: Step) -> None:
        """Add a step after the gathered ones."""
        self._steps.append(step)

    def drop_steps(self) -> None:
        """Drop the gathered steps: the node has no files, and everything stays in memory."""
        self._steps = []

    @property
    def has_steps(self) -> bool:
        """Whether steps were gathered."""
        return bool(self._steps)

    def take_steps(self) -> list[Step]:
        """The gathered steps. `written` is called before they are taken again."""
        assert not self._being_written, "one batch after the other"
        self._being_written, self._steps = self._steps, []
        self._is_first_of_batch = True
        return self._being_written

    def steps_again(self) -> list[Step]:
        """The steps that were taken, if they found the disk full. Removals come first."""
        ended = [
            step.ended
            for step in (*self._being_written, *self._steps)
            if isinstance(step, BeginSegment)
        ]
        early = [
            step
            for step in self._steps
            if isinstance(step, RemoveOldest) and not any(one in ended for one in step.removed)
        ]
        self._steps = [step for step in self._steps if step not in early]
        self._being_written = [*early, *self._being_written]
        return self._being_written

    def written(self) -> None:
        """The steps that were taken were carried out."""
        live = {id(segment.paths): segment for segment in self.segments}
        for step in self._being_written:
            segment = live.get(id(step.paths)) if isinstance(step, Write) else None
            if segment is not None and isinstance(step, Write):
                segment.wrote(step.position + step.kept)
        self._being_written = []
        self._forget_recent(self.last_written, UNAPPLIED_BYTES)

    def applied(self, entry: int) -> None:
        """The entries up to this one were applied: readers take the last ones in this turn."""
        self._applied, self._newly_applied = self._newly_applied, entry
        self._forget_recent(min(self._applied, self.last_written), RECENT_BYTES)

    def _forget_recent(self, last: int, bytes_max: int) -> None:
        """Forget the oldest chunks through an entry, if all have more bytes than this."""
        recent = self._recent
        while self._recent_bytes > bytes_max:
            entry = next(iter(recent))
            if entry > last:
                return
            self._recent_bytes -= len(recent.pop(entry))

    @property
    def last_written(self) -> int:
        """The last entry that is in the files."""
        for segment in reversed(self.segments):
            if segment.written:
                return segment.first_entry + segment.written - 1
        return self.first_entry - 1

    # Reading

    def is_in_memory(self, entry: int) -> bool:
        """Whether an entry can be read without the disk."""
        return entry in self._recent

    def read_now(self, entry: int) -> bytes:
        """Read an entry, for a caller that may wait for the disk. Raises as `read`."""
        if entry in self._recent:
            return self._recent[entry]
        return read_chunks(self._in_file(entry, 1), 0, self._disk)[0]

    def read(self, first: int, last: int, bytes_max: int) -> list[bytes]:
        """Consecutive entries from the first one on. There is at least one.

        Raises BeingRead if a thread has to read them; KeyError if the log does not have the first
        one; ChunkDamaged; StoreError if it cannot be read.
        """
        chunks = self._read_recent(first, last, bytes_max)
        if chunks:
            return chunks
        in_file, disk = self._in_file(first, last - first + 1), self._disk
        return self._read_by_thread(
            "chunks", in_file, bytes_max, lambda: read_chunks(in_file, bytes_max, disk)
        )

    def find(self, first: int, last: int, bytes_max: int) -> Sequence[bytes | StoredChunk]:
        """As `read`, but large chunks are found in their file, from which they can be sent."""
        chunks = self._read_recent(first, last, bytes_max)
        if chunks:
            return chunks
        in_file, disk, reads = self._in_file(first, last - first + 1), self._disk, self._reads
        return self._read_by_thread(
            "places", in_file, bytes_max, lambda: find_chunks(in_file, bytes_max, disk, reads)
        )

    def _read_recent(self, first: int, last: int, bytes_max: int) -> list[bytes]:
        """Entries from the first one on that are in memory."""
        recent = self._recent
        chunks: list[bytes] = []
        while first <= last and first in recent:
            chunk = recent[first]
            bytes_max -= len(chunk)
            if chunks and bytes_max < 0:
                break
            chunks.append(chunk)
            first += 1
        return chunks

    def _in_file(self, first: int, count: int) -> ChunksInFile:
        """Where up to `count` entries are. Raises KeyError if the log does not have the first."""
        if not self.first_entry <= first <= self.last_entry:
            raise KeyError(first)
        segment = self.segment_of(first)
        position = first - segment.first_entry
        count = min(count, segment.written - position, READ_RECORDS)
        end = segment.end_of_written if position + count == segment.written else 0
        return ChunksInFile(segment, position, count, end)

    def _read_by_thread(
        self, what: str, chunks: ChunksInFile, bytes_max: int, read: Callable[[], Result]
    ) -> Result:
        segment, position, count, _ = chunks
        path = segment.paths.segment
        # After a truncation, other chunks may be where a thread was reading.
        key = path, what, position, count, bytes_max, self._cuts
        return self._reads.done_by_thread(key, read, path, position)

    def find_entry(self, offset: int) -> int:
        """As `entry_of_offset`, by a thread. Raises BeingRead until it is found; StoreError."""
        return self._found("entry of an offset", offset, lambda: self.entry_of_offset(offset))

    def find_time(self, time_ms: int) -> int:
        """The first offset of the first chunk that is not older than a time; else the next one.

        Raises BeingRead until it is found; StoreError.
        """
        return self._found("offset of a time", time_ms, lambda: self._offset_of_time(time_ms))

    def find_last_messages(self, entry: int) -> int:
        """The first offset of the last chunk with messages, up to an entry; else the first one.

        Raises BeingRead until it is found; StoreError.
        """
        return self._found("last messages", entry, lambda: self._offset_of_last_messages(entry))

    def _found(self, what: str, value: int, find: Callable[[], int]) -> int:
        """The result of a search in the indexes, which a thread reads."""
        key = self._directory, what, value, self._cuts
        return self._reads.done_by_thread(key, find, self._directory, value)

    def _offset_of_time(self, time_ms: int) -> int:
        entry = self.entry_of_time(time_ms)
        return self.next_offset if entry > self.last_entry else self._record_of(entry).offset

    def _offset_of_last_messages(self, entry: int) -> int:
        while entry >= self.first_entry:
            record = self._record_of(entry)
            if record.kind == USER:
                return record.offset
            entry -= 1
        return self.first_offset

    def _record_of(self, entry: int) -> IndexRecord:
        segment = self.segment_of(entry)
        return segment.reads(self._disk)(entry - segment.first_entry)

    def segment_of(self, entry: int) -> Segment:
        """The segment with an entry, or the last one before it."""
        index = bisect_right(self.segments, entry, key=lambda segment: segment.first_entry)
        return self.segments[max(0, index - 1)]

    def entry_of_offset(self, offset: int) -> int:
        """The last entry whose chunk begins at an offset or before it; else the first one.

        May read an index, so a thread calls it, unless the offset is in the last segment. Raises
        StoreError.
        """
        index = bisect_right(self.segments, offset, key=lambda segment: segment.first_offset)
        segment = self.segments[max(0, index - 1)]
        read = segment.reads(self._disk)
        return segment.first_entry + position_of_offset(read, segment.count, offset)

    def entry_of_time(self, time_ms: int) -> int:
        """The first entry that is not older than a time; else the next one.

        A thread calls it, as `entry_of_offset`.
        """
        index = bisect_left(self.segments, time_ms, key=lambda segment: segment.end_ms)
        if index == len(self.segments):
            return self.last_entry + 1
        segment = self.segments[index]
        read = segment.reads(self._disk)
        return segment.first_entry + position_of_time(read, segment.count, time_ms)

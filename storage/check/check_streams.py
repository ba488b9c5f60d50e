"""Checking the streams of a stopped node: the rows of their groups, and all chunks.

It finds what a start, or a reader, would find to be damaged (stream_log/recovery.py; `damage_of` of
stream_groups). So it has no findings in what a kill, a cut or a stop leaves behind:

- chunks at the end of the last segment that are cut or damaged, from the last batch on;
- records of the last segment's index that are missing or empty, and an index that is missing;
- files of changes that were cut off: `.begun`, `.reset`, and an index without its segment;
- directories of groups that are not there.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from leveret.storage.check.check_groups import GroupsCheck
from leveret.storage.check.check_segments import MESSAGES, UNNEEDED, FileReport, unneeded
from leveret.storage.check.declared_groups import GroupEntry
from leveret.storage.check.segment_scan import ScannedSegment
from leveret.storage.disk.disk import Disk
from leveret.storage.group_log.group_recovery import MACHINE
from leveret.storage.group_log.group_state import GroupState
from leveret.storage.group_log.rows import Key
from leveret.storage.stream_groups.stream_entries import STREAM_RECORDS, damage_of
from leveret.storage.stream_groups.stream_group_store import LOGS
from leveret.storage.stream_log.chunk_index import RECORD_BYTES, IndexRecord
from leveret.storage.stream_log.chunks import HEAD_BYTES, entries_of, kind_of_entry, read_head
from leveret.storage.stream_log.entry_runs import EntryRun, add, remove_before
from leveret.storage.stream_log.recovery import read_segment_head
from leveret.storage.stream_log.segment_files import INDEX, RESET, SEGMENT, SegmentPaths
from leveret.storage.stream_log.segment_heads import SegmentHead, SegmentHeadError

CHUNKS = "chunks"


class StreamCheck:
    """A stream that was checked. segments: those with heads that can be read, oldest first.

    files: a report of each file. damage: why its member cannot be used; empty if it can.
    """

    def __init__(self, disk: Disk, directory: Path) -> None:
        self.directory = directory
        self.segments: list[ScannedSegment] = []
        self.files: list[FileReport] = []
        self.damage = ""
        self._disk = disk
        names = disk.names_in(directory)
        resets = [name for name in names if name.endswith(RESET)]
        is_reset = any(self._head(directory / name, False) is not None for name in resets)
        segments = [name for name in names if name.endswith(SEGMENT) and not is_reset]
        if not segments and not is_reset:
            self.damage = f"{directory} has no segment of a stream"
        self._check([SegmentPaths(directory, int(Path(name).stem)) for name in segments])
        indexes = {name.replace(SEGMENT, INDEX) for name in segments}
        for name in names:
            if name not in segments and name not in indexes:
                self.files.append(unneeded(disk, directory / name))

    @property
    def has_problems(self) -> bool:
        """Whether anything was found."""
        return bool(self.damage) or any(file.problems for file in self.files)

    @property
    def runs(self) -> list[EntryRun]:
        """Its entries."""
        return [run for segment in self.segments for run in segment.runs]

    @property
    def own_entries(self) -> Iterator[GroupEntry]:
        """The entries of the group that are not chunks, such as its configurations."""
        for segment in self.segments:
            damaged = {chunk.place for chunk in segment.damaged}
            for record in segment.expected:
                kind = kind_of_entry(record.kind)
                if kind:
                    is_whole = record.place not in damaged
                    yield GroupEntry(kind, self._payload(segment, record) if is_whole else None)

    def _payload(self, segment: ScannedSegment, record: IndexRecord) -> bytes:
        path = segment.paths.segment
        head = read_head(self._disk.read(path, record.place, HEAD_BYTES))
        return entries_of(self._disk.read(path, record.place, head.size), head)

    def _head(self, path: Path, is_needed: bool) -> SegmentHead | None:
        try:
            return read_segment_head(path, self._disk)
        except SegmentHeadError as error:
            if is_needed:
                problem = f"its head at offset 0 cannot be used: {error}"
                self.files.append(FileReport(path, self._disk.size(path), {}, [problem]))
                self.damage = self.damage or f"{path}: {error}"
            return None

    def _check(self, all_paths: list[SegmentPaths]) -> None:
        heads = [(paths, self._head(paths.segment, True)) for paths in all_paths]
        for (paths, head), (_, after) in pairwise([*heads, (None, None)]):
            if paths is not None and head is not None:
                is_last = paths is all_paths[-1]
                self._segment(ScannedSegment(self._disk, paths, head, after), is_last)

    def _segment(self, segment: ScannedSegment, is_last: bool) -> None:
        problems, counts = [*segment.misplaced], {CHUNKS: segment.count - len(segment.damaged)}
        messages = segment.next_offset - segment.head.first_offset
        counts[MESSAGES] = messages
        damaged = segment.damaged
        if is_last and damaged and damaged[-1].is_last and damaged[-1].position >= segment.synced:
            counts[UNNEEDED] = segment.size - segment.end
            damaged = damaged[:-1]
        problems += [one.problem for one in damaged]
        if is_last and segment.count < segment.synced and not damaged:
            problems.append(f"it ends at offset {segment.end}, before chunks of its index")
        if segment.after is not None:
            problems += self._beside_next(segment, segment.after)
        self.segments.append(segment)
        self.files.append(FileReport(segment.paths.segment, segment.size, counts, problems))
        self._index(segment, is_last)

    def _beside_next(self, segment: ScannedSegment, after: SegmentHead) -> Iterator[str]:
        entry = segment.head.first_entry + segment.count
        if not segment.count or (entry, segment.next_offset) != (
            after.first_entry,
            after.first_offset,
        ):
            yield (
                f"it ends at offset {segment.end} before entry {entry} and message "
                f"{segment.next_offset}; the next segment begins with entry {after.first_entry} "
                f"and message {after.first_offset}"
            )
            return
        found = [*self.runs, *segment.runs]
        if _joined(found, found[0].first) != _joined(after.runs, found[0].first):
            yield (
                "the head of the next segment has other terms and kinds of the entries from "
                f"{found[0].first} on"
            )

    def _index(self, segment: ScannedSegment, is_last: bool) -> None:
        path, size = segment.paths.index, len(segment.index)
        problems = []
        wrong = segment.wrong_records
        if not is_last and size and size != segment.count * RECORD_BYTES:
            problems.append(f"it has {size} bytes for {segment.count} chunks of {RECORD_BYTES}")
        if wrong:
            problems.append(
                f"{len(wrong)} of its records are not those of their chunks, the first one at "
                f"offset {wrong[0] * RECORD_BYTES}"
            )
        self.files.append(FileReport(path, size, {}, problems))


def _joined(runs: list[EntryRun], first: int) -> list[EntryRun]:
    """The runs of the entries from a number on, as few as possible."""
    found: list[EntryRun] = []
    for run in runs:
        add(found, run.first, run.count, run.term, run.kind)
    remove_before(found, first)
    return found


class StreamsCheck(GroupsCheck):
    """Checks the streams below a directory, and is a `RecordReader` of their groups' records.

    streams: those of groups that exist, by group, once the reports were made.
    """

    def __init__(self, disk: Disk, log: Path, directory: Path) -> None:
        super().__init__(disk, log, directory, lambda entry: 0, STREAM_RECORDS)
        self.streams: dict[int, StreamCheck] = {}

    @property
    def found(self) -> list[tuple[GroupState, StreamCheck]]:
        """The groups that exist, with their streams."""
        groups = self.recovery.groups
        return [(groups[group], stream) for group, stream in self.streams.items()]

    def reports(self, oldest_log: int) -> Iterator[FileReport]:
        """The reports of all files, after the log was read."""
        self.recovery.end()
        logs = self._directory / LOGS
        for group, state in sorted(self.recovery.groups.items()):
            stream = self.streams[group] = StreamCheck(self._disk, logs / str(group))
            state.damage = state.damage or stream.damage or self._damage_of(state, stream)
        yield from super().reports(oldest_log)
        for stream in self.streams.values():
            yield from stream.files
        for name in self._disk.names_in(logs):
            if not name.isdigit() or int(name) not in self.streams:
                for path in sorted((logs / name).rglob("*")):
                    yield unneeded(self._disk, path)

    def _damage_of(self, state: GroupState, stream: StreamCheck) -> str:
        if not stream.segments:
            return ""  # Its reset is not finished.
        first, last = stream.segments[0].head.first_entry, stream.segments[-1]
        last_entry = last.head.first_entry + last.count - 1
        key = Key(state.group, MACHINE)
        return damage_of(state.snapshot.index, first, last_entry, lambda: self._rows.read(key))

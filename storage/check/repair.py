"""Repairing the files of a stopped node, so that a check finds no more problems.

Damaged log files and segments are rewritten with their intact records; a copy of each is kept in
`damaged/` in the data directory. Messages that are lost are recorded as gone in a new log file. A
node can start on a damaged store without a repair, but it then reports the same losses at each
start. A store without problems is not changed. Quorum queues and streams are repaired by
repair_groups.py and repair_streams.py.

A log file stays as it is if entries of quorum queues are after the damage: they are found by their
offsets in the file. A start reads around the damage until the log no longer needs the file.

A kill during a repair leaves damage that the next repair finds.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from leveret.storage.check.check import BODIES, LOG, QUEUES, DeclaredIds, StoreReport, check_store
from leveret.storage.check.check_segments import FileReport, QueueReport
from leveret.storage.check.declared_groups import DeclaredGroups, GroupEntry, UnknownGroups
from leveret.storage.check.kept_originals import KeptOriginals
from leveret.storage.check.repair_groups import GroupRepair
from leveret.storage.check.repair_streams import StreamRepair
from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.group_log.group_records import (
    QUORUM_RECORDS,
    EncodedItem,
    encode_group_record,
)
from leveret.storage.group_log.group_state import GroupState
from leveret.storage.log.log_files import log_numbers, log_path, synced_bytes
from leveret.storage.log.torn_end import torn_from
from leveret.storage.messages.checksum import crc32
from leveret.storage.messages.formats import (
    BODIES_MAGIC,
    CLOSED,
    FILE_HEADER_BYTES,
    LOG_MAGIC,
    RUN,
    SEGMENT_MAGIC,
    STORED,
    UNCOUNTED,
    FormatError,
    RunRecord,
    ScannedRecord,
    VersionError,
    decode_file_header,
    decode_run,
    encode_file_header,
    encode_oldest,
    encode_record,
    encode_run,
    encode_state,
    encode_stored_run,
    read_records,
)
from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.message import StoredBody
from leveret.storage.segments.segments import segment_path

Progress = Callable[[int, int], object]


class Repaired(NamedTuple):
    """The result of a repair. files: that were changed. left: the problems that are left.

    advice: what to do about these.
    """

    files: list[Path]
    left: list[str]
    advice: list[str]


def repair_store(
    directory: Path,
    declared: DeclaredIds | None = None,
    progress: Progress = lambda done, total: None,
    groups: DeclaredGroups | None = None,
) -> Repaired:
    """Rewrite damaged files. The arguments are those of `check_store`.

    groups: those of declared queues; None if they are not known. Raises StoreError if a file cannot
    be read, or is of another version.
    """
    return _Repair(directory, declared, progress, groups or UnknownGroups()).run()


class _Repair:
    def __init__(
        self, directory: Path, declared: DeclaredIds | None, progress: Progress,
        groups: DeclaredGroups,
    ) -> None:  # fmt: skip
        self._directory = directory
        self._declared = declared
        self._progress = progress
        self._disk = Disk()
        self._files = KeptOriginals(directory, self._disk)
        self._declared_groups = groups

    def run(self) -> Repaired:
        report = self._check()
        if not report.problems:
            return Repaired([], [], [])
        damaged = [
            file
            for file in _damaged(report, self._directory / LOG)
            if not self._has_places(report, file.path)
        ]
        if damaged:
            for file in damaged:
                self._rewrite_log(file.path)
            # The rest of the log tells which messages are lost in segments.
            report = self._check()
        queues = {str(queue.state.key): queue for queue in report.queues}
        for file in _damaged(report, self._directory / QUEUES):
            self._rewrite_segment(file.path, queues[file.path.parent.name])
        for file in _damaged(report, self._directory / BODIES):
            self._rewrite_header(file.path)
        self._mend_streams(report)
        items = self._mend_groups(report)
        if queues or items:
            self._add_log_file(report, items)
        report = self._check()
        return Repaired(self._files.repaired, report.problems, list(self._advice(report)))

    def _check(self) -> StoreReport:
        report = check_store(self._directory, self._declared, self._progress)
        if report.log is None:
            raise StoreError(report.problems[0])
        return report

    # Groups

    def _has_places(self, report: StoreReport, path: Path) -> bool:
        """Whether entries of groups are looked for in a log file."""
        number = int(path.stem)
        return any(
            block.file == number
            for state in report.groups.recovery.groups.values()
            for block in (*state.blocks, *state.received_blocks)
        )

    def _mend_groups(self, report: StoreReport) -> list[EncodedItem]:
        groups = report.groups
        repair = GroupRepair(self._files, groups.entries)
        for state in groups.damaged:
            if self._has_one(state, groups.entries_without_messages(state)):
                repair.mend(state)
        return repair.items

    def _mend_streams(self, report: StoreReport) -> None:
        for state, stream in report.streams.found:
            if stream.has_problems:
                StreamRepair(
                    self._files, stream, has_one_member=self._has_one(state, stream.own_entries),
                    snapshot_index=state.snapshot.index,
                ).run()  # fmt: skip

    def _has_one(self, state: GroupState, entries: Iterable[GroupEntry]) -> bool:
        return self._declared_groups.has_one_member(state.group, state.configuration, entries)

    def _advice(self, report: StoreReport) -> Iterator[str]:
        """What to do about each group that still has problems."""
        for state in report.groups.damaged:
            entries = report.groups.entries_without_messages(state)
            yield self._advice_for(state, entries, "when it finds the damage")
        for state, stream in report.streams.found:
            if state.damage or stream.has_problems:
                when = f"if {stream.directory} is deleted before"
                yield self._advice_for(state, stream.own_entries, when)

    def _advice_for(self, state: GroupState, entries: Iterable[GroupEntry], when: str) -> str:
        name = self._declared_groups.name(state.group)
        if self._has_one(state, entries):
            return (
                f"{name} has no other member: restore the data directory from a copy, or start the "
                "node, delete it and declare it again"
            )
        start = f"{name} has other members: start this node, which gets a new one from these"
        return start if state.damage else f"{start} {when}"

    # The log

    def _rewrite_log(self, path: Path) -> None:
        """Rewrite a log file. A torn end is kept, so that it is known as torn (RV5)."""
        log, number = path.parent, int(path.stem)
        size = synced_bytes(self._disk, log, number, log_numbers(self._disk, log))
        data = self._disk.read_all(path)[:size]
        torn_at = torn_from(data) if size is None else len(data)
        whole = [
            _whole_part(data, record, _damaged_in(data, record))
            for record in read_records(data, FILE_HEADER_BYTES)
            if isinstance(record, ScannedRecord) and record.offset < torn_at
        ]
        self._replace(path, LOG_MAGIC, b"".join(whole) + data[max(torn_at, FILE_HEADER_BYTES) :])
        self._forget_size(log_path(log, number + 1))

    def _forget_size(self, path: Path) -> None:
        """Clear the size of the log file before this one in its header: it has changed."""
        if not path.exists():
            return
        try:
            header = decode_file_header(self._disk.read(path, 0, FILE_HEADER_BYTES), LOG_MAGIC)
        except FormatError:
            # This file is damaged too, and is rewritten next.
            return
        header_bytes = encode_file_header(LOG_MAGIC, int(path.stem), header.oldest)
        self._files.write(path, header_bytes, is_new=False)

    def _add_log_file(self, report: StoreReport, items: list[EncodedItem]) -> None:
        """Write STATEs of damaged queues to a new log file: lost messages are gone. And items."""
        reader = report.log
        assert reader is not None, "without the log no queue is checked"
        number = reader.next_number
        oldest = reader.files[0].number if reader.files else number
        records = [encode_oldest(oldest)]
        for state, lost in report.queues:
            tail = segment_path(self._directory / QUEUES / str(state.key), state.tail_number)
            changed = state._replace(segment_bytes=UNCOUNTED)
            if tail in self._files.repaired:
                changed = changed._replace(tail_bytes=self._disk.size(tail))
            records.append(encode_state(changed, [lost]))
        if items:
            number_of_record = report.groups.recovery.number
            pieces, _ = encode_group_record(QUORUM_RECORDS, number_of_record, items)
            records += [piece for piece in pieces if isinstance(piece, bytes)]
        if reader.was_closed:
            records.append(encode_record(CLOSED, b""))
        path = log_path(self._directory / LOG, number)
        header = encode_file_header(LOG_MAGIC, number, oldest)
        self._files.replace(path, header + b"".join(records))

    # Segments and bodies

    def _rewrite_segment(self, path: Path, queue: QueueReport) -> None:
        """Records after a damaged part move to lower offsets: nothing refers to offsets.

        Bytes of the last segment that the STATE does not count are left out: the log has them.
        """
        state, lost = queue
        is_last = int(path.stem) == state.tail_number
        data = self._disk.read_all(path)[: state.tail_bytes if is_last else None]
        whole = [
            _whole_part(data, record, lost)
            for record in read_records(data, FILE_HEADER_BYTES)
            if isinstance(record, ScannedRecord)
        ]
        self._replace(path, SEGMENT_MAGIC, b"".join(whole))

    def _rewrite_header(self, path: Path) -> None:
        """Rewrite the header of a file of bodies: no message is lost with it."""
        _refuse_other_versions(path, self._disk.read(path, 0, FILE_HEADER_BYTES), BODIES_MAGIC)
        self._files.keep(path)
        self._files.write(path, encode_file_header(BODIES_MAGIC, int(path.stem)), is_new=False)

    def _replace(self, path: Path, magic: bytes, records: bytes) -> None:
        """Replace a file by these records."""
        header = _refuse_other_versions(path, self._disk.read(path, 0, FILE_HEADER_BYTES), magic)
        self._files.keep(path)
        self._files.replace(path, encode_file_header(magic, int(path.stem), header) + records)


def _damaged(report: StoreReport, directory: Path) -> list[FileReport]:
    """The files below a directory that exist and have problems."""
    return [
        file
        for file in report.files
        if file.problems and file.path.is_relative_to(directory) and file.path.is_file()
    ]


def _refuse_other_versions(path: Path, data: bytes, magic: bytes) -> int:
    """The oldest needed log file that a header names; 0 if the header is damaged."""
    try:
        return decode_file_header(data, magic).oldest
    except VersionError as error:
        raise StoreError(f"{path} is not damaged: {error}") from error
    except FormatError:
        return 0


def _damaged_in(data: bytes, record: ScannedRecord) -> Intervals:
    """The positions, in the first of its queues, of a RUN's damaged messages."""
    damaged = Intervals()
    if record.kind == RUN:
        run = decode_run(record.head)
        offset = record.body_offset
        for position, (size, crc) in enumerate(
            zip(run.sizes, run.crcs, strict=True), run.targets[0][1]
        ):
            if crc32(data[offset : offset + size]) != crc:
                damaged.add(position)
            offset += size
    return damaged


def _whole_part(data: bytes, record: ScannedRecord, lost: Intervals) -> bytes:
    """A record without the messages in it that are lost, by their positions."""
    if record.kind != RUN:
        return data[record.offset : record.end]
    run = decode_run(record.head)
    first = run.targets[0][1]
    if next(lost.within(first, first + len(run.sizes)), None) is None:
        return data[record.offset : record.end]
    offset = record.body_offset
    parts: list[bytes] = []
    for place, size in enumerate(run.sizes):
        body = b"" if run.flags & STORED else data[offset : offset + size]
        offset += size
        if first + place not in lost:
            parts += [_encode_one(run, place, body), body]
    return b"".join(parts)


def _encode_one(run: RunRecord, place: int, body: bytes) -> bytes:
    """The record of one message of a run, without its body."""
    targets = [(key, first + place) for key, first in run.targets]
    number = run.number_at(place)
    if not run.flags & STORED:
        return encode_run(
            run.expires_wall_ms, run.flags, targets, run.address, run.header, [body], number
        )
    file, offset = run.stored[2 * place : 2 * place + 2]
    stored = StoredBody(file, offset, run.sizes[place], run.crcs[place])
    return encode_stored_run(
        run.expires_wall_ms, run.flags, targets[0], run.address, run.header, [stored], number
    )

"""Repairing the files of a stopped node, so that a check finds no more problems.

Damaged log files and segments are rewritten with their intact records; a copy of each is kept in
`damaged/` in the data directory. Messages that are lost are recorded as gone in a new log file. A
node can start on a damaged store without a repair, but it then reports the same losses at each
start. A store without problems is not changed.

A kill during a repair leaves damage that the next repair finds.
"""

from collections.abc import Callable
from pathlib import Path

from leveret.storage.check.check import LOG, QUEUES, DeclaredIds, StoreReport, check_store
from leveret.storage.check.check_segments import FileReport, QueueReport
from leveret.storage.disk.disk import Disk, StoreError
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
    Record,
    Run,
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

DAMAGED = "damaged"

Progress = Callable[[int, int], object]


def repair_store(
    directory: Path,
    declared: DeclaredIds | None = None,
    progress: Progress = lambda done, total: None,
) -> list[Path]:
    """Rewrite damaged files; returns their paths. The arguments are those of `check_store`.

    Raises StoreError if a file cannot be read, or is of another version.
    """
    return _Repair(directory, declared, progress).run()


class _Repair:
    def __init__(self, directory: Path, declared: DeclaredIds | None, progress: Progress) -> None:
        self._directory = directory
        self._declared = declared
        self._progress = progress
        self._disk = Disk()
        self._repaired: list[Path] = []

    def run(self) -> list[Path]:
        report = self._check()
        log = self._directory / LOG
        # Those that are kept for quorum queues stay: other members have their entries.
        if damaged := [file for file in _damaged(report, ".log") if file.path.parent == log]:
            for file in damaged:
                self._rewrite_log(file.path)
            # The rest of the log tells which messages are lost in segments.
            report = self._check()
        queues = {str(queue.state.key): queue for queue in report.queues}
        for file in _damaged(report, ".segment"):
            self._rewrite_segment(file.path, queues[file.path.parent.name])
        for file in _damaged(report, ".bodies"):
            self._rewrite_header(file.path)
        if queues:
            self._record_losses(report)
        return self._repaired

    def _check(self) -> StoreReport:
        report = check_store(self._directory, self._declared, self._progress)
        if report.log is None:
            raise StoreError(report.problems[0])
        return report

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
            if isinstance(record, Record) and record.offset < torn_at
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
        self._write(path, encode_file_header(LOG_MAGIC, int(path.stem), header.oldest), False)

    def _record_losses(self, report: StoreReport) -> None:
        """Write STATEs of damaged queues to a new log file: lost messages are gone."""
        reader = report.log
        assert reader is not None, "without the log no queue is checked"
        number = reader.next_number
        oldest = reader.files[0].number if reader.files else number
        records = [encode_oldest(oldest)]
        for state, lost in report.queues:
            tail = segment_path(self._directory / QUEUES / str(state.key), state.tail_number)
            changed = state._replace(segment_bytes=UNCOUNTED)
            if tail in self._repaired:
                changed = changed._replace(tail_bytes=self._disk.size(tail))
            records.append(encode_state(changed, [lost]))
        if reader.was_closed:
            records.append(encode_record(CLOSED, b""))
        path = log_path(self._directory / LOG, number)
        header = encode_file_header(LOG_MAGIC, number, oldest)
        self._write_and_rename(path, header + b"".join(records))

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
            if isinstance(record, Record)
        ]
        self._replace(path, SEGMENT_MAGIC, b"".join(whole))

    def _rewrite_header(self, path: Path) -> None:
        """Rewrite the header of a file of bodies: no message is lost with it."""
        _refuse_other_versions(path, self._disk.read(path, 0, FILE_HEADER_BYTES), BODIES_MAGIC)
        self._write(path, encode_file_header(BODIES_MAGIC, int(path.stem)), False)
        self._repaired.append(path)

    # Files

    def _replace(self, path: Path, magic: bytes, records: bytes) -> None:
        """Copy a file to `damaged/`, and replace it by these records."""
        data = self._disk.read_all(path)
        header = _refuse_other_versions(path, data, magic)
        aside = self._directory / DAMAGED / path.relative_to(self._directory)
        self._disk.make_directory(aside.parent)
        self._write(aside, data, True)
        self._write_and_rename(path, encode_file_header(magic, int(path.stem), header) + records)
        self._repaired.append(path)

    def _write_and_rename(self, path: Path, data: bytes) -> None:
        new = path.with_suffix(".new")
        self._write(new, data, True)
        self._disk.rename(new, path)
        self._disk.sync_directory(path.parent)

    def _write(self, path: Path, data: bytes, is_new: bool) -> None:
        descriptor = self._disk.create(path) if is_new else self._disk.open(path)
        try:
            self._disk.write(descriptor, path, data, 0)
            self._disk.sync(descriptor, path)
        finally:
            self._disk.close(descriptor)
        self._disk.sync_directory(path.parent)


def _damaged(report: StoreReport, suffix: str) -> list[FileReport]:
    """The files of a kind that exist and have problems."""
    return [
        file
        for file in report.files
        if file.problems and file.path.suffix == suffix and file.path.exists()
    ]


def _refuse_other_versions(path: Path, data: bytes, magic: bytes) -> int:
    """The oldest needed log file that a header names; 0 if the header is damaged."""
    try:
        return decode_file_header(data, magic).oldest
    except VersionError as error:
        raise StoreError(f"{path} is not damaged: {error}") from error
    except FormatError:
        return 0


def _damaged_in(data: bytes, record: Record) -> Intervals:
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


def _whole_part(data: bytes, record: Record, lost: Intervals) -> bytes:
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


def _encode_one(run: Run, place: int, body: bytes) -> bytes:
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

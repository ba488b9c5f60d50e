"""Checking the segments of one queue, and the bodies in the message store that they refer to.

The check looks for the messages that a restart would deliver: the persistent ones below
`flushed_to` that are not gone. Damage to other messages does not matter.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from leveret.storage.bodies.message_store import bodies_numbers, bodies_path
from leveret.storage.check.needed_segments import is_needed, state_of_segments, with_last_segment
from leveret.storage.disk.disk import Disk, FileMissing, StoreError
from leveret.storage.messages.checksum import crc32
from leveret.storage.messages.formats import (
    BODIES_MAGIC,
    FILE_HEADER_BYTES,
    PERSISTENT,
    RUN,
    SEGMENT_MAGIC,
    STORED,
    Damage,
    FormatError,
    RunRecord,
    ScannedRecord,
    StateRecord,
    VersionError,
    decode_file_header,
    decode_run,
    read_records,
)
from leveret.storage.messages.intervals import Intervals
from leveret.storage.queue.queue_recovery import FoundQueue
from leveret.storage.segments.ledger import positions_of, segment_number
from leveret.storage.segments.segments import segment_numbers, segment_path

MESSAGES = "messages"
UNNEEDED = "bytes that a start removes"


class FileReport(NamedTuple):
    """The findings in one file. counts: of its contents, by description. problems: sentences."""

    path: Path
    size: int
    counts: dict[str, int]
    problems: list[str]


def unneeded(disk: Disk, path: Path) -> FileReport:
    """The report of a file that a start removes."""
    size = disk.size(path)
    return FileReport(path, size, {UNNEEDED: size}, [])


class QueueReport(NamedTuple):
    """A queue with damaged segments. state: the one for a restart. lost: positions of messages."""

    state: StateRecord
    lost: Intervals


class BodiesCheck:
    """Checks bodies that are needed, and reports the files that they are in."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._needed: set[int] = set()

    def problem(self, number: int, offset: int, size: int, crc: int) -> str | None:
        """The damage to a needed body, or None. Raises StoreError if it cannot be read now."""
        self._needed.add(number)
        path = bodies_path(self._directory, number)
        try:
            body = self._disk.read(path, offset, size)
        except FileMissing:
            return f"needs {path}, which is missing"
        if len(body) == size and crc32(body) == crc:
            return None
        return f"has a damaged body at offset {offset} of {path}"

    def reports(self) -> Iterator[FileReport]:
        """A report of each file. The header matters only in a file with a needed body."""
        for number in bodies_numbers(self._disk, self._directory):
            path = bodies_path(self._directory, number)
            size = self._disk.size(path)
            counts = {"bytes of bodies": max(0, size - FILE_HEADER_BYTES)}
            problems = []
            if number in self._needed:
                try:
                    decode_file_header(self._disk.read(path, 0, FILE_HEADER_BYTES), BODIES_MAGIC)
                except (StoreError, FormatError) as error:
                    problems.append(str(error))
            yield FileReport(path, size, counts, problems)


def check_queue(
    disk: Disk,
    bodies: BodiesCheck,
    directory: Path,
    key: int,
    found: FoundQueue,
    is_here: bool = True,
) -> tuple[list[FileReport], QueueReport | None]:
    """Check the segments of a queue. Raises StoreError if one, or a body, cannot be read now.

    found: the queue's state in the log. is_here: it was not removed from this node.
    Returns a report of each segment, and one of the queue if there are problems.
    """
    numbers = segment_numbers(disk, directory)
    is_state_lost = False
    if found.state is None and numbers:
        lost_state = _lost_state(disk, directory, key, found, numbers)
        if lost_state is not None:
            found.set_state(lost_state)
            is_state_lost = True
    state = with_last_segment(disk, directory, found.state_to_restore(key))
    check = _QueueCheck(disk, bodies, directory, state)
    reports = [check.segment(number) for number in numbers]
    if is_here:
        reports += check.missing(numbers)
    if is_state_lost:
        problem = "the log has lost the removals of messages of this queue"
        reports.append(FileReport(directory, 0, {}, [problem]))
    if not any(report.problems for report in reports):
        return reports, None
    return reports, QueueReport(state, check.lost)


def _lost_state(
    disk: Disk, directory: Path, key: int, found: FoundQueue, numbers: list[int]
) -> StateRecord | None:
    def runs() -> Iterator[tuple[int, RunRecord]]:
        for number in numbers:
            data = disk.read_all(segment_path(directory, number))
            for record in read_records(data, FILE_HEADER_BYTES):
                if isinstance(record, ScannedRecord) and record.kind == RUN:
                    yield number, decode_run(record.head)

    tail = numbers[-1], disk.size(segment_path(directory, numbers[-1]))
    return state_of_segments(key, found, runs(), tail)


class _QueueCheck:
    """Checks the segments of one queue. lost: positions of messages that are lost."""

    def __init__(
        self, disk: Disk, bodies: BodiesCheck, directory: Path, state: StateRecord
    ) -> None:
        self._disk = disk
        self._bodies = bodies
        self._directory = directory
        self._state = state
        self.lost = Intervals()

    def segment(self, number: int) -> FileReport:
        """A report of a segment that exists."""
        path = segment_path(self._directory, number)
        if not is_needed(self._state, number):
            return unneeded(self._disk, path)
        size = self._disk.size(path)
        problems: list[str] = []
        data = self._disk.read_all(path)
        try:
            decode_file_header(data, SEGMENT_MAGIC)
        except VersionError as error:
            # The file is not damaged, and its messages are not lost.
            return FileReport(path, size, {MESSAGES: 0}, [str(error)])
        except FormatError as error:
            problems.append(str(error))
        if number == self._state.tail_number:
            data = data[: self._state.tail_bytes]
        there, count = Intervals(), 0
        found: Counter[str] = Counter()
        for record in read_records(data, FILE_HEADER_BYTES):
            if isinstance(record, Damage):
                problems.append(f"bytes {record.offset} to {record.end} are not a whole record")
            elif record.kind == RUN:
                run = decode_run(record.head)
                first = run.targets[0][1]
                there.add_range(first, first + len(run.sizes))
                count += len(run.sizes)
                found.update(self._problems_of(run, data, record.body_offset))
        problems += [f"{n} of its messages: each {problem}" for problem, n in found.items()]
        start, end = positions_of(number)
        for first, after in self._state.gone.within(start, end):
            there.add_range(first, after)
        if absent := self._lose(there.gaps(start, min(end, self._state.flushed_to))):
            problems.append(f"{absent} of its messages are not in it")
        return FileReport(path, size, {MESSAGES: count}, problems)

    def _problems_of(self, run: RunRecord, data: bytes, offset: int) -> Iterator[str]:
        """The damage to each message of a run that a restart would deliver."""
        if not run.flags & PERSISTENT:
            return
        first = run.targets[0][1]
        for place, (size, crc) in enumerate(zip(run.sizes, run.crcs, strict=True)):
            position = first + place
            if position in self._state.gone or position >= self._state.flushed_to:
                problem = None
            elif run.flags & STORED:
                number, at = run.stored[2 * place : 2 * place + 2]
                problem = self._bodies.problem(number, at, size, crc)
            else:
                is_whole = crc32(data[offset : offset + size]) == crc
                problem = None if is_whole else f"has a damaged body at offset {offset}"
            offset += size
            if problem is not None:
                self.lost.add(position)
                yield problem

    def _lose(self, gaps: Iterator[tuple[int, int]]) -> int:
        count = 0
        for start, end in list(gaps):
            self.lost.add_range(start, end)
            count += end - start
        return count

    def missing(self, numbers: list[int]) -> Iterator[FileReport]:
        """Reports of missing segments with messages that are not gone."""
        there = Intervals((number, number + 1) for number in numbers)
        absent = Intervals()
        for start, end in self._state.gone.gaps(0, self._state.flushed_to):
            for gap in there.gaps(segment_number(start), segment_number(end - 1) + 1):
                absent.add_range(*gap)
        for first, after in absent:
            start, end = positions_of(first)[0], positions_of(after - 1)[1]
            count = self._lose(self._state.gone.gaps(start, min(end, self._state.flushed_to)))
            problem = "it is missing"
            if after - first > 1:
                problem += f", and so are all up to {segment_path(self._directory, after - 1).name}"
            path = segment_path(self._directory, first)
            yield FileReport(path, 0, {}, [f"{problem}: {count} messages are lost"])

"""What a restart finds: the log is read, segments are only looked at.

Going through the log's files from the oldest needed one on, each queue's last State, what was
published after it and what became of it add up to the queue as it was. Messages that are in
segments stay there; the state says which.

A log may end in the middle of a record: the node stopped while it wrote, and nobody was told that
what it wrote is safe. Anything else that is not a record is damage. It is reported with its file
and place, and reading goes on behind it.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from zlib import crc32

from storage.disk import Disk, StoreError
from storage.formats import (
    CLOSED,
    FILE_HEADER_BYTES,
    LOG_MAGIC,
    OLDEST,
    PROGRESS,
    RUN,
    STATE,
    UNCOUNTED,
    Damage,
    FormatError,
    Record,
    Run,
    State,
    decode_file_header,
    decode_oldest,
    decode_progress,
    decode_run,
    decode_state,
    read_records,
)
from storage.intervals import Intervals
from storage.log import LogFile, log_path
from storage.message import Entry, Message

logger = logging.getLogger("leveret.store")

MakeMessages = Callable[[Run, list[bytes]], list[Message]]


class FoundQueue:
    """What the log says of one queue.

    entries: published, and not known to be in segments. wants_count: what it says of the bytes in
    segments is not enough, they have to be counted.
    """

    __slots__ = (
        "entries", "fetched_to", "gone", "has_expiring", "segment_bytes", "state", "wants_count",
    )  # fmt: skip

    def __init__(self) -> None:
        self.state: State | None = None
        self.entries: deque[Entry] = deque()
        self.gone = Intervals()
        self.fetched_to = 0
        self.segment_bytes = 0
        self.has_expiring = False
        self.wants_count = False

    def set_state(self, state: State) -> None:
        """All that was read before of what is in segments is out of date."""
        self.state = state
        self.gone.update(state.gone)
        self.fetched_to = max(self.fetched_to, state.fetched_to)
        self.segment_bytes = state.segment_bytes
        self.wants_count = False
        self.has_expiring |= state.has_expiring

    @property
    def flushed_to(self) -> int:
        """What is below this position, and not gone, is in segments."""
        return self.state.flushed_to if self.state is not None else 0

    def live_entries(self) -> list[Entry]:
        """What is left of the entries, in order, each once."""
        flushed_to, gone, fetched_to = self.flushed_to, self.gone, self.fetched_to
        live = {
            entry.position: entry
            for entry in self.entries
            if entry.position >= flushed_to and entry.position not in gone
        }
        entries = [live[position] for position in sorted(live)]
        for entry in entries:
            entry.redelivered = entry.position < fetched_to
        return entries

    def state_to_restore(self, key: int) -> State:
        """Where its ledger goes on."""
        state = self.state
        return State(
            key,
            self.flushed_to,
            self.fetched_to,
            max(0, self.segment_bytes),
            state.tail_number if state is not None else -1,
            state.tail_bytes if state is not None else 0,
            self.has_expiring,
            state.transient_segments if state is not None else [],
            self.gone,
        )


class LogReader:
    """Reads a log. queues: what it says of each, by their keys. files: those to be kept.

    problems: what was damaged or missing, in words. stale: files that are not needed any more.
    """

    def __init__(self, directory: Path, disk: Disk, make_messages: MakeMessages) -> None:
        self._directory = directory
        self._disk = disk
        self._make_messages = make_messages
        self.queues: dict[int, FoundQueue] = {}
        self.files: list[LogFile] = []
        self.stale: list[Path] = []
        self.next_number = 1
        self.problems: list[str] = []
        self.records = self.messages = 0
        self.was_closed = False

    def read(self, progress: Callable[[int, int], object] = lambda done, total: None) -> None:
        """Read every file that is needed. Raises StoreError if one cannot be read at all."""
        numbers = log_numbers(self._disk, self._directory)
        if not numbers:
            return
        self.next_number = numbers[-1] + 1
        needed = self._needed(numbers)
        for done, number in enumerate(needed):
            progress(done, len(needed))
            self._read_file(number, self._bytes_that_count(number, numbers))
        progress(len(needed), len(needed))

    def _needed(self, numbers: list[int]) -> list[int]:
        """The files that count, after saying which of them are missing."""
        oldest = self._oldest(numbers)
        present = [number for number in numbers if number >= oldest]
        self.stale = [self._path(number) for number in numbers if number < oldest]
        for number in sorted(set(range(oldest or present[0], present[-1])) - set(present)):
            self._report(f"{self._path(number)} is missing: what only it held is lost")
        return present

    def _oldest(self, numbers: list[int]) -> int:
        """The oldest file that is needed, as the newest one that can be read says."""
        for number in reversed(numbers):
            data = self._disk.read_all(self._path(number))
            try:
                oldest = decode_file_header(data, LOG_MAGIC).oldest
            except FormatError as error:
                self._check_version(number, error)
                continue
            for record in read_records(data, FILE_HEADER_BYTES):
                if isinstance(record, Record) and record.kind == OLDEST:
                    oldest = decode_oldest(record.head)
            return oldest
        return 0

    def _bytes_that_count(self, number: int, numbers: list[int]) -> int | None:
        """How far a file was written to; None if nobody says so, as nobody does of the last."""
        if number + 1 not in numbers:
            return None if number == numbers[-1] else self._disk.size(self._path(number))
        header = self._disk.read(self._path(number + 1), 0, FILE_HEADER_BYTES)
        try:
            return decode_file_header(header, LOG_MAGIC).previous_bytes or None
        except FormatError:
            return None

    def _path(self, number: int) -> Path:
        return log_path(self._directory, number)

    def _check_version(self, number: int, error: FormatError) -> None:
        """A file of another version is not damaged: it must not be touched."""
        if "version" in str(error):
            raise StoreError(
                f"{self._path(number)} cannot be read: {error}; start the version that wrote it"
            )

    def _report(self, problem: str) -> None:
        self.problems.append(problem)

    def _read_file(self, number: int, size: int | None) -> None:
        """Read a file of which so many bytes count; None if that is not known."""
        path = self._path(number)
        data = self._disk.read_all(path)
        if size is not None and len(data) < size:
            self._report(f"{path} ends at offset {len(data)}, and had {size} bytes")
        data = data[:size]
        file = LogFile(number, path, len(data))
        self.files.append(file)
        try:
            decode_file_header(data, LOG_MAGIC)
        except FormatError as error:
            self._check_version(number, error)
            if data.strip(b"\0"):
                self._report(f"{path}: {error}; its records are read all the same")
        self.was_closed = False
        for record in read_records(data, FILE_HEADER_BYTES):
            if isinstance(record, Damage):
                self._note_damage(file, data, record, is_torn=record.is_end and size is None)
            else:
                self._take(file, data, record)

    def _note_damage(self, file: LogFile, data: bytes, damage: Damage, is_torn: bool) -> None:
        lost = damage.end - damage.offset
        if is_torn:
            # Beyond what was written there may be zeros: room that was asked for ahead.
            file.size = damage.offset
            if data[damage.offset : damage.end].strip(b"\0"):
                logger.warning(
                    "%s ends at offset %d with %d bytes that are no whole record: the node was "
                    "stopped while it wrote them, and nobody was told that they are safe",
                    file.path, damage.offset, lost,
                )  # fmt: skip
            return
        self._report(
            f"{file.path} is damaged from offset {damage.offset} to {damage.end}: "
            f"what these {lost} bytes said is lost"
        )

    def _take(self, file: LogFile, data: bytes, record: Record) -> None:
        self.records += 1
        self.was_closed = record.kind == CLOSED
        if record.kind == RUN:
            self._take_run(file, data, record)
        elif record.kind == PROGRESS:
            told = decode_progress(record.head)
            found = self._queue(file, told.key)
            for start, end in told.gone:
                found.gone.add_range(start, end)
            found.fetched_to = max(found.fetched_to, told.fetched_to)
            found.segment_bytes -= told.segment_bytes
            found.wants_count |= told.segment_bytes == UNCOUNTED
        elif record.kind == STATE:
            state = decode_state(record.head)
            self._queue(file, state.key).set_state(state)

    def _queue(self, file: LogFile, key: int) -> FoundQueue:
        file.touched.add(key)
        found = self.queues.get(key)
        if found is None:
            found = self.queues[key] = FoundQueue()
        return found

    def _take_run(self, file: LogFile, data: bytes, record: Record) -> None:
        run = decode_run(record.head)
        bodies, damaged = _bodies(data, record, run)
        if damaged:
            self._report(
                f"{file.path} is damaged after offset {record.body_offset}: {len(damaged)} of "
                f"{len(run.sizes)} messages are lost"
            )
        messages = self._make_messages(run, bodies)
        self.messages += len(messages)
        file.messages += len(messages)
        for key, first in run.targets:
            found = self._queue(file, key)
            file.published[key] = max(file.published.get(key, 0), first + len(messages))
            found.has_expiring |= bool(run.expires_wall_ms)
            found.entries.extend(self._entries(messages, first, run.expires_wall_ms, damaged))

    @staticmethod
    def _entries(
        messages: list[Message], first: int, expires_wall_ms: int, damaged: set[int]
    ) -> Iterable[Entry]:
        return [
            Entry(message, position, False, expires_wall_ms)
            for position, message in enumerate(messages, first)
            if position - first not in damaged
        ]


def _bodies(data: bytes, record: Record, run: Run) -> tuple[list[bytes], set[int]]:
    """The bodies of a run, and the places of those that are damaged."""
    offset = record.body_offset
    bodies, damaged = [], set()
    for place, (size, crc) in enumerate(zip(run.sizes, run.crcs, strict=True)):
        body = data[offset : offset + size]
        if crc32(body) != crc:
            damaged.add(place)
        bodies.append(body)
        offset += size
    return bodies, damaged


def log_numbers(disk: Disk, directory: Path) -> list[int]:
    """The numbers of the log's files, in order."""
    names = [Path(name) for name in disk.names_in(directory)]
    return [int(name.stem) for name in names if name.suffix == ".log" and name.stem.isdigit()]

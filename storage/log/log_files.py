"""The files of the log: they have consecutive numbers, and batches go to the last one.

Space is allocated ahead of the data. So on a full disk acks can be written: a batch that does not
fit into the allocated space is not begun, and that space is given up only with the file, for the
next one. With little space left on the disk less is allocated: other programs need some, too.

The next file is made in advance, too, under a name of its own: XFS makes no file with less than
190 KB of free space, and only a new file lets older ones be removed. A rename needs no space.

`LogFiles` decides which file is next and does the disk operations. `Log` decides when, and
`Retirement` decides which file is no longer needed.

Invariants:

LF1  The numbers grow by one from file to file, except where a file was lost before a restart. No
     number is reused.
LF2  Data are written only to the last file, at the offset where the synced data end. A retried
     batch has the same bytes at the same offset.
LF3  A file is removed only when it is the oldest, so no record is removed before an older one.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from leveret.storage.disk.disk import Disk, DiskFull, no_room
from leveret.storage.messages.formats import (
    FILE_HEADER_BYTES,
    LOG_MAGIC,
    FormatError,
    decode_file_header,
    encode_file_header,
)

FILE_BYTES_MAX = 32 * 1024 * 1024
"""A restart reads every file; messages left in a full file are moved to segments."""
FILE_MESSAGES_MAX, FILE_RECORDS_MAX = 250_000, 80_000
"""For small messages: as many as a restart reads in a quarter of a second."""
RESERVED_BYTES, RESERVED_SHARE = 2 * 1024 * 1024, 64
"""Space that is allocated ahead of the data; at most this part of a small disk."""
LOW_FACTOR, LOW_SHARE = 4, 8
"""With less free space than this multiple of the space ahead, an eighth of that is allocated."""
NEXT_FILE = "next"
"""The file that is made in advance. A restart does not read it: it has no records."""
NOT_OPEN = -1


class LogFile:
    """One file of the log.

    number: its place in the order of files, as in its name. size: the synced bytes. records,
    messages: the numbers that a restart would read from it, as its writers counted.
    is_finished: the next batch begins another file, though this one is not full. reserved_to: up to
    this offset space is allocated.
    """

    __slots__ = (
        "descriptor", "is_finished", "messages", "number", "path", "records", "reserved_to", "size",
    )  # fmt: skip

    def __init__(self, number: int, path: Path, size: int = 0) -> None:
        self.number = number
        self.path = path
        self.size = size
        self.messages = self.records = 0
        self.is_finished = False
        self.descriptor = NOT_OPEN
        self.reserved_to = 0


def log_path(directory: Path, number: int) -> Path:
    """The path of the log file with this number."""
    return directory / f"{number:010d}.log"


def log_numbers(disk: Disk, directory: Path) -> list[int]:
    """The numbers of the log files in a directory, in order."""
    names = [Path(name) for name in disk.names_in(directory)]
    return [int(name.stem) for name in names if name.suffix == ".log" and name.stem.isdigit()]


def synced_bytes(disk: Disk, directory: Path, number: int, numbers: list[int]) -> int | None:
    """The bytes of a log file that count, by the next file's header; None if unknown.

    numbers: of all log files, in order. It is unknown for the newest one. Raises StoreError.
    """
    if number + 1 not in numbers:
        return None if number == numbers[-1] else disk.size(log_path(directory, number))
    header = disk.read(log_path(directory, number + 1), 0, FILE_HEADER_BYTES)
    try:
        return decode_file_header(header, LOG_MAGIC).previous_bytes or None
    except FormatError:
        return None


class LogFiles:
    """The files of one log.

    files: those that were not forgotten, the oldest first. oldest_needed: the number of the first
    needed one, which may be higher than that of the first in `files`.
    """

    def __init__(self, directory: Path, disk: Disk, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._directory = directory
        self._disk = disk
        self._file_bytes_max = file_bytes_max
        self.files: list[LogFile] = []
        self.oldest_needed = 0
        self._ahead_bytes = RESERVED_BYTES
        self._next_path = directory / NEXT_FILE
        self._next_descriptor, self._next_bytes = NOT_OPEN, 0

    def begin(self, files: list[LogFile], number: int) -> None:
        """Create a file after those that a restart found. Raises StoreError."""
        total_bytes = self._disk.space(self._directory).total_bytes
        self._ahead_bytes = min(RESERVED_BYTES, total_bytes // RESERVED_SHARE)
        if files and files[-1].size:
            self._give_back(files[-1], self._disk.size(files[-1].path))
        self.files = files
        file = self._append(number)
        self.oldest_needed = self.files[0].number
        self._create(file)
        self._make_next()

    def sync(self, files: list[LogFile]) -> None:
        """Sync files that a restart found, and their names. Raises StoreError."""
        for file in files:
            descriptor = self._disk.open(file.path)
            try:
                self._disk.sync(descriptor, file.path)
            finally:
                self._disk.close(descriptor)
        self._disk.sync_directory(self._directory)

    def to_write(self) -> tuple[LogFile, bool]:
        """The file for the next batch, and whether it is a new one."""
        file = self.files[-1]
        if (
            not file.is_finished
            and file.size < self._file_bytes_max
            and file.messages < FILE_MESSAGES_MAX
            and file.records < FILE_RECORDS_MAX
        ):
            return file, False
        return self._append(file.number + 1), True

    @property
    def total_bytes(self) -> int:
        """The synced bytes of all files that are still needed."""
        return sum(file.size for file in self.files)

    def _append(self, number: int) -> LogFile:
        assert not self.files or number > self.files[-1].number, "LF1: file numbers grow"
        file = LogFile(number, log_path(self._directory, number), FILE_HEADER_BYTES)
        self.files.append(file)
        return file

    def path(self, number: int) -> Path:
        """The path of the file with this number."""
        return log_path(self._directory, number)

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Bytes that were written to a file, synced or not. Raises StoreError."""
        return self._disk.read(self.path(number), offset, size)

    # In the worker's thread, but for the first file

    def write(self, file: LogFile, pieces: Iterable[bytes], size: int) -> None:
        """Append a batch to the file, without a sync. size: of all pieces. Raises StoreError."""
        assert file is self.files[-1], "LF2: only the last file is written"
        if file.descriptor == NOT_OPEN:
            self._create(file)
        if not size:
            return
        offset, end = file.size, file.size + size
        if end + self._ahead_bytes // 2 > file.reserved_to:
            self._make_next()
            self._reserve(file, end)
        for piece in pieces:
            self._disk.write(file.descriptor, file.path, piece, offset)
            offset += len(piece)
        self._disk.passed("log.written")

    def _reserve(self, file: LogFile, end: int) -> None:
        """Allocate space up to an offset, and more ahead of it if there is room.

        Raises DiskFull if there is no room: a batch that would take the last space is not begun.
        """
        is_low = self._disk.space(self._directory).free_bytes < LOW_FACTOR * self._ahead_bytes
        ahead_bytes = self._ahead_bytes // LOW_SHARE if is_low else self._ahead_bytes
        start = max(file.size, file.reserved_to)
        for wanted in (end + ahead_bytes, end):
            if wanted <= start:
                return
            if self._disk.reserve(file.descriptor, start, wanted - start):
                file.reserved_to = wanted
                return
        raise no_room(file.path, file.size)

    def _give_back(self, file: LogFile, size: int) -> None:
        """Free the space allocated after the data of a file. size: the file's, with that space."""
        if size > file.size:
            self._disk.truncate(file.path, file.size)
            file.reserved_to = file.size

    def _create(self, file: LogFile) -> None:
        before = [other for other in self.files if other.number == file.number - 1]
        for other in before:
            # The new file needs the room; this one no longer does.
            self._give_back(other, other.reserved_to)
        sizes = [other.size for other in before]
        header = encode_file_header(LOG_MAGIC, file.number, self.oldest_needed, sum(sizes))
        descriptor, self._next_descriptor = self._next_descriptor, NOT_OPEN
        if descriptor == NOT_OPEN:
            descriptor, self._next_bytes = self._disk.create(self._next_path), 0
        try:
            self._disk.write(descriptor, file.path, header, 0)
            self._disk.rename(self._next_path, file.path)
            self._disk.sync_directory(self._directory)
        except BaseException:
            # If the disk was full, this is retried with another file.
            self._disk.close(descriptor)
            raise
        self._disk.passed("log.created")
        file.descriptor, file.reserved_to = descriptor, self._next_bytes

    def _make_next(self) -> None:
        """Make the next file in advance, unless it exists. Without room it is retried later."""
        if self._next_descriptor != NOT_OPEN:
            return
        with suppress(DiskFull):
            self._next_descriptor = self._disk.create(self._next_path)
            wanted = self._ahead_bytes // LOW_SHARE
            is_reserved = self._disk.reserve(self._next_descriptor, 0, wanted)
            self._next_bytes = wanted if is_reserved else 0

    def remove(self, file: LogFile) -> None:
        """Remove a file that `forget_oldest` returned. Raises StoreError."""
        assert file not in self.files, "LF3: a file that is still needed is not removed"
        if file.descriptor != NOT_OPEN:
            self._disk.close(file.descriptor)
        self._disk.remove(file.path)
        self._disk.passed("log.removed")

    # In the loop

    def forget_oldest(self) -> LogFile:
        """Take the oldest file out of `files`. The caller removes it."""
        assert len(self.files) > 1, "LF3: the file that is written to is not removed"
        return self.files.pop(0)

    def close(self) -> None:
        """Close all files."""
        for file in self.files:
            if file.descriptor != NOT_OPEN:
                self._disk.close(file.descriptor)
                file.descriptor = NOT_OPEN
        if self._next_descriptor != NOT_OPEN:
            self._disk.close(self._next_descriptor)
            self._next_descriptor = NOT_OPEN

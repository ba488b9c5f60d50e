"""Files of discarded declarations and messages: written and read in pieces, synced at the end.

They are in a directory of the data directory, with the time of day in their names, and are never
removed or changed by the node; a file whose messages were published again gets another ending.

FD1. A complete file and its entry in the directory are on disk before `finish` returns.
FD2. Reading and writing hold one piece of `PIECE_BYTES`, or one record if that is larger.
FD3. Records are read as they were written: reading ends before the first damaged or cut-off one.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import msgspec

from leveret.broker.runtime.private_files import make_directory, opened
from leveret.cluster.partitions.leftovers.records import (
    HEAD,
    MAGIC,
    ChangeRecord,
    DeclaredRecord,
    DelayedRecord,
    EndRecord,
    ExchangeRecord,
    HeaderRecord,
    MessageRecord,
    QueueRecord,
    Record,
    decode,
    encode,
)

DIRECTORY = "discarded"
"""The directory's name in the data directory."""
ENDING, PUBLISHED = ".discarded", ".published"
PIECE_BYTES = 256 * 1024
COUNTED: tuple[type[Record], ...] = (
    ChangeRecord, DeclaredRecord, QueueRecord, MessageRecord, ExchangeRecord, DelayedRecord,
)  # fmt: skip
"""The kinds of records between the first one and the last one, in the order of `EndRecord`."""


class NotReadable(Exception):
    """A file was not written by a node, or its beginning is damaged."""


class DiscardedWriter:
    """Writes one file. All methods except `add` wait for the disk, so call them in a thread.

    path: the file's path. is_empty: nothing was added. gathered_bytes: bytes added and not written.
    """

    def __init__(self, directory: Path, header: HeaderRecord) -> None:
        self.path = directory
        self.gathered_bytes = 0
        self._directory = directory
        self._header = header
        self._gathered: list[bytes] = [MAGIC, *encode(header)]
        self._descriptor: int | None = None
        self._counts = dict.fromkeys(COUNTED, 0)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added."""
        return not any(self._counts.values())

    @property
    def counts(self) -> EndRecord:
        """The numbers of records added so far."""
        return EndRecord(*self._counts.values())

    def add(self, record: Record) -> None:
        """Gather a record."""
        self._counts[type(record)] += 1
        pieces = encode(record)
        self._gathered += pieces
        self.gathered_bytes += sum(map(len, pieces))

    def write(self) -> None:
        """Write the gathered records. Raises OSError."""
        if self._descriptor is None:
            self._descriptor = self._open()
        data = memoryview(b"".join(self._gathered))
        self._gathered.clear()
        self.gathered_bytes = 0
        while data:
            data = data[os.write(self._descriptor, data) :]

    def finish(self) -> None:
        """Write the rest and the end, and sync (FD1). Raises OSError."""
        self._gathered += encode(self.counts)
        self.write()
        assert self._descriptor is not None
        os.fdatasync(self._descriptor)
        self.close()
        for directory in (self._directory, self._directory.parent):
            descriptor = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Close the file; without `finish` it stays incomplete."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _open(self) -> int:
        """Create a file with a name that no other file has."""
        make_directory(self._directory)
        day = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._header.at_s))
        number = 1
        while any(
            (self._directory / f"{day}-{number}{ending}").exists() for ending in (ENDING, PUBLISHED)
        ):
            number += 1
        self.path = self._directory / f"{day}-{number}{ENDING}"
        return opened(str(self.path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)


class DiscardedReader:
    """Reads one file. It waits for the disk, so it is used in a thread.

    header: the first record. is_complete: the end was reached, and nothing is missing.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError and NotReadable."""
        self._file = path.open("rb")
        self.is_complete = False
        self._is_over = False
        magic = self._file.read(len(MAGIC))
        first = self._next() if magic == MAGIC else None
        if not isinstance(first, HeaderRecord):
            self.close()
            raise NotReadable(f"{path} is not a file of discarded declarations and messages")
        self.header = first

    def read(self) -> list[Record]:
        """Some records in their order; none at the end (FD2, FD3). Raises OSError."""
        records: list[Record] = []
        begun_at = self._file.tell()
        while not self._is_over and self._file.tell() - begun_at < PIECE_BYTES:
            record = self._next()
            if record is None:
                self._is_over = True
                break
            self.is_complete = isinstance(record, EndRecord)
            records.append(record)
        return records

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _next(self) -> Record | None:
        head = self._file.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        size, crc = HEAD.unpack(head)
        payload = self._file.read(size)
        if len(payload) < size or crc32(payload) != crc:
            return None
        try:
            return decode(payload)
        except (msgspec.ValidationError, msgspec.DecodeError):
            return None


def files(data_dir: Path) -> Iterator[Path]:
    """All files of a node, the oldest first."""
    directory = data_dir / DIRECTORY
    if directory.is_dir():
        for path in sorted(directory.iterdir()):
            if path.suffix in (ENDING, PUBLISHED):
                yield path


def note_published(path: Path) -> Path:
    """The messages of a file were published again: give it another ending. Raises OSError."""
    return path.rename(path.with_suffix(PUBLISHED))

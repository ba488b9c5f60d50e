"""Reads entries from a queue's segments, a run at a time, in the order of their positions.

Delta, which reads messages back into memory, and each cursor have a `SegmentEntries` of their own,
since it has the open file and the offset in it. They select the positions to read, and handle
messages that cannot be read.

Data in the system's page cache are read at once, in pieces of 256 KiB; for all other data a thread
waits for the disk (file_reads.py).
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from leveret.storage.bodies.message_store import MessageStore
from leveret.storage.contract.backing_queue import Unreadable
from leveret.storage.disk.disk import Disk, FileMissing, StoreError
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.log.large_records import LARGE_BODIES_BYTES
from leveret.storage.messages.formats import (
    PERSISTENT,
    STORED,
    FormatError,
    RunRecord,
    VersionError,
)
from leveret.storage.messages.message import (
    ENTRY_BYTES,
    Address,
    Entry,
    Header,
    Message,
    StoredBody,
)
from leveret.storage.segments.ledger import positions_of, segment_number
from leveret.storage.segments.segments import Lost, SegmentReader, SegmentWriter, segment_path


class MessageSource(Protocol):
    """The store (store.py) as reading messages needs it.

    disk_reads: messages that were read back, of all queues. reads: for callers that do not wait.
    """

    disk: Disk
    reads: FileReads
    disk_reads: int
    bodies: MessageStore
    make_header: Callable[[bytes], Header]

    def address(self, encoded: bytes) -> Address:
        """The address with these bytes."""

    def expires_at_ms(self, expires_wall_ms: int) -> int:
        """A time of the wall clock as one of the broker's clock; 0 stays 0."""


class RunHead(NamedTuple):
    """The common part of a run's messages. expires_at_ms: on the broker's clock."""

    address: Address
    header: Header
    expires_at_ms: int


def header_of(run: RunRecord, make_header: Callable[[bytes], Header]) -> Header:
    """The properties of a run's messages. The run says whether they are to survive a restart.

    Raises FormatError if they cannot be decoded.
    """
    try:
        header = make_header(run.header)
    except ValueError as error:
        raise FormatError(f"the properties of its messages cannot be decoded: {error}") from error
    if run.flags & PERSISTENT and not header.is_persistent:
        return header.as_persistent()
    return header


class SegmentEntries:
    """A reader of one queue's segments. It raises BeingRead instead of waiting for the disk."""

    __slots__ = ("_head", "_passed_to", "_reader", "_source", "_writer")

    def __init__(self, source: MessageSource, writer: SegmentWriter) -> None:
        self._source = source
        self._writer = writer
        self._reader = SegmentReader(source.disk, source.reads)
        self._passed_to = 0
        self._head: RunHead | None = None

    @property
    def path(self) -> Path:
        """The segment that is open."""
        return self._reader.path

    @property
    def offset(self) -> int:
        """The offset in that file of the run that was found."""
        return self._reader.offset

    def find(self, first: int) -> RunRecord | Lost | None:
        """The first run that does not end before a position, in the segment of that position.

        None at the segment's end; a Lost for damaged bytes, or for a run whose properties cannot be
        decoded; the next call skips them. Raises Unreadable if reading fails, or BeingRead, a
        subclass; FileMissing if there is no such file, and FormatError if it is not a segment. The
        next call starts again then.
        """
        try:
            found = self._find(first)
        except (FileMissing, FormatError, StoreError) as error:
            self.close()
            # The version that wrote this file can read it.
            if isinstance(error, FileMissing | FormatError) and not isinstance(error, VersionError):
                raise
            path = segment_path(self._writer.directory, segment_number(first))
            raise Unreadable(f"{path}: {error}") from error
        return self._with_head(found) if isinstance(found, RunRecord) else found

    def _with_head(self, run: RunRecord) -> RunRecord | Lost:
        """The run, after its address and properties were decoded."""
        source = self._source
        try:
            header = header_of(run, source.make_header)
        except FormatError:
            start = self._reader.offset
            self._reader.pass_over()
            return Lost(self._reader.path, start, self._reader.offset)
        expires_at_ms = source.expires_at_ms(run.expires_wall_ms)
        self._head = RunHead(source.address(run.address), header, expires_at_ms)
        return run

    def _find(self, first: int) -> RunRecord | Lost | None:
        reader, writer = self._reader, self._writer
        number = segment_number(first)
        if first < self._passed_to and reader.number == number:
            reader.close()
        size = writer.tail_bytes if number == writer.number else None
        reader.open(writer.directory, number, size)
        return reader.next_run(first)

    def pass_over(self, run: RunRecord) -> None:
        """Skip the run that was found."""
        self._passed_to = run.targets[0][1] + len(run.sizes)
        self._reader.pass_over()

    @property
    def head(self) -> RunHead:
        """The address, header and time to live of the messages of the run that was found."""
        assert self._head is not None, "find returns the run first"
        return self._head

    def bodies(self, run: RunRecord) -> list[bytes | None]:
        """The bodies of the run that was found; None for a damaged one.

        For a run with its bodies in the segment; `stored_body` is for all other runs.
        """
        return self._reader.bodies(run, 0, len(run.sizes))

    def close(self) -> None:
        """Close the file that is open."""
        self._reader.close()

    # For cursors

    def look(
        self, first: int, end: int, bytes_max: int, fetched_to: int
    ) -> tuple[list[Entry], int]:
        """Entries at positions from `first` up to, not including, `end`, all of which are on disk.

        They are from one run at most, and limited by `bytes_max` as in `Cursor.read`. fetched_to:
        entries below it are redelivered. Returns them and the position to continue at, which is
        above `first`; messages before it that are not among them are damaged. Raises Unreadable if
        the first one cannot be read now.
        """
        segment_end = positions_of(segment_number(first))[1]
        try:
            run = self.find(first)
            while isinstance(run, Lost):
                run = self.find(first)
            if run is None:
                return [], min(end, segment_end)
            return self._look_at(run, first, end, bytes_max, fetched_to)
        except (FileMissing, FormatError):
            return [], min(end, segment_end)

    def _look_at(
        self, run: RunRecord, first: int, end: int, bytes_max: int, fetched_to: int
    ) -> tuple[list[Entry], int]:
        run_start = run.targets[0][1]
        start, stop = max(first, run_start), min(end, run_start + len(run.sizes))
        if start >= stop:
            return [], end
        address, header, expires_at_ms = self.head
        entries: list[Entry] = []
        size, position = 0, start
        while position < stop and size < bytes_max:
            place = position - run_start
            stored = stored_body(run, place) if run.flags & STORED else None
            if stored is not None and entries and stored.size >= LARGE_BODIES_BYTES:
                break
            try:
                body = self._body(run, place, stored)
            except Unreadable:
                if not entries:
                    raise
                break
            if body is not None:
                message = Message(address, header, body, stored, run.number_at(place))
                entries.append(Entry(message, position, position < fetched_to, expires_at_ms))
                size += len(body) + ENTRY_BYTES
            position += 1
        if position == run_start + len(run.sizes):
            self.pass_over(run)
        return entries, position

    def _body(self, run: RunRecord, place: int, stored: StoredBody | None) -> bytes | None:
        if stored is None:
            return self._reader.bodies(run, place, place + 1)[0]
        bodies = self._source.bodies
        try:
            return bodies.read_soon([stored])[0]
        except FileMissing:
            return None
        except StoreError as error:
            raise Unreadable(str(error)) from error


def stored_body(run: RunRecord, place: int) -> StoredBody:
    """The stored body of the message at this index of a run with bodies in the message store."""
    file, offset = run.stored[2 * place : 2 * place + 2]
    return StoredBody(file, offset, run.sizes[place], run.crcs[place])

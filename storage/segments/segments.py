"""The segments of one queue: files of messages, in the order of their positions.

A segment holds the runs of `SEGMENT_POSITIONS` positions; its number is the first position divided
by that. A segment does not record which of its positions are gone: the ledger does (ledger.py), and
a reader gets the position to read from.

Writing has two steps: `SegmentWriter.plan` plans writes in the event loop, and a worker's thread
carries them out (planned_writes.py).

Invariants:

SG1  Positions in a queue's segments only grow: a segment is appended to and never begun again.
SG2  A record has positions of one segment only.
SG3  Only the first `tail_bytes` bytes of the last segment count; bytes after them were written
     after the STATE that a restart found, and are cut off.
SG4  No segment that counts has a higher number than the last one, even if the last one was removed:
     a restart removes segments with higher numbers.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from leveret.storage.bodies.planned_writes import PlannedWrite
from leveret.storage.disk.disk import Disk
from leveret.storage.disk.file_reads import READ_AHEAD_BYTES, FileReads
from leveret.storage.log.large_records import LargeRecord, LogRecord, joined
from leveret.storage.messages.checksum import crc32
from leveret.storage.messages.formats import (
    FILE_HEADER_BYTES,
    PERSISTENT,
    RUN,
    SEGMENT_MAGIC,
    RunRecord,
    ScannedRecord,
    decode_file_header,
    decode_run,
    encode_run,
    encode_stored_run,
    read_record,
    read_records,
    record_size,
)
from leveret.storage.messages.message import NO_CRC, Entry, Message, StoredBody
from leveret.storage.segments.ledger import SEGMENT_POSITIONS, segment_number

RUN_MESSAGES_MAX = 128
RUN_BYTES_MAX = 64 * 1024
"""Limits of a run, which is read and decoded as a whole."""
READ_BYTES = 256 * 1024


def segment_numbers(disk: Disk, directory: Path) -> list[int]:
    """The numbers of the segments in a directory, in order."""
    names = [Path(name) for name in disk.names_in(directory)]
    return [int(name.stem) for name in names if name.suffix == ".segment" and name.stem.isdigit()]


def segment_path(directory: Path, number: int) -> Path:
    """The path of a segment."""
    return directory / f"{number:010d}.segment"


class Lost(NamedTuple):
    """Bytes of a segment, from `offset` to `end` of the file, that cannot be read."""

    path: Path
    offset: int
    end: int


class SegmentWriter:
    """Plans the places of a queue's next messages.

    number, tail_bytes: the last segment for which writes were planned, which may be removed by
    now, and the number of its bytes that count after these writes. numbers: those of all existing
    segments. end: number and tail_bytes after the writes carried out so far, for a STATE.
    """

    __slots__ = ("directory", "end", "number", "numbers", "tail_bytes")

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.number = -1
        self.tail_bytes = 0
        self.numbers: set[int] = set()
        self.end = (self.number, self.tail_bytes)

    def path(self, number: int) -> Path:
        """The path of a segment of this queue."""
        return segment_path(self.directory, number)

    def written(self) -> None:
        """Note that planned writes were carried out. The bytes of failed writes do not count."""
        assert self.number >= max(self.numbers, default=-1), "SG4"
        self.end = (self.number, self.tail_bytes)

    def plan(
        self, entries: list[Entry], expires_wall_ms: list[int], key: int
    ) -> list[PlannedWrite]:
        """The writes for these entries, which are in the order of their positions.

        expires_wall_ms: one for each entry. key: the queue's.
        """
        writes: list[PlannedWrite] = []
        pieces: list[LogRecord] = []
        for start, end in _runs_of(entries, expires_wall_ms):
            number = segment_number(entries[start].position)
            if number != self.number:
                self._finish(writes, pieces)
                assert number > self.number, "SG1: a segment is never begun again"
                self.number, self.tail_bytes = number, 0
            _encode(pieces, entries[start:end], expires_wall_ms[start], key)
        self._finish(writes, pieces)
        return writes

    def _finish(self, writes: list[PlannedWrite], pieces: list[LogRecord]) -> None:
        if not pieces:
            return
        data = joined(pieces)
        pieces.clear()
        is_new = self.tail_bytes == 0
        offset = FILE_HEADER_BYTES if is_new else self.tail_bytes
        self.tail_bytes = offset + sum(map(len, data))
        self.numbers.add(self.number)
        writes.append(
            PlannedWrite(self.path(self.number), SEGMENT_MAGIC, self.number, is_new, offset, data)
        )


def _runs_of(entries: list[Entry], expires_wall_ms: list[int]) -> Iterator[tuple[int, int]]:
    """Which entries share a record: (start, end) pairs of list indexes (SG2)."""
    start, size = 0, 0
    position, message, expires, number = -1, None, 0, 0
    for place, entry in enumerate(entries):
        other = entry.message
        if (
            entry.position != position
            or message is None
            or other.header is not message.header
            or other.address is not message.address
            or (other.stored is None) != (message.stored is None)
            or expires_wall_ms[place] != expires
            or other.number != number
            or place - start >= RUN_MESSAGES_MAX
            or size > RUN_BYTES_MAX
            or not position % SEGMENT_POSITIONS
        ):
            if place > start:
                yield start, place
            start, size, message, expires = place, 0, other, expires_wall_ms[place]
        position = entry.position + 1
        number = other.number and other.number + 1
        size += len(other.body)
    if start < len(entries):
        yield start, len(entries)


def _encode(pieces: list[LogRecord], entries: list[Entry], expires_wall_ms: int, key: int) -> None:
    first = entries[0]
    message = first.message
    flags = PERSISTENT if message.header.is_persistent else 0
    target = (key, first.position)
    address, header = message.address.encoded, message.header.stored
    if message.stored is None:
        bodies = [entry.message.body for entry in entries]
        pieces.append(
            encode_run(expires_wall_ms, flags, [target], address, header, bodies, message.number)
        )
        pieces += bodies
        return
    encode = partial(encode_stored_run, expires_wall_ms, flags, target, address, header)
    stored = [entry.message.stored for entry in entries if entry.message.stored is not None]
    if all(body.crc != NO_CRC for body in stored):
        pieces.append(encode(stored, message.number))
        return
    size = len(encode([body._replace(crc=0) for body in stored], message.number))
    messages = [entry.message for entry in entries]
    pieces.append(LargeRecord(size, lambda: encode([*map(_checked, messages)], message.number), []))


def _checked(message: Message) -> StoredBody:
    """The place of a message's body, with its checksum. For a worker's thread."""
    stored = message.stored
    assert stored is not None, "MS2: a body is planned before the entry that refers to it"
    if stored.crc == NO_CRC:
        stored = message.stored = stored._replace(crc=crc32(message.body))
    return stored


class SegmentReader:
    """Reads a queue's segments in order, a run at a time. It keeps its offset between calls.

    It also keeps the file open; if very many readers do, it opens the file for each read.

    Methods that read raise BeingRead while a thread reads for them (file_reads.py). They have then
    changed nothing, and must be called again.
    """

    __slots__ = (
        "_ahead_to", "_at", "_base", "_buffer", "_descriptor", "_disk", "_found", "_reads",
        "_size", "number", "path",
    )  # fmt: skip

    def __init__(self, disk: Disk, reads: FileReads) -> None:
        self._disk = disk
        self._reads = reads
        self.number = -1
        self.path = Path()
        self._descriptor = -1
        self._size = self._ahead_to = 0
        self._base = self._at = 0
        self._buffer = b""
        self._found: ScannedRecord | None = None

    def open(self, directory: Path, number: int, size: int | None) -> None:
        """Open a segment, of which `size` bytes count, or all; if it is open, stay at the offset.

        Raises StoreError if it is missing, FormatError if its header is damaged.
        """
        if number != self.number:
            self.close()
            self._open(segment_path(directory, number), size)
            self.number = number
        # The last writes planned for a segment may run after the next segment was begun.
        self._size = self._disk.size(self.path) if size is None else size

    def _open(self, path: Path, size: int | None) -> None:
        beginning = READ_BYTES if size is None else min(size, READ_BYTES)
        buffer = self._reads.read(path, -1, 0, beginning)
        decode_file_header(buffer, SEGMENT_MAGIC)
        descriptor = self._disk.open(path)
        self._descriptor = descriptor if self._disk.keep_open(descriptor) else -1
        self.path, self._ahead_to = path, READ_AHEAD_BYTES
        self._base, self._at, self._buffer = 0, FILE_HEADER_BYTES, buffer

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            self._disk.close_kept(self._descriptor)
        self._descriptor = self.number = -1
        self._buffer = b""
        self._found = None

    @property
    def offset(self) -> int:
        """The offset in the file of the next record."""
        return self._base + self._at

    def next_run(self, first: int) -> RunRecord | Lost | None:
        """The next run that does not end before the position `first`; None at the segment's end.

        Damaged bytes are skipped and returned as `Lost`. The run stays the next one until
        `pass_over`, or until `first` is beyond its end.
        """
        while self.offset < self._size:
            record = self._record()
            if record is None:
                return self._pass_damage()
            self._found = record
            if record.kind == RUN:
                run = decode_run(record.head)
                if run.targets[0][1] + len(run.sizes) > first:
                    return run
            self._at = record.end
        return None

    def bodies(self, run: RunRecord, start: int, end: int) -> list[bytes | None]:
        """The bodies of the messages from index `start` to `end` of the run that was returned.

        None stands for a damaged body.
        """
        assert self._found is not None, "next_run returns the run first"
        buffer, offset = self._buffer, self._found.body_offset + sum(run.sizes[:start])
        bodies: list[bytes | None] = []
        for length, crc in zip(run.sizes[start:end], run.crcs[start:end], strict=True):
            body = buffer[offset : offset + length]
            bodies.append(body if crc32(body) == crc else None)
            offset += length
        return bodies

    def pass_over(self) -> None:
        """Skip the run that `next_run` returned."""
        assert self._found is not None, "next_run returns the run first"
        self._at = self._found.end

    def _record(self) -> ScannedRecord | None:
        record = read_record(self._buffer, self._at)
        if record is None:
            self._fill(max(READ_BYTES, record_size(self._buffer, self._at)))
            record = read_record(self._buffer, 0)
        wanted = record_size(self._buffer, 0)
        if record is None and len(self._buffer) < wanted <= self._size - self._base:
            self._fill(wanted)
            record = read_record(self._buffer, 0)
        return record

    def _fill(self, size: int) -> None:
        base = self.offset
        buffer = self._read(base, min(size, self._size - base))
        self._base, self._at, self._buffer = base, 0, buffer
        end = base + len(buffer)
        if end + READ_AHEAD_BYTES // 2 > self._ahead_to and end < self._size:
            self._ahead_to = end + READ_AHEAD_BYTES
            self._reads.will_read(self.path, end)

    def _read(self, offset: int, size: int) -> bytes:
        return self._reads.read(self.path, self._descriptor, offset, size)

    def _pass_damage(self) -> Lost:
        """Skip to the next whole record."""
        start, size = self.offset, self._size - self.offset
        rest = self._read(start, size)
        damage = next(read_records(rest, 0), None)
        end = start + damage.end if damage is not None and len(rest) == size else self._size
        self._base, self._at, self._buffer = end, 0, b""
        return Lost(self.path, start, end)

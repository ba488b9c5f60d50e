"""The segments of one queue: where its messages are when neither memory nor the log has them.

A segment holds the runs of `SEGMENT_POSITIONS` positions, in the order of the positions; its number
is the first position divided by that. It is only ever appended to, and removed when nothing in it
is needed. What of it is gone is known elsewhere (tiered_queue.py), so a reader is told what to look
for.

Writing is in two steps. In the event loop `plan` puts together what is to be written, and where;
then a worker's thread writes it (parts.py).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from storage.disk import Disk
from storage.formats import (
    FILE_HEADER_BYTES,
    PERSISTENT,
    RUN,
    SEGMENT_MAGIC,
    Record,
    Run,
    decode_file_header,
    decode_run,
    encode_run,
    encode_stored_run,
    read_record,
    read_records,
    record_size,
)
from storage.ledger import SEGMENT_POSITIONS, segment_number
from storage.message import Entry
from storage.parts import Part

RUN_MESSAGES_MAX = 128
RUN_BYTES_MAX = 64 * 1024
"""A run is read in one go, so it is not to be long."""
READ_BYTES = 256 * 1024
READ_AHEAD_BYTES = 4 * 1024 * 1024
"""What a reader asks the system to have ready, so that reading does not wait for the disk."""


def segment_numbers(disk: Disk, directory: Path) -> list[int]:
    """The numbers of the segments that there are, in order."""
    names = [Path(name) for name in disk.names_in(directory)]
    return [int(name.stem) for name in names if name.suffix == ".segment" and name.stem.isdigit()]


def segment_path(directory: Path, number: int) -> Path:
    """The file of a segment."""
    return directory / f"{number:010d}.segment"


class Lost(NamedTuple):
    """A part of a segment, from `offset` to `end` of the file, that cannot be read."""

    path: Path
    offset: int
    end: int


class SegmentWriter:
    """Where the next message of a queue goes. tail_bytes: how much of the last segment counts."""

    __slots__ = ("directory", "number", "numbers", "tail_bytes")

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.number = -1
        self.tail_bytes = 0
        self.numbers: set[int] = set()
        """The segments that there are."""

    def path(self, number: int) -> Path:
        """The file of a segment."""
        return segment_path(self.directory, number)

    def plan(self, entries: list[Entry], expires_wall_ms: list[int], key: int) -> list[Part]:
        """What has to be written for these entries, which are in the order of their positions."""
        parts: list[Part] = []
        pieces: list[bytes] = []
        for start, end in _runs_of(entries, expires_wall_ms):
            number = segment_number(entries[start].position)
            if number != self.number:
                self._finish(parts, pieces)
                assert number > self.number, "a segment is never begun again"
                self.number, self.tail_bytes = number, 0
            _encode(pieces, entries[start:end], expires_wall_ms[start], key)
        self._finish(parts, pieces)
        return parts

    def _finish(self, parts: list[Part], pieces: list[bytes]) -> None:
        if not pieces:
            return
        data = b"".join(pieces)
        pieces.clear()
        is_new = self.tail_bytes == 0
        offset = FILE_HEADER_BYTES if is_new else self.tail_bytes
        self.tail_bytes = offset + len(data)
        self.numbers.add(self.number)
        parts.append(Part(self.path(self.number), SEGMENT_MAGIC, self.number, is_new, offset, data))


def _runs_of(entries: list[Entry], expires_wall_ms: list[int]) -> Iterator[tuple[int, int]]:
    """Which entries can share a record: (start, end) pairs of places in the list."""
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


def _encode(pieces: list[bytes], entries: list[Entry], expires_wall_ms: int, key: int) -> None:
    first = entries[0]
    message = first.message
    flags = PERSISTENT if message.header.is_persistent else 0
    target = (key, first.position)
    address, header = message.address.encoded, message.header.raw
    if message.stored is None:
        bodies = [entry.message.body for entry in entries]
        pieces.append(
            encode_run(expires_wall_ms, flags, [target], address, header, bodies, message.number)
        )
        pieces += bodies
        return
    stored = [entry.message.stored for entry in entries if entry.message.stored is not None]
    places = [(body.number, body.offset, body.size, body.crc) for body in stored]
    pieces.append(
        encode_stored_run(expires_wall_ms, flags, target, address, header, places, message.number)
    )


class SegmentReader:
    """Reads a queue's segments in order, a little at a time.

    It keeps its place, so that going on where it stopped costs no search.
    """

    __slots__ = (
        "_at", "_base", "_buffer", "_descriptor", "_disk", "_found", "_size", "number", "path",
    )  # fmt: skip

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.number = -1
        self.path = Path()
        self._descriptor = -1
        self._size = 0
        self._base = self._at = 0
        self._buffer = b""
        self._found: Record | None = None

    def open(self, directory: Path, number: int, size: int) -> None:
        """Go to the beginning of a segment, of which `size` bytes count; stay if it is open.

        Raises StoreError if it is missing, FormatError if it cannot be understood.
        """
        if number == self.number:
            self._size = size
            return
        self.close()
        path = segment_path(directory, number)
        descriptor = self._disk.open(path)
        try:
            header = self._disk.read_from(descriptor, path, 0, FILE_HEADER_BYTES)
            decode_file_header(header, SEGMENT_MAGIC)
        except BaseException:
            self._disk.close(descriptor)
            raise
        self.path, self.number, self._descriptor, self._size = path, number, descriptor, size
        self._base, self._at, self._buffer = FILE_HEADER_BYTES, 0, b""
        self._disk.will_read(descriptor, 0, READ_AHEAD_BYTES)

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            self._disk.close(self._descriptor)
        self._descriptor = self.number = -1
        self._buffer = b""
        self._found = None

    @property
    def offset(self) -> int:
        """Where in the file reading goes on."""
        return self._base + self._at

    def next_run(self, first: int) -> Run | Lost | None:
        """The next run that does not end before the position `first`; None at the segment's end.

        What cannot be read is passed over, and said. The run's bodies are to be taken with
        `bodies` before the next call.
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

    def bodies(self, run: Run) -> list[bytes | None]:
        """The bodies of the run that was found; None for one that is damaged."""
        assert self._found is not None
        buffer, offset = self._buffer, self._found.body_offset
        bodies: list[bytes | None] = []
        for length, crc in zip(run.sizes, run.crcs, strict=True):
            body = buffer[offset : offset + length]
            bodies.append(body if crc32(body) == crc else None)
            offset += length
        self.pass_over()
        return bodies

    def pass_over(self) -> None:
        """Go on behind the run that was found."""
        assert self._found is not None
        self._at = self._found.end

    def _record(self) -> Record | None:
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
        self._base, self._at = self.offset, 0
        size = min(size, self._size - self._base)
        self._buffer = self._disk.read_from(self._descriptor, self.path, self._base, size)
        self._disk.will_read(self._descriptor, self._base + size, READ_AHEAD_BYTES)

    def _pass_damage(self) -> Lost:
        """Go on at the next whole record."""
        start, size = self.offset, self._size - self.offset
        rest = self._disk.read_from(self._descriptor, self.path, start, size)
        damage = next(read_records(rest, 0), None)
        end = start + damage.end if damage is not None and len(rest) == size else self._size
        self._base, self._at, self._buffer = end, 0, b""
        return Lost(self.path, start, end)

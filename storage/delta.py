"""Delta: the messages of a queue that are on disk only.

Delta is a set of positions; nothing else is known of a message in it. Its messages come back in
order, a run at a time, each run read into memory as the consumers get near it. A run whose bodies
are in the message store comes back without them at first (the queue's third part, q3), and the
bodies follow.

Reading is done in the event loop, in small pieces, and the system is asked to read ahead: a piece
is nearly always in memory already, and costs less than handing it to a thread and back would.

What cannot be read is lost: it is logged with its file and place, and leaves the queue, so that the
rest can be had.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from storage.disk import Disk, StoreError
from storage.formats import STORED, FormatError, Run
from storage.intervals import Intervals
from storage.ledger import Ledger, positions_of, segment_number
from storage.message import Address, Entry, Header, Message, StoredBody
from storage.message_store import MessageStore
from storage.segments import Lost, SegmentReader, SegmentWriter, segment_path

NO_POSITION = 1 << 62
"""Above all positions."""
BODIES_BYTES = 256 * 1024
"""How much of large bodies is read at once, if it is more than one."""

logger = logging.getLogger("leveret.store")


class Librarian(Protocol):
    """What is needed to make messages of bytes."""

    disk: Disk
    bodies: MessageStore
    make_header: Callable[[bytes], Header]

    def address(self, encoded: bytes) -> Address:
        """The address with these bytes."""

    def expires_at_ms(self, expires_wall_ms: int) -> int:
        """A time of day on the broker's clock; 0 stays 0."""


class Bodiless(NamedTuple):
    """A message that was read back but for its body."""

    position: int
    expires_at_ms: int
    address: Address
    header: Header
    stored: StoredBody
    number: int


class Delta:
    """What of a queue is on disk only.

    positions: of what is on disk and not in `bodiless` (q3), which comes before.
    size: the bytes of the bodies of both.
    lost: called with how many messages, and how many bytes of bodies, were lost.
    """

    __slots__ = (
        "_ledger",
        "_librarian",
        "_name",
        "_read_to",
        "_reader",
        "_writer",
        "bodiless",
        "lost",
        "positions",
        "size",
    )  # fmt: skip

    def __init__(
        self, librarian: Librarian, ledger: Ledger, writer: SegmentWriter, name: str
    ) -> None:
        self._librarian = librarian
        self._ledger = ledger
        self._writer = writer
        self._name = name
        self._reader: SegmentReader | None = None
        self._read_to = 0
        self.positions = Intervals()
        self.bodiless: deque[Bodiless] = deque()
        self.size = 0
        self.lost: Callable[[int, int], object] = lambda count, size: None

    @property
    def count(self) -> int:
        """Messages that are on disk only."""
        return self.positions.count + len(self.bodiless)

    @property
    def first(self) -> int:
        """The lowest position. There must be one."""
        if self.bodiless:
            return self.bodiless[0].position
        return self.positions.first

    def put_out(self, entries: list[Entry]) -> int:
        """Entries that are in segments are dropped from memory; the bytes of their bodies."""
        self._put_back()
        size = 0
        start = end = entries[0].position
        for entry in entries:
            if entry.position != end:
                self.positions.add_range(start, end)
                start = entry.position
            end = entry.position + 1
            size += len(entry.message.body)
        self.positions.add_range(start, end)
        self.size += size
        return size

    def _put_back(self) -> None:
        """What was read without its body is on disk as it was."""
        for message in self.bodiless:
            self.positions.add_range(message.position, message.position + 1)
        self.bodiless.clear()

    def clear(self) -> Intervals:
        """All of it is to go: the positions."""
        self._put_back()
        positions, self.positions = self.positions, Intervals()
        self.size = 0
        self.close()
        return positions

    def look(self) -> Iterator[Entry]:
        """All of it in order, left where it is."""
        ledger = Ledger(self._ledger.key)
        ledger.fetched_to = self._ledger.fetched_to
        other = Delta(self._librarian, ledger, self._writer, self._name)
        other.positions = self.positions.copy()
        for message in self.bodiless:
            other.positions.add_range(message.position, message.position + 1)
        while entries := other.read(NO_POSITION):
            yield from entries

    def close(self) -> None:
        """Let go of the file that is being read."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # Reading

    def read(self, before: int) -> list[Entry]:
        """The next messages, in order, with positions below `before`; none at the end of delta."""
        while self.count and self.first < before:
            entries = self._read_bodies() if self.bodiless else self._read_run()
            if entries:
                return entries
        if not self.count:
            self.size = 0
            self.close()
        return []

    def _read_run(self) -> list[Entry]:
        first = self.positions.first
        number = segment_number(first)
        try:
            run = self._find_run(number, first)
        except (StoreError, FormatError) as error:
            self._lose(*positions_of(number), f"the rest of its segment {number}", str(error))
            self.close()
            if number != self._writer.number:
                # Not to be removed now that nothing of it is needed: another version may read it.
                self._writer.numbers.discard(number)
            return []
        if run is None:
            path = segment_path(self._writer.directory, number)
            self._lose(*positions_of(number), str(path), "they are not in it")
            return []
        if isinstance(run, Lost):
            logger.error(
                "%s is damaged from offset %d to %d: messages of %s are lost",
                run.path, run.offset, run.end, self._name,
            )  # fmt: skip
            return []
        self._lose(first, run.targets[0][1], str(self._reader_path), "they are not in it")
        return self._entries_of(run)

    @property
    def _reader_path(self) -> Path:
        return self._reader.path if self._reader is not None else Path()

    def _find_run(self, number: int, first: int) -> Run | Lost | None:
        if self._reader is None:
            self._reader = SegmentReader(self._librarian.disk)
        reader, writer = self._reader, self._writer
        if first < self._read_to and reader.number == number:
            reader.close()
        if number == writer.number:
            size = writer.tail_bytes
        else:
            size = self._librarian.disk.size(segment_path(writer.directory, number))
        reader.open(writer.directory, number, size)
        return reader.next_run(first)

    def _entries_of(self, run: Run) -> list[Entry]:
        assert self._reader is not None
        start = run.targets[0][1]
        end = start + len(run.sizes)
        self._read_to = end
        # A run that begins below what is wanted was read in part before.
        wanted = list(self.positions.within(start, end))
        self.positions.remove_range(start, end)
        if run.flags & STORED:
            self._reader.pass_over()
            self._take_bodiless(run, start, wanted)
            return []
        path, offset = self._reader.path, self._reader.offset
        bodies = self._reader.bodies(run)
        librarian = self._librarian
        address, header = librarian.address(run.address), librarian.make_header(run.header)
        expires_at_ms = librarian.expires_at_ms(run.expires_wall_ms)
        fetched_to = self._ledger.fetched_to
        entries = []
        for first, last in wanted:
            for position in range(first, last):
                body = bodies[position - start]
                if body is None:
                    self._lose_body(position, run.sizes[position - start], path, offset)
                    continue
                number = run.number_at(position - start)
                message = Message(address, header, body, None, number)
                entries.append(Entry(message, position, position < fetched_to, expires_at_ms))
                self.size -= len(body)
        return entries

    def _take_bodiless(self, run: Run, start: int, wanted: list[tuple[int, int]]) -> None:
        librarian = self._librarian
        address, header = librarian.address(run.address), librarian.make_header(run.header)
        expires_at_ms = librarian.expires_at_ms(run.expires_wall_ms)
        for first, last in wanted:
            for position in range(first, last):
                place = position - start
                file, offset = run.stored[2 * place : 2 * place + 2]
                stored = StoredBody(file, offset, run.sizes[place], run.crcs[place])
                number = run.number_at(place)
                self.bodiless.append(
                    Bodiless(position, expires_at_ms, address, header, stored, number)
                )

    def _read_bodies(self) -> list[Entry]:
        """Give the first messages of q3 their bodies."""
        entries: list[Entry] = []
        size = 0
        bodies = self._librarian.bodies
        while self.bodiless and size < BODIES_BYTES:
            found = self.bodiless.popleft()
            stored = found.stored
            try:
                body = bodies.read(stored)
            except StoreError as error:
                body = None
                logger.error("%s", error)
            if body is None:
                self._lose_body(found.position, stored.size, bodies.path_of(stored), stored.offset)
                continue
            message = Message(found.address, found.header, body, stored, found.number)
            redelivered = found.position < self._ledger.fetched_to
            entries.append(Entry(message, found.position, redelivered, found.expires_at_ms))
            size += len(body)
            self.size -= len(body)
        return entries

    # Losing

    def _lose_body(self, position: int, size: int, path: Path, offset: int) -> None:
        logger.error(
            "%s is damaged near offset %d: message %d of %s, of %d bytes, is lost",
            path, offset, position, self._name, size,
        )  # fmt: skip
        self.size -= size
        self._ledger.fresh.add_range(position, position + 1)
        self._ledger.left_segment(position, size)
        self.lost(1, size)

    def _lose(self, start: int, end: int, where: str, why: str) -> None:
        """Give up the positions from `start` to `end` that should be on disk."""
        missing = list(self.positions.within(start, end))
        count = sum(last - first for first, last in missing)
        if not count:
            return
        logger.error("%d messages of %s are lost, from %s: %s", count, self._name, where, why)
        size = self.size * count // max(1, self.count)
        self.positions.remove_range(start, end)
        self.size -= size
        for first, last in missing:
            self._ledger.fresh.add_range(first, last)
        self._ledger.left_uncounted(size)
        self.lost(count, size)

    def lose_segment(self, number: int) -> None:
        """A segment that should be there is missing."""
        path = segment_path(self._writer.directory, number)
        self._lose(*positions_of(number), str(path), "the file is missing")

"""Delta: the messages of a queue that are on disk only.

Delta is a set of positions; nothing else of its messages is in memory. They are read back in order,
a run at a time, as consumers get near them. A run whose bodies are in the message store is read
without them at first (q3), and the bodies are read later.

**Promises.** A message in delta costs no memory. `read` returns its messages in the order of their
positions, each once, and reads one run of a segment, or BODIES_BYTES of large bodies, at a time.

**Not promised.** That a message is intact. A message with a wrong checksum, or in a missing file,
is lost: its file and offset are logged and it is removed from the queue, so that the messages after
it can be delivered. A read that fails for another reason proves nothing about the message, which
stays in place: `Unreadable` is raised, and the next call reads again.

Invariants:

E1  A position in delta is in no other part of the queue in memory.
E2  Every position in delta is below the ledger's `flushed_to`, and is not gone: it is in a segment.
E3  `bodiless` is in the order of positions, and below all of `positions`.
E4  `size` is the sum of the bodies of all messages in delta; 0 when there are none.
E5  A message leaves delta only with its body, or because a read has proved that it is lost.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from leveret.storage.contract.backing_queue import Unreadable
from leveret.storage.disk.disk import FileMissing, StoreError
from leveret.storage.messages.formats import STORED, FormatError, RunRecord
from leveret.storage.messages.intervals import NO_POSITION, Intervals
from leveret.storage.messages.message import Address, Entry, Header, Message, StoredBody
from leveret.storage.queue.segment_entries import MessageSource, SegmentEntries, stored_body
from leveret.storage.segments.ledger import Ledger, positions_of, segment_number
from leveret.storage.segments.segments import Lost, SegmentWriter, segment_path

BODIES_BYTES = 256 * 1024
"""The bytes of bodies read from the message store at once; at least one body is read."""

logger = logging.getLogger("leveret.store")


class Bodiless(NamedTuple):
    """A message that was read back without its body."""

    position: int
    expires_at_ms: int
    address: Address
    header: Header
    stored: StoredBody
    number: int


class Delta:
    """The messages of one queue that are on disk only.

    bodiless: q3. positions: those of all other messages, which come after q3.
    size: the bytes of the bodies of both. reads: messages that were read back since the start.
    lost: called with the number of lost messages, and the bytes of their bodies.
    """

    __slots__ = (
        "_ledger", "_middle", "_name", "_segments", "_source", "_writer", "bodiless", "lost",
        "positions", "reads", "size",
    )  # fmt: skip

    def __init__(
        self, source: MessageSource, ledger: Ledger, writer: SegmentWriter, name: str
    ) -> None:
        self._source = source
        self._ledger = ledger
        self._writer = writer
        self._name = name
        self._segments = SegmentEntries(source, writer)
        # For `take_at`, which continues where it was.
        self._middle: SegmentEntries | None = None
        self.positions = Intervals()
        self.bodiless: deque[Bodiless] = deque()
        self.size = self.reads = 0
        self.lost: Callable[[int, int], object] = lambda count, size: None

    @property
    def count(self) -> int:
        """The number of messages on disk only."""
        return self.positions.count + len(self.bodiless)

    @property
    def first(self) -> int:
        """The lowest position. Delta must not be empty."""
        if self.bodiless:
            return self.bodiless[0].position
        return self.positions.first

    def next_range(self, position: int) -> tuple[int, int]:
        """The first consecutive positions from `position` on that are in delta: the lowest, and
        one more than the highest; NO_POSITION twice if there are none.
        """
        for message in self.bodiless:
            if message.position >= position:
                return message.position, message.position + 1
        return next(self.positions.within(position, NO_POSITION), (NO_POSITION, NO_POSITION))

    def put_out(self, entries: list[Entry]) -> int:
        """Add entries that are in segments and leave memory; returns the bytes of their bodies.

        They are in the order of their positions.
        """
        assert entries[-1].position < self._ledger.flushed_to, "E2"
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
        """Move the messages that were read without their bodies (q3) back to `positions`."""
        for message in self.bodiless:
            self.positions.add_range(message.position, message.position + 1)
        self.bodiless.clear()

    def reader(self) -> SegmentEntries:
        """A reader of the queue's segments with a position of its own."""
        return SegmentEntries(self._source, self._writer)

    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        """Take entries that a reader has read back into memory, if they are in delta.

        entries: in the order of their positions.
        """
        self._put_back()
        taken = [entry for entry in entries if entry.position in self.positions]
        for entry in taken:
            self.positions.remove_range(entry.position, entry.position + 1)
            self.size -= len(entry.message.body)
            entry.redelivered = entry.position < self._ledger.fetched_to
        return taken

    def take_at(self, positions: Sequence[int]) -> list[Entry]:
        """Read the messages at these positions that are in delta back into memory.

        positions: in order. Calls with growing positions read a segment from its beginning to its
        end, once. Raises Unreadable, and takes none then. A damaged message stays in delta until it
        is read in its turn.
        """
        if not self.count:
            return []
        self._put_back()
        found: list[Entry] = []
        fetched_to = self._ledger.fetched_to
        if self._middle is None:
            self._middle = self.reader()
        for position in positions:
            if position in self.positions:
                found += self._middle.look(position, position + 1, 1, fetched_to)[0]
        return self.take(found) if found else found

    def clear(self) -> Intervals:
        """Forget all messages; returns their positions."""
        self._put_back()
        positions, self.positions = self.positions, Intervals()
        self.size = 0
        self.close()
        return positions

    def close(self) -> None:
        """Close the files that are being read."""
        self._segments.close()
        if self._middle is not None:
            self._middle.close()
            self._middle = None

    # Reading

    def read(self, before: int) -> list[Entry]:
        """The next messages, in order, with positions below `before`; none at the end of delta.

        Raises Unreadable if the first one cannot be read now (E5), BeingRead if that takes long.
        """
        while self.count and self.first < before:
            entries = self._read_bodies() if self.bodiless else self._read_run()
            if entries:
                self.reads += len(entries)
                self._source.disk_reads += len(entries)
                return entries
        if not self.count:
            self.size = 0
            self.close()
        return []

    def _read_run(self) -> list[Entry]:
        first = self.positions.first
        number = segment_number(first)
        path = segment_path(self._writer.directory, number)
        try:
            run = self._segments.find(first)
        except (FileMissing, FormatError) as error:
            self._lose(*positions_of(number), f"the rest of {path}", str(error))
            if number != self._writer.number:
                # The file is kept: a repair may find intact messages in it.
                self._writer.numbers.discard(number)
            return []
        if run is None:
            self._lose(*positions_of(number), str(path), "they are not in it")
            return []
        if isinstance(run, Lost):
            logger.error(
                "%s is damaged from offset %d to %d: messages of %s are lost",
                run.path, run.offset, run.end, self._name,
            )  # fmt: skip
            return []
        self._lose(first, run.targets[0][1], str(self._segments.path), "they are not in it")
        return self._entries_of(run)

    def _entries_of(self, run: RunRecord) -> list[Entry]:
        start = run.targets[0][1]
        end = start + len(run.sizes)
        # If a run begins below the wanted position, its first messages were read before.
        wanted = list(self.positions.within(start, end))
        self.positions.remove_range(start, end)
        if run.flags & STORED:
            self._segments.pass_over(run)
            self._take_bodiless(run, start, wanted)
            return []
        path, offset = self._segments.path, self._segments.offset
        bodies = self._segments.bodies(run)
        self._segments.pass_over(run)
        address, header, expires_at_ms = self._segments.head
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

    def _take_bodiless(self, run: RunRecord, start: int, wanted: list[tuple[int, int]]) -> None:
        address, header, expires_at_ms = self._segments.head
        for first, last in wanted:
            for position in range(first, last):
                place = position - start
                stored, number = stored_body(run, place), run.number_at(place)
                self.bodiless.append(
                    Bodiless(position, expires_at_ms, address, header, stored, number)
                )

    def _read_bodies(self) -> list[Entry]:
        """Read the bodies of the first messages of q3 that are near each other."""
        wanted = self._near_bodies()
        try:
            bodies = self._source.bodies.read_soon(wanted)
        except FileMissing as error:
            bodies = [None] * len(wanted)
            logger.error("%s", error)
        except StoreError as error:
            raise Unreadable(str(error)) from error
        entries: list[Entry] = []
        for stored, body in zip(wanted, bodies, strict=True):
            found = self.bodiless.popleft()
            if body is None:
                path = self._source.bodies.path_of(stored)
                self._lose_body(found.position, stored.size, path, stored.offset)
                continue
            message = Message(found.address, found.header, body, stored, found.number)
            redelivered = found.position < self._ledger.fetched_to
            entries.append(Entry(message, found.position, redelivered, found.expires_at_ms))
            self.size -= len(body)
        return entries

    def _near_bodies(self) -> list[StoredBody]:
        """The first bodies of q3 within BODIES_BYTES of one file; at least one."""
        first = self.bodiless[0].stored
        near = [first]
        end = first.offset + first.size
        for found in islice(self.bodiless, 1, None):
            stored = found.stored
            after = stored.offset + stored.size
            is_near = stored.number == first.number and stored.offset >= end
            if not is_near or after - first.offset > BODIES_BYTES:
                break
            near.append(stored)
            end = after
        return near

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
        """Count the messages in delta from `start` to `end` as lost."""
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
        self._ledger.lost(size)
        self.lost(count, size)

    def lose_segments(self, first: int, last: int) -> None:
        """Lose the positions in delta of missing segments, from one number to another."""
        start, end = positions_of(first)[0], positions_of(last)[1]
        path = segment_path(self._writer.directory, first)
        if first == last:
            self._lose(start, end, str(path), "the file is missing")
            return
        files = f"{path} to {segment_path(self._writer.directory, last)}"
        self._lose(start, end, files, "the files are missing")

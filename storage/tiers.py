"""The parts of a tiered queue, and what moves messages between memory and disk.

See `tiered_queue.py` for what the parts are and how a message gets from one to the next. Here is
what the pager and the log ask of a queue: what is next to be written, what may be dropped from
memory, what is gone.

Writing to segments goes along the queue's positions, in slices: `plan_slice` says what is next,
and `slice_written` is told when it is on disk. The ledger has what must be known at a restart.
"""

from collections import deque
from heapq import heapify
from pathlib import Path
from typing import NamedTuple, Protocol

from storage.delta import Delta, Librarian
from storage.intervals import Intervals
from storage.ledger import Ledger, positions_of, segment_number
from storage.log import Log
from storage.message import Entry
from storage.parts import Part
from storage.segments import SegmentWriter

ENTRY_BYTES = 260
"""What a message in memory costs beside its body, about."""
NOTE_BYTES = 128 * 1024
"""The pager is told of a queue each time so much has been published to it."""
EVERYTHING = 1 << 62


class Home(Librarian, Protocol):
    """What a tiered queue needs of the store it is in.

    embed_below: a body with fewer bytes is kept in segments. wall_offset_ms: what is to be added to
    a time of the broker's clock to get the time of day. disk_reads, disk_writes: messages of all
    queues.
    """

    log: Log
    disk_reads: int
    disk_writes: int
    embed_below: int
    wall_offset_ms: int

    def note_memory(self, queue: "Tiers") -> None:
        """The queue may have grown."""

    def segments_unneeded(self, queue: "Tiers", paths: list[Path]) -> None:
        """Segments may be removed, once the log has on disk why."""

    def forget(self, queue: "Tiers") -> None:
        """The queue is deleted."""


class Slice(NamedTuple):
    """What is written to segments in one go. end: the position up to which that is everything."""

    entries: list[Entry]
    parts: list[Part]
    end: int
    size: int


class Tiers:
    """What is common to all that a tiered queue does.

    key: its number in the log. noted_bytes, target_bytes: the pager's. is_lazy: to be kept on disk.
    removals: of segments, that are not on disk yet. disk_reads, disk_writes: messages that were
    read back from segments, and written to them, since the start.
    """

    __slots__ = (
        "_batch", "_batch_before", "_batch_before_from", "_batch_from", "_home", "_is_dirty",
        "_is_split", "_next_position", "_plan", "_plan_end", "_published_bytes", "_q1", "_q4",
        "_requeued", "_tracks", "_transient_bytes", "_transient_count", "_unacked", "delta",
        "disk_reads", "disk_writes", "has_expiring", "is_deleted", "is_durable", "is_lazy", "key",
        "ledger", "noted_bytes", "ready_bytes", "ready_count", "removals", "target_bytes",
        "unacked_bytes", "unacked_count", "writer",
    )  # fmt: skip

    def __init__(
        self, home: Home, key: int, directory: Path, name: str, is_durable: bool, is_lazy: bool
    ) -> None:
        self._home = home
        self.key = key
        self.is_durable = is_durable
        self.is_lazy = is_lazy
        self.is_deleted = False
        self.has_expiring = False
        self._q4: deque[Entry] = deque()
        self._q1: deque[Entry] = deque()
        self._requeued: list[tuple[int, Entry]] = []
        self._unacked: dict[int, Entry] = {}
        self._is_split = False
        self._next_position = 0
        self._plan: deque[Entry] = deque()
        self._plan_end = 0
        self._batch = self._batch_from = 0
        self._batch_before = self._batch_before_from = 0
        self._tracks = is_durable
        self._is_dirty = False
        self._published_bytes = 0
        self._transient_count = self._transient_bytes = 0
        self.noted_bytes = 0
        self.target_bytes = EVERYTHING
        self.removals = 0
        self.disk_reads = self.disk_writes = 0
        self.ready_count = self.ready_bytes = 0
        self.unacked_count = self.unacked_bytes = 0
        self.ledger = Ledger(key)
        self.writer = SegmentWriter(directory)
        self.delta = Delta(home, self.ledger, self.writer, name)
        self.delta.lost = self._lost

    def _lost(self, count: int, size: int) -> None:
        self.ready_count -= count
        self.ready_bytes -= size
        if not self._is_dirty:
            self._note_dirty()

    def _note_read(self, count: int) -> None:
        self.disk_reads += count
        self._home.disk_reads += count

    # The ledger

    def _note_dirty(self) -> None:
        self._is_dirty = True
        if self.is_durable and not self.is_deleted:
            self._home.log.note_dirty(self)

    def take_progress(self) -> bytes | None:
        """A record of what became of messages since the last call; None if it is nothing."""
        self._is_dirty = False
        if self.is_deleted:
            return None
        record = self.ledger.take_progress()
        self._drop_segments(only_first=True)
        if not self.ready_count and not self.unacked_count:
            self.has_expiring = False
        return record

    def _begin_batch(self, position: int, batch: int) -> None:
        """A message at this position is the queue's first in a batch of the log.

        One batch gathers while another is written, so there are two to remember.
        """
        self._batch_before, self._batch_before_from = self._batch, self._batch_from
        self._batch, self._batch_from = batch, position

    @property
    def _logged_to(self) -> int:
        """The log has on disk what it is to have of the messages below this position."""
        written = self._home.log.written
        if self._batch_before > written:
            return self._batch_before_from
        return self._batch_from if self._batch > written else self._next_position

    @property
    def waits_for_log(self) -> bool:
        """There are messages that the log does not have yet, which cannot go to segments."""
        return self._batch > self._home.log.written

    def are_gone(self, start: int, end: int) -> bool:
        """All messages at these positions are gone."""
        return self.is_deleted or self.ledger.gone.covers(start, end)

    def encode_state(self) -> bytes | None:
        """A State record; None if nothing is in segments, so that there is nothing to say."""
        self._drop_segments(only_first=False)
        if not self.writer.numbers and not self.removals:
            return None
        writer = self.writer
        return self.ledger.encode_state(writer.number, writer.tail_bytes, self.has_expiring)

    def _drop_segments(self, only_first: bool) -> None:
        """Have the segments removed in which nothing is needed."""
        numbers = self.writer.numbers
        if not numbers:
            return
        done = []
        for number in (min(numbers),) if only_first else sorted(numbers):
            start, end = positions_of(number)
            if end <= self.ledger.flushed_to and self.ledger.gone.covers(start, end):
                done.append(number)
        if done:
            numbers.difference_update(done)
            self.removals += 1
            self._home.segments_unneeded(self, [self.writer.path(number) for number in done])

    # Paging

    @property
    def memory_bytes(self) -> int:
        """What its messages take of the memory, about."""
        delta = self.delta
        count = self.ready_count + self.unacked_count - delta.count
        return self.ready_bytes + self.unacked_bytes - delta.size + ENTRY_BYTES * count

    @property
    def pageable_bytes(self) -> int:
        """How much of that could be on disk only."""
        delta = self.delta
        count = self.ready_count - delta.count
        return self.ready_bytes - delta.size + ENTRY_BYTES * count

    def plan_slice(self, bytes_max: int, end: int) -> Slice | None:
        """What is to be written to segments next, of what is below `end`; None if it is nothing."""
        # Segments must not know of a message before the log does: a restart takes it for one that
        # the log has lost.
        end = min(end, self._logged_to)
        ledger = self.ledger
        if end <= ledger.flushed_to or self.is_deleted:
            return None
        if not self._tracks:
            self._start_tracking()
        if not self._plan:
            self._plan.extend(self._unwritten(end))
            self._plan_end = end
        entries, size = [], 0
        while self._plan and size < bytes_max:
            entry = self._plan.popleft()
            if not ledger.is_gone(entry.position):
                entries.append(entry)
                size += len(entry.message.body) + ENTRY_BYTES
        slice_end = self._plan[0].position if self._plan else self._plan_end
        return Slice(entries, self._parts_of(entries), slice_end, size)

    def _parts_of(self, entries: list[Entry]) -> list[Part]:
        home = self._home
        parts = []
        for entry in entries:
            if len(entry.message.body) >= home.embed_below:
                part = home.bodies.plan(entry.message)
                if part is not None:
                    parts.append(part)
            if not entry.message.header.is_persistent:
                self.ledger.transient_segments.add(segment_number(entry.position))
        offset_ms = home.wall_offset_ms
        expires = [entry.expires_at_ms and entry.expires_at_ms + offset_ms for entry in entries]
        return parts + self.writer.plan(entries, expires, self.key)

    def _unwritten(self, end: int) -> list[Entry]:
        """What is in memory, not in segments, and below a position, in order."""
        flushed_to = self.ledger.flushed_to
        found = [entry for entry in self._unacked.values() if flushed_to <= entry.position < end]
        found += [entry for position, entry in self._requeued if flushed_to <= position < end]
        tail = []
        for part in (self._q1, self._q4):
            for entry in reversed(part):
                if entry.position < flushed_to:
                    break
                if entry.position < end:
                    tail.append(entry)
        found += reversed(tail)
        found.sort(key=lambda entry: entry.position)
        return found

    def slice_written(self, written: Slice) -> None:
        """What was planned is in segments."""
        ledger = self.ledger
        for entry in written.entries:
            if not ledger.is_gone(entry.position):
                ledger.segment_bytes += len(entry.message.body)
        ledger.flushed_to = written.end
        self.disk_writes += len(written.entries)
        self._home.disk_writes += len(written.entries)

    def _start_tracking(self) -> None:
        """A queue that is not durable has a ledger only from when it first goes to disk."""
        self._tracks = True
        ready = [entry.position for part in (self._q4, self._q1) for entry in part]
        ready += [position for position, _ in self._requeued]
        held = Intervals((position, position + 1) for position in sorted(ready))
        self.ledger.gone = Intervals(held.gaps(0, self._next_position))
        self.ledger.flushed_to = held.first if held else self._next_position

    def page_out(self, bytes_max: int) -> int:
        """Drop from memory what is in segments, up to so many bytes; how many it were."""
        dropped = self._written_of_q1(bytes_max)
        if not dropped:
            dropped = self._written_of_q4(bytes_max) or self._written_of_requeued(bytes_max)
        if not dropped:
            return 0
        self._is_split = True
        return self.delta.put_out(dropped) + ENTRY_BYTES * len(dropped)

    def _written_of_q1(self, bytes_max: int) -> list[Entry]:
        q1, flushed_to = self._q1, self.ledger.flushed_to
        dropped, size = [], 0
        while q1 and size < bytes_max and q1[0].position < flushed_to:
            dropped.append(q1.popleft())
            size += len(dropped[-1].message.body) + ENTRY_BYTES
        return dropped

    def _written_of_q4(self, bytes_max: int) -> list[Entry]:
        q4, flushed_to = self._q4, self.ledger.flushed_to
        dropped, size = [], 0
        while q4 and size < bytes_max and q4[-1].position < flushed_to:
            dropped.append(q4.pop())
            size += len(dropped[-1].message.body) + ENTRY_BYTES
        return dropped[::-1]

    def _written_of_requeued(self, bytes_max: int) -> list[Entry]:
        flushed_to, is_gone = self.ledger.flushed_to, self.ledger.is_gone
        # What was unacked when a transient queue first went to disk counts as gone, and came back.
        written = sorted(
            item for item in self._requeued if item[0] < flushed_to and not is_gone(item[0])
        )
        if not written:
            return []
        dropped, size = [], 0
        while written and size < bytes_max:
            dropped.append(written.pop()[1])
            size += len(dropped[-1].message.body) + ENTRY_BYTES
        taken = {entry.position for entry in dropped}
        self._requeued = [item for item in self._requeued if item[0] not in taken]
        heapify(self._requeued)
        return dropped[::-1]

    # Restarting

    def restore(self, entries: list[Entry]) -> None:
        """Go on from what a restart found, which is in the ledger and the writer already.

        entries: those that the log had and segments have not, in order.
        """
        ledger, delta = self.ledger, self.delta
        for start, end in ledger.gone.gaps(0, ledger.flushed_to):
            delta.positions.add_range(start, end)
        delta.size = ledger.segment_bytes = ledger.segment_bytes if delta.positions else 0
        self._is_split = bool(delta.positions)
        part = self._q1 if self._is_split else self._q4
        part.extend(entries)
        last = entries[-1].position + 1 if entries else 0
        self._next_position = max(ledger.flushed_to, ledger.fetched_to, ledger.gone.end, last)
        self.ready_count = len(entries) + delta.count
        self.ready_bytes = delta.size + sum(len(entry.message.body) for entry in entries)
        # What is at no position any more, since it was not persistent, is as gone as the rest.
        held = Intervals((entry.position, entry.position + 1) for entry in entries)
        for start, end in held.gaps(ledger.flushed_to, self._next_position):
            ledger.fresh.add_range(start, end)
        if ledger.fresh:
            self._note_dirty()

    # Looking

    @property
    def next_position(self) -> int:
        """The position of the message that is published next."""
        return self._next_position

    @property
    def persistent(self) -> tuple[int, int]:
        """How many of its messages survive a restart, and the bytes of their bodies."""
        if not self.is_durable:
            return 0, 0
        count = self.ready_count + self.unacked_count - self._transient_count
        return count, self.ready_bytes + self.unacked_bytes - self._transient_bytes

    @property
    def parts(self) -> tuple[int, int, int, int, int]:
        """How many messages are in q1, q2, delta, q3 and q4.

        q2 is what is being written to be in delta; what came back to the queue counts for q4.
        """
        written = min(len(self._plan), len(self._q1)) if self._is_split else 0
        delta = self.delta
        return (
            len(self._q1) - written,
            written,
            delta.positions.count,
            len(delta.bodiless),
            len(self._q4) + len(self._requeued),
        )

"""Writes one queue's messages to its segments in slices, and removes segments.

Messages are written in the order of their positions, and planned in windows of some thousand
positions, so that no turn examines all of a long queue. `plan` returns the next slice, a worker's
thread writes it, and then `written` is called. So messages below `flushed_to` that are not gone are
in segments, and no index is needed. Messages stay in memory until the queue pages them out.

**Promises.** A slice exceeds the requested bytes by less than one message. A segment is
removed when no position in it is needed, after the log has that record on disk.

Invariants:

SL1  Slices are planned and written in the order of their positions, one at a time: under the lock
     of the pager.
SL2  All entries below the end of a slice are in segments, except gone ones.
SL3  A segment is removed only if all its positions are below `flushed_to`, and gone by the log's
     records.
"""

from collections import deque
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, Protocol

from leveret.storage.bodies.message_store import MessageStore
from leveret.storage.bodies.planned_writes import PlannedWrite
from leveret.storage.messages.message import ENTRY_BYTES, Entry
from leveret.storage.queue.in_memory import InMemory
from leveret.storage.segments.ledger import Ledger, positions_of, segment_number
from leveret.storage.segments.segments import SegmentWriter

WINDOW_POSITIONS = 8192
"""Positions that are planned in one window."""
WINDOWS_MAX = 32
"""The most windows that a slice searches, in a queue with few messages left."""


class Slice(NamedTuple):
    """Messages that are written to segments together. end: all up to this position are written."""

    entries: list[Entry]
    writes: list[PlannedWrite]
    end: int
    size: int


class SegmentStore(Protocol):
    """The store as slices need it.

    embed_below: a body with fewer bytes is kept in segments, others in `bodies`. wall_offset_ms:
    added to a time of the broker's clock to get that of the wall clock.
    """

    bodies: MessageStore
    embed_below: int
    wall_offset_ms: int

    def remove_segments(
        self, paths: list[Path], is_logged: bool, removed: Callable[[], object]
    ) -> None:
        """Remove files, after a sync of the log if `is_logged`, and then call `removed`."""


class SegmentSlices:
    """The writing of one queue's segments.

    unacked: the queue's, by position. finds_gone: positions without an entry are gone, though not
    in the ledger. removals: the number of unfinished removals of segments.
    """

    __slots__ = (
        "_finds_gone", "_ledger", "_memory", "_plan", "_plan_end", "_store", "_unacked", "removals",
        "writer",
    )  # fmt: skip

    def __init__(
        self, store: SegmentStore, ledger: Ledger, memory: InMemory, unacked: dict[int, Entry],
        directory: Path, finds_gone: bool,
    ) -> None:  # fmt: skip
        self._store = store
        self._finds_gone = finds_gone
        self._ledger = ledger
        self._memory = memory
        self._unacked = unacked
        self._plan: deque[Entry] = deque()
        self._plan_end = 0
        self.removals = 0
        self.writer = SegmentWriter(directory)

    @property
    def planned_count(self) -> int:
        """The number of entries of the plan that wait to be written."""
        return len(self._plan)

    @property
    def has_files(self) -> bool:
        """Whether segments exist, or their removal is not finished."""
        return bool(self.writer.numbers or self.removals)

    def forget_plan(self) -> None:
        """Drop the plan: some of its entries are gone."""
        self._plan.clear()
        self._plan_end = 0

    # Writing

    def plan(self, bytes_max: int, end: int) -> Slice:
        """The next slice of messages below `end`.

        With 0 as `bytes_max` it skips gone positions, and ends before the first message left.
        """
        ledger = self._ledger
        entries: list[Entry] = []
        size = windows = 0
        while size < bytes_max or not bytes_max:
            if not self._plan:
                if windows == WINDOWS_MAX or not self._plan_window(end):
                    break
                windows += 1
                continue
            if not bytes_max and not ledger.is_gone(self._plan[0].position):
                break
            entry = self._plan.popleft()
            if not ledger.is_gone(entry.position):
                if entries and entry.position != entries[-1].position + 1:
                    # It begins another record, which doubles the time to encode.
                    size += ENTRY_BYTES
                entries.append(entry)
                size += len(entry.message.body) + ENTRY_BYTES
        slice_end = self._plan[0].position if self._plan else max(self._plan_end, ledger.flushed_to)
        return Slice(entries, self._plan_writes(entries), slice_end, size)

    def _plan_window(self, end: int) -> bool:
        """Plan the entries at the next positions below `end`; False if there are none.

        A window is a bounded number of positions, so that planning is fast in a long queue.
        """
        start = max(self._plan_end, self._ledger.flushed_to)
        if start >= end:
            return False
        start = min(end, self._ledger.gone.next_gap(start))
        self._plan_end = min(end, start + WINDOW_POSITIONS)
        found = self._unacked_between(start, self._plan_end)
        found += self._memory.between(start, self._plan_end)
        found.sort(key=attrgetter("position"))
        if self._finds_gone:
            self._note_gone_between(found, start, self._plan_end)
        self._plan.extend(found)
        return True

    def _note_gone_between(self, found: list[Entry], start: int, end: int) -> None:
        gone = self._ledger.gone
        for entry in found:
            gone.add_range(start, entry.position)
            start = entry.position + 1
        gone.add_range(start, end)

    def _unacked_between(self, start: int, end: int) -> list[Entry]:
        unacked = self._unacked
        if len(unacked) <= end - start:
            return [entry for entry in unacked.values() if start <= entry.position < end]
        return [unacked[position] for position in range(start, end) if position in unacked]

    def _plan_writes(self, entries: list[Entry]) -> list[PlannedWrite]:
        store = self._store
        writes = []
        for entry in entries:
            if len(entry.message.body) >= store.embed_below:
                write = store.bodies.plan(entry.message)
                if write is not None:
                    writes.append(write)
            if not entry.message.header.is_persistent:
                self._ledger.transient_segments.add(segment_number(entry.position))
        offset_ms = store.wall_offset_ms
        expires = [entry.expires_at_ms and entry.expires_at_ms + offset_ms for entry in entries]
        return writes + self.writer.plan(entries, expires, self._ledger.key)

    def written(self, done: Slice) -> None:
        """Note a slice that is in segments."""
        ledger = self._ledger
        assert done.end >= ledger.flushed_to, "SL1"
        self.writer.written()
        for entry in done.entries:
            if not ledger.is_gone(entry.position):
                ledger.segment_bytes += len(entry.message.body)
        ledger.flushed_to = done.end

    # Removing

    def leave_last(self, next_position: int) -> int:
        """Skip the positions that the last segment has left, when all positions are gone (SG1).

        next_position: the queue's. Returns the position at which the queue continues.
        """
        self._plan.clear()
        end = max(next_position, positions_of(self.writer.number)[1])
        self._ledger.fresh.add_range(next_position, end)
        self._ledger.flushed_to = end
        return end

    def drop_unneeded(self, is_logged: bool, only_first: bool) -> None:
        """Remove the segments in which no position is needed."""
        numbers = self.writer.numbers
        if not numbers:
            return
        done = []
        for number in (min(numbers),) if only_first else sorted(numbers):
            start, end = positions_of(number)
            if end <= self._ledger.flushed_to and self._ledger.gone.covers(start, end):
                done.append(number)
        if done:
            numbers.difference_update(done)
            self.removals += 1
            paths = [self.writer.path(number) for number in done]
            self._store.remove_segments(paths, is_logged, self._removed)

    def _removed(self) -> None:
        self.removals -= 1
        assert self.removals >= 0, "SL3"

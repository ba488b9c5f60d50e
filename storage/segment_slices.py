"""Writes one queue's messages to its segments in slices, and removes segments.

Messages are written in the order of their positions: `plan` returns the next slice, a worker's
thread writes it, and then `written` is called. So messages below `flushed_to` that are not gone are
in segments, and no index is needed. Messages stay in memory until the queue pages them out.

**Promises.** A slice exceeds the bytes that were asked for by less than one message. A segment is
removed when no position in it is needed, after the log has the record of that on disk.

Invariants:

V1  Slices are planned and written in the order of their positions, one at a time: under the lock of
    the pager.
V2  Of the entries below the end of a slice, only those that are gone are not in segments.
V3  A segment is removed only if all its positions are below `flushed_to`, and gone as far as the
    log knows.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from leveret.storage.in_memory import InMemory
from leveret.storage.ledger import Ledger, positions_of, segment_number
from leveret.storage.message import ENTRY_BYTES, Entry
from leveret.storage.message_store import MessageStore
from leveret.storage.planned_writes import PlannedWrite
from leveret.storage.segments import SegmentWriter


class Slice(NamedTuple):
    """Messages that are written to segments together. end: all up to this position are written."""

    entries: list[Entry]
    writes: list[PlannedWrite]
    end: int
    size: int


class SegmentStore(Protocol):
    """What slices need of the store.

    embed_below: a body with fewer bytes is kept in segments, others in `bodies`. wall_offset_ms:
    what is added to a time of the broker's clock to get that of the wall clock.
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

    unacked: the queue's, by position. removals: of segments, that are not finished.
    """

    __slots__ = (
        "_ledger", "_memory", "_plan", "_plan_end", "_store", "_unacked", "removals", "writer",
    )  # fmt: skip

    def __init__(
        self, store: SegmentStore, ledger: Ledger, memory: InMemory, unacked: dict[int, Entry],
        directory: Path,
    ) -> None:  # fmt: skip
        self._store = store
        self._ledger = ledger
        self._memory = memory
        self._unacked = unacked
        self._plan: deque[Entry] = deque()
        self._plan_end = 0
        self.removals = 0
        self.writer = SegmentWriter(directory)

    @property
    def planned_count(self) -> int:
        """How many entries of the plan wait to be written."""
        return len(self._plan)

    @property
    def has_files(self) -> bool:
        """Segments exist, or their removal is not finished."""
        return bool(self.writer.numbers or self.removals)

    def forget_plan(self) -> None:
        """Drop the plan: its entries are gone."""
        self._plan.clear()

    # Writing

    def plan(self, bytes_max: int, end: int) -> Slice:
        """The next slice of messages below `end`."""
        ledger = self._ledger
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
        return Slice(entries, self._plan_writes(entries), slice_end, size)

    def _unwritten(self, end: int) -> list[Entry]:
        """Entries in memory below a position that are not in segments, in order."""
        flushed_to = self._ledger.flushed_to
        found = [entry for entry in self._unacked.values() if flushed_to <= entry.position < end]
        found += self._memory.from_position(flushed_to, end)
        found.sort(key=lambda entry: entry.position)
        return found

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
        """The slice is in segments."""
        ledger = self._ledger
        assert done.end >= ledger.flushed_to, "V1"
        for entry in done.entries:
            if not ledger.is_gone(entry.position):
                ledger.segment_bytes += len(entry.message.body)
        ledger.flushed_to = done.end

    # Removing

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
        assert self.removals >= 0, "V3"

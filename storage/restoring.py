"""Giving queues back what a restart found: what the log said of each, and its segments on disk.

Of the segments only the names are looked at, and those that hold messages which are not persistent
are read, to leave these out.

A queue without a State in the log went to disk since the last log file was retired: all that is in
its segments is still in the log, too, and the segments are dropped. If that is not so, the State is
lost with a part of the log. Then all that is in the segments comes back, which is more than should,
and never less.
"""

import logging
from pathlib import Path
from typing import Protocol

from storage.disk import Disk, StoreError
from storage.formats import (
    FILE_HEADER_BYTES,
    PERSISTENT,
    RUN,
    SEGMENT_MAGIC,
    FormatError,
    Record,
    Run,
    State,
    VersionError,
    decode_file_header,
    decode_run,
    read_records,
)
from storage.intervals import Intervals
from storage.ledger import positions_of, segment_number
from storage.message import Entry
from storage.recovery import FoundQueue
from storage.segments import segment_numbers, segment_path
from storage.tiered_queue import TieredQueue

logger = logging.getLogger("leveret.store")


class RestoringStore(Protocol):
    """What is needed of the store."""

    disk: Disk

    def localize(self, entries: list[Entry]) -> None:
        """Entries of a restart have times of day; give them times of the broker's clock."""


class Restorer:
    """found: what the log said of queues, by their keys."""

    def __init__(self, store: RestoringStore, directory: Path) -> None:
        self._store = store
        self._disk = store.disk
        self._directory = directory
        self.found: dict[int, FoundQueue] = {}
        self._segments: dict[int, list[int]] | None = None

    def keys(self) -> list[int]:
        """Those that something was found of and nobody has asked for."""
        return sorted(self.found.keys() | self._with_segments().keys())

    def has_found(self, key: int) -> bool:
        """There is something of this queue."""
        return key in self.found or key in self._with_segments()

    def _with_segments(self) -> dict[int, list[int]]:
        if self._segments is None:
            names = [name for name in self._disk.names_in(self._directory) if name.isdigit()]
            self._segments = {
                int(name): segment_numbers(self._disk, self._directory / name) for name in names
            }
        return self._segments

    def remove_rest(self) -> None:
        """Remove what nobody has asked for: the queues are deleted."""
        self.found.clear()
        for key in list(self._with_segments()):
            self._disk.remove_tree(self._directory / str(key))
        self._segments = {}

    def restore(self, queue: TieredQueue) -> None:
        """Give a queue what was found of it."""
        numbers = self._with_segments().pop(queue.key, [])
        found = self.found.pop(queue.key, None)
        if found is None:
            if not numbers:
                return
            found = FoundQueue()
        directory = queue.writer.directory
        if found.state is None and numbers:
            self._do_without_state(queue, numbers, found)
        state = found.state_to_restore(queue.key)
        queue.ledger.restore(state)
        queue.has_expiring = state.has_expiring
        entries = found.live_entries()
        self._store.localize(entries)
        kept = self._trim(directory, numbers, state)
        queue.writer.numbers = kept
        if state.tail_number in kept:
            # It may be shorter than it was, if it is damaged or was repaired.
            size = self._disk.size(segment_path(directory, state.tail_number))
            queue.writer.number = state.tail_number
            queue.writer.tail_bytes = min(state.tail_bytes, size)
        transient = self._transient_in(directory, kept, state)
        if transient or found.wants_count:
            queue.ledger.leave_out(transient)
            queue.ledger.segment_bytes = self._count_bytes(directory, kept, state)
        queue.restore(entries)
        for start, end in list(queue.delta.positions):
            for number in range(segment_number(start), segment_number(end - 1) + 1):
                if number not in kept:
                    queue.delta.lose_segment(number)

    def _trim(self, directory: Path, numbers: list[int], state: State) -> set[int]:
        """Remove what was written after the state, and what is not needed.

        For good: what came back after a power cut would not be known to the log.
        """
        kept = set()
        for number in numbers:
            start, end = positions_of(number)
            path = segment_path(directory, number)
            is_done = end <= state.flushed_to and state.gone.covers(start, end)
            if number > state.tail_number or is_done:
                self._remove(path)
                continue
            kept.add(number)
            if number == state.tail_number and self._disk.size(path) > state.tail_bytes:
                self._disk.truncate(path, state.tail_bytes)
        if len(kept) < len(numbers):
            self._disk.sync_directory(directory)
        return kept

    def _remove(self, path: Path) -> None:
        """Remove a segment, unless it is of another version, which may have a use for it."""
        try:
            decode_file_header(self._disk.read(path, 0, FILE_HEADER_BYTES), SEGMENT_MAGIC)
        except VersionError as error:
            logger.warning("%s is left where it is: %s", path, error)
            return
        except (StoreError, FormatError) as error:
            logger.info("%s is removed: nothing of it is needed, and %s", path, error)
        self._disk.remove(path)

    def _runs_in(self, path: Path) -> list[Run]:
        try:
            data = self._disk.read_all(path)
            decode_file_header(data, SEGMENT_MAGIC)
        except (StoreError, FormatError) as error:
            logger.error("%s cannot be read: %s", path, error)
            return []
        return [
            decode_run(record.head)
            for record in read_records(data, FILE_HEADER_BYTES)
            if isinstance(record, Record) and record.kind == RUN
        ]

    def _transient_in(self, directory: Path, kept: set[int], state: State) -> Intervals:
        """Positions in segments of messages that are not persistent and so are gone."""
        transient = Intervals()
        for number in kept.intersection(state.transient_segments):
            for run in self._runs_in(segment_path(directory, number)):
                if not run.flags & PERSISTENT:
                    first = run.targets[0][1]
                    transient.add_range(first, first + len(run.sizes))
        return transient

    def _count_bytes(self, directory: Path, numbers: set[int], state: State) -> int:
        """The bytes of the bodies that are in segments and not gone."""
        size = 0
        for number in numbers:
            for run in self._runs_in(segment_path(directory, number)):
                first = run.targets[0][1]
                for start, end in state.gone.gaps(first, first + len(run.sizes)):
                    size += sum(run.sizes[start - first : end - first])
        return size

    def _do_without_state(self, queue: TieredQueue, numbers: list[int], found: FoundQueue) -> None:
        """Find out if segments hold what the log does not know of, and go by them if so."""
        in_log = found.gone.copy()
        for entry in found.entries:
            in_log.add_range(entry.position, entry.position + 1)
        there, unknown, transient, size = Intervals(), 0, set(), 0
        directory = queue.writer.directory
        for number in numbers:
            for run in self._runs_in(segment_path(directory, number)):
                first = run.targets[0][1]
                end = first + len(run.sizes)
                there.add_range(first, end)
                size += sum(run.sizes)
                if not run.flags & PERSISTENT:
                    transient.add(number)
                elif not in_log.covers(first, end):
                    unknown += sum(last - start for start, last in in_log.gaps(first, end))
        if not unknown:
            return
        logger.error(
            "the log has lost what is gone of the queue in %s: all %d messages in its segments "
            "come back", directory, there.count,
        )  # fmt: skip
        tail = self._disk.size(segment_path(directory, numbers[-1]))
        gone = Intervals(there.gaps(0, there.end))
        fetched_to = max(found.fetched_to, there.end)
        found.set_state(
            State(
                queue.key,
                there.end,
                fetched_to,
                size,
                numbers[-1],
                tail,
                True,
                sorted(transient),
                gone,
            )
        )

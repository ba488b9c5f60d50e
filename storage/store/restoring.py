"""Restoring queues after a restart, from their records in the log and the segments on disk.

Only the names of most segments are read. Segments with messages that are not persistent are read
whole, to find the positions of these messages, which are gone.

A queue with segments and without a STATE in the log first wrote segments after the last log file
was retired. So the log still has every message of its segments, and the segments are removed. If
the log does not have them, the STATE was lost in damage to the log. Then every message in the
segments is restored, including those that were gone.

Invariants:

C1  The messages restored are those that the log has and those that the STATE counts in segments,
    without those recorded as gone, each once.
C2  Bytes in segments that the STATE does not count are removed before the queue is used: bytes of
    an older write must not follow a later write in a segment.
C3  No queue is used before the removals of restoring are synced: `sync` follows the last queue.
"""

import logging
from pathlib import Path
from typing import Protocol

from leveret.storage.check.needed_segments import is_needed, state_of_segments, with_last_segment
from leveret.storage.disk.disk import Disk, FileMissing, StoreError
from leveret.storage.disk.unsynced_files import SYNC_EACH_MAX
from leveret.storage.messages.formats import (
    FILE_HEADER_BYTES,
    PERSISTENT,
    RUN,
    SEGMENT_MAGIC,
    FormatError,
    RunRecord,
    ScannedRecord,
    StateRecord,
    VersionError,
    decode_file_header,
    decode_run,
    read_records,
)
from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.message import Entry
from leveret.storage.queue.queue_recovery import FoundQueue
from leveret.storage.queue.tiered_queue import TieredQueue
from leveret.storage.segments.ledger import segment_number
from leveret.storage.segments.segments import segment_numbers, segment_path

logger = logging.getLogger("leveret.store")


class RestoringStore(Protocol):
    """The store as restoring needs it."""

    disk: Disk

    def localize(self, entries: list[Entry]) -> None:
        """Convert the expiry of entries that a restart found from wall clock to broker's clock."""


class Restorer:
    """Restores queues one by one.

    was_closed: the node was stopped cleanly. Otherwise any message may have been delivered without
    a record of it, so all count as redelivered (as in RabbitMQ), except in queues that record
    deliveries. directory: that of the queues' segments. found: each queue's state in the log, by
    its key; an item is removed when its queue is restored.
    """

    def __init__(
        self, store: RestoringStore, directory: Path, found: dict[int, FoundQueue]
    ) -> None:
        self._store = store
        self._disk = store.disk
        self._directory = directory
        self._found = found
        self.was_closed = True
        self._trimmed: list[Path] = []
        self._segments: dict[int, list[int]] | None = None

    def keys(self) -> list[int]:
        """The keys of queues with files or log records that were not restored yet."""
        return sorted(self._found.keys() | self._with_segments().keys())

    def has_found(self, key: int) -> bool:
        """Whether a restart found files or log records of this queue."""
        return key in self._found or key in self._with_segments()

    def _with_segments(self) -> dict[int, list[int]]:
        if self._segments is None:
            names = [name for name in self._disk.names_in(self._directory) if name.isdigit()]
            self._segments = {
                int(name): segment_numbers(self._disk, self._directory / name) for name in names
            }
        return self._segments

    def remove_rest(self) -> None:
        """Remove files and records of queues that were not restored: these queues are deleted."""
        self._found.clear()
        for key in list(self._with_segments()):
            self._disk.remove_tree(self._directory / str(key))
        self._segments = {}

    def restore(self, queue: TieredQueue) -> None:
        """Restore one queue: its ledger, its segments and its messages.

        Raises StoreError if a needed segment cannot be read.
        """
        numbers = self._with_segments().pop(queue.key, [])
        found = self._found.pop(queue.key, None)
        if found is None:
            if not numbers:
                return
            found = FoundQueue()
        directory = queue.writer.directory
        if found.state is None and numbers:
            self._do_without_state(queue, numbers, found)
        state = self._with_last_segment(found.state_to_restore(queue.key), directory)
        queue.ledger.restore(state)
        queue.has_expiring = state.has_expiring
        entries = found.live_entries()
        assert not entries or entries[0].position >= state.flushed_to, "C1: each message once"
        self._store.localize(entries)
        kept = self._trim(directory, numbers, state)
        queue.writer.numbers = kept
        queue.writer.number = state.tail_number
        if state.tail_number in kept:
            # The file may be shorter than before, if it is damaged or was repaired.
            size = self._disk.size(segment_path(directory, state.tail_number))
            # A file without a whole header is written from its beginning.
            queue.writer.tail_bytes = (
                min(state.tail_bytes, size) if size >= FILE_HEADER_BYTES else 0
            )
        queue.writer.written()
        transient = self._transient_in(directory, kept, state)
        if transient or found.wants_count:
            queue.ledger.leave_out(transient)
            queue.ledger.segment_bytes = self._count_bytes(directory, kept, state)
        queue.restore(entries)
        if not self.was_closed and not queue.knows_deliveries:
            queue.mark_delivered(entries)
        _lose_missing(queue, kept)

    def _with_last_segment(self, state: StateRecord, directory: Path) -> StateRecord:
        corrected = with_last_segment(self._disk, directory, state)
        if corrected is not state:
            logger.warning(
                "the log says that %s is the last segment of its queue, whose messages end at "
                "position %d: %s is taken as the last one, with all its bytes",
                segment_path(directory, state.tail_number), state.flushed_to,
                segment_path(directory, corrected.tail_number),
            )  # fmt: skip
        return corrected

    def _trim(self, directory: Path, numbers: list[int], state: StateRecord) -> set[int]:
        """Cut off bytes written after the STATE, and remove segments that are not needed (C2).

        Returns the numbers of the segments that are kept. The directory must be synced (`sync`):
        the log would have no record of a segment that reappears after a power cut.
        """
        kept = set()
        for number in numbers:
            path = segment_path(directory, number)
            if not is_needed(state, number):
                self._remove(path)
                continue
            kept.add(number)
            if number == state.tail_number and self._disk.size(path) > state.tail_bytes:
                self._disk.truncate(path, state.tail_bytes)
        if len(kept) < len(numbers):
            self._trimmed.append(directory)
        return kept

    def sync(self) -> None:
        """Sync the removals: once for all queues, since each sync waits for the disk."""
        trimmed, self._trimmed = self._trimmed, []
        if len(trimmed) <= SYNC_EACH_MAX:
            for directory in trimmed:
                self._disk.sync_directory(directory)
            return
        root = self._disk.open_directory(self._directory)
        try:
            self._disk.sync_file_system(root, self._directory)
        finally:
            self._disk.close(root)

    def _remove(self, path: Path) -> None:
        """Remove a segment, unless another version of Leveret wrote it."""
        try:
            decode_file_header(self._disk.read(path, 0, FILE_HEADER_BYTES), SEGMENT_MAGIC)
        except VersionError as error:
            logger.warning("%s is not removed: %s", path, error)
            return
        except (StoreError, FormatError) as error:
            logger.info("%s is removed: no message in it is needed, and %s", path, error)
        self._disk.remove(path)

    def _runs_in(self, path: Path, level: int = logging.ERROR) -> list[RunRecord]:
        """The runs in a segment. Raises StoreError: unreadable messages are not given up.

        level: at which damage is logged.
        """
        try:
            data = self._disk.read_all(path)
            decode_file_header(data, SEGMENT_MAGIC)
        except (FileMissing, FormatError) as error:
            logger.log(level, "%s is not a whole segment: %s", path, error)
            return []
        return [
            decode_run(record.head)
            for record in read_records(data, FILE_HEADER_BYTES)
            if isinstance(record, ScannedRecord) and record.kind == RUN
        ]

    def _transient_in(self, directory: Path, kept: set[int], state: StateRecord) -> Intervals:
        """The positions in segments of messages that are not persistent."""
        transient = Intervals()
        for number in kept.intersection(state.transient_segments):
            for run in self._runs_in(segment_path(directory, number)):
                if not run.flags & PERSISTENT:
                    first = run.targets[0][1]
                    transient.add_range(first, first + len(run.sizes))
        return transient

    def _count_bytes(self, directory: Path, numbers: set[int], state: StateRecord) -> int:
        """The bytes of the bodies in segments that are not gone."""
        size = 0
        for number in numbers:
            for run in self._runs_in(segment_path(directory, number)):
                first = run.targets[0][1]
                for start, end in state.gone.gaps(first, first + len(run.sizes)):
                    size += sum(run.sizes[start - first : end - first])
        return size

    def _do_without_state(self, queue: TieredQueue, numbers: list[int], found: FoundQueue) -> None:
        """If segments have persistent messages that the log lacks, restore from segments."""
        directory = queue.writer.directory
        runs = (
            (number, run)
            for number in numbers
            # Data that the node was writing when it stopped are in the log as well.
            for run in self._runs_in(segment_path(directory, number), logging.INFO)
        )
        tail = numbers[-1], self._disk.size(segment_path(directory, numbers[-1]))
        state = state_of_segments(queue.key, found, runs, tail)
        if state is None:
            return
        logger.error(
            "the log has lost the removals of messages of the queue in %s: all %d messages in its "
            "segments are restored, including those already consumed",
            directory, state.flushed_to - state.gone.count,
        )  # fmt: skip
        # QL2: the log had them, so they were not synced.
        self._disk.sync_paths([segment_path(directory, number) for number in numbers])
        found.set_state(state)


def _lose_missing(queue: TieredQueue, kept: set[int]) -> None:
    """Lose the messages in missing segments, for any number of them."""
    there = Intervals((number, number + 1) for number in sorted(kept))
    for start, end in list(queue.delta.positions):
        for first, after in there.gaps(segment_number(start), segment_number(end - 1) + 1):
            queue.delta.lose_segments(first, after - 1)

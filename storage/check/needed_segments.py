"""Which segments of a queue, and which of their bytes, a restart needs, by the STATE.

The state in the log is that of the last batch. So a kill or a power cut may leave on disk

- segments above the last one of the STATE, and bytes of the last one after its count: they were
  written after the STATE. The log has their messages;
- segments all of whose positions are gone: the PROGRESS that says so is on disk, and their removal
  was under way (RM1);
- segments of a queue without a STATE (`state_of_segments`).

A restart removes or cuts all of these (restoring.py), and a check skips them (check.py).
"""

from collections.abc import Iterable
from pathlib import Path

from leveret.storage.disk.disk import Disk
from leveret.storage.messages.formats import PERSISTENT, UNCOUNTED, RunRecord, StateRecord
from leveret.storage.messages.intervals import Intervals
from leveret.storage.queue.queue_recovery import FoundQueue
from leveret.storage.segments.ledger import positions_of, segment_number
from leveret.storage.segments.segments import segment_path


def with_last_segment(disk: Disk, directory: Path, state: StateRecord) -> StateRecord:
    """The STATE; its last segment is at most that of the last message that it counts in segments.

    A correct checksum does not prove that the numbers in a record are correct: it may be forged,
    and early versions recorded a segment whose write had failed.
    """
    last = segment_number(state.flushed_to - 1)
    if state.tail_number <= last:
        return state
    size = disk.size(segment_path(directory, last))
    return state._replace(tail_number=last, tail_bytes=size)


def is_needed(state: StateRecord, number: int) -> bool:
    """Whether the segment may have messages that the STATE counts and that are not gone."""
    start, end = positions_of(number)
    is_done = end <= state.flushed_to and state.gone.covers(start, end)
    return number <= state.tail_number and not is_done


def state_of_segments(
    key: int, found: FoundQueue, runs: Iterable[tuple[int, RunRecord]], tail: tuple[int, int]
) -> StateRecord | None:
    """The STATE that a queue has lost; None if the log never had one.

    Without a STATE the log has all messages of the segments, so these are not needed. If any is
    missing, the STATE is lost: then all messages in the segments are restored, also gone ones.

    runs: of all segments of the queue, with the number of the segment. tail: the number and the
    size of the last segment.
    """
    in_log = found.gone.copy()
    for entry in found.entries:
        in_log.add(entry.position)
    there, transient, is_lost = Intervals(), set(), False
    for number, run in runs:
        first = run.targets[0][1]
        end = first + len(run.sizes)
        there.add_range(first, end)
        if not run.flags & PERSISTENT:
            transient.add(number)
        elif not in_log.covers(first, end):
            is_lost = True
    if not is_lost:
        return None
    gone = Intervals(there.gaps(0, there.end))
    fetched_to = max(found.fetched_to, there.end)
    return StateRecord(key, there.end, fetched_to, UNCOUNTED, *tail, True, sorted(transient), gone)

"""Reads the new data in logs that are followed: a limited amount at a time, in several threads.

The files of one hour are read before those of the next, and files of the same hour by equal shares:
so the records that the nodes of a cluster wrote about a message are read at about the same time.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from leveret.analytics.job.follow_state import HEAD_BYTES, FollowState, ReadPosition, identity_of
from leveret.analytics.traces.clock import RecordClock
from leveret.analytics.traces.copies import beginning_of, without_copies
from leveret.analytics.traces.local_files import list_local_files
from leveret.analytics.traces.log_members import (
    AddedBytes,
    AddedRecords,
    end_of_added,
    later_lines,
    pieces_of,
)
from leveret.analytics.traces.log_records import sample_of
from leveret.analytics.traces.parsing import ARROW_COLUMNS, set_aside
from leveret.analytics.traces.record_files import THREADS_MAX
from leveret.analytics.traces.trace_files import TraceFile, TraceWindow
from leveret.broker.resources.available_processors import available_processors
from leveret.broker.tracing.record import OPEN_SUFFIXES, SUFFIXES

TRIGGER_BYTES = 8 * 1024 * 1024
"""About 500,000 records: 150 MB of memory."""
PIECE_BYTES = 2 * 1024 * 1024

Found = dict[str, TraceFile]
"""Files by identity."""


class ReadRecords(NamedTuple):
    """Records that were read, with the columns of schema.COLUMNS."""

    valid: pa.Table
    rejected: pa.Table


def listed(directory: str, window: TraceWindow) -> Found:
    """Return the logs of the broker; a file that is just being begun or renamed is left for later.

    Raises FileNotFoundError if the directory does not exist.
    """
    found = {}
    for file in list_local_files(directory, window._replace(from_us=None, to_us=None)):
        is_identified = file.size >= HEAD_BYTES or not file.is_open
        if is_identified and file.path.endswith((*SUFFIXES, *OPEN_SUFFIXES)):
            try:
                with open(file.path, "rb") as opened:
                    found[identity_of(opened)] = file
            except FileNotFoundError:
                continue
    return found


def find_positions(state: FollowState, files: Found) -> bool:
    """Give each file a position: the known one, or that of a new file.

    Returns False if a new file has more of the records of a file that was read.
    """
    logs = state.logs
    for key, file in files.items():
        position = logs.setdefault(key, ReadPosition(file.path))
        position.path = file.path
        if position.beginning or position.same_as:
            continue
        position.beginning = beginning_of(file)
        alike = [one for one in files if _are_alike(logs.get(one), position)]
        if len(alike) > 1:
            copies = {one.file: one for one in without_copies([files[one] for one in alike])[1]}
            for one in alike:
                if files[one].path in copies:
                    if logs[one].size:
                        return False
                    logs[one].same_as = copies[files[one].path].same_as
    return True


def _are_alike(one: ReadPosition | None, other: ReadPosition) -> bool:
    return one is not None and bool(other.beginning) and one.beginning == other.beginning


def added_to(state: FollowState, files: Found) -> list[AddedBytes]:
    """Return the pieces to read next. Raises OSError."""
    unread = {
        key: file for key, file in files.items()
        if not state.logs[key].same_as and state.logs[key].size < file.size
    }  # fmt: skip
    added, left = list[AddedBytes](), TRIGGER_BYTES
    in_order = sorted(unread, key=lambda key: (unread[key].hour_us or 0, unread[key].path))
    for _, group in groupby(in_order, key=lambda key: unread[key].hour_us):
        keys = list(group)
        for place, key in enumerate(keys):
            one = _added(state.logs[key], unread[key], left // (len(keys) - place))
            if one is not None:
                added.append(one)
                left = max(0, left - (one.ends - one.begins))
        if not left:
            break
    return added


def _added(position: ReadPosition, file: TraceFile, bytes_max: int) -> AddedBytes | None:
    """Return the piece of a file to read; None if nothing is new."""
    try:
        ends = end_of_added(file, position.size, bytes_max)
        if ends <= position.size:
            return None
        sample = position.sample if position.size else sample_of(file.path)
    except FileNotFoundError:
        return None
    if sample is None:
        return None if file.is_open else AddedBytes(file, position.size, file.size, None)
    return AddedBytes(file, position.size, ends, sample)


def read_added(
    added: Iterable[AddedBytes], state: FollowState, files: Found, window: TraceWindow
) -> ReadRecords:
    """Read the records of the added bytes, and move the positions. Raises OSError."""
    positions = {file.path: state.logs[key] for key, file in files.items()}
    pieces = [piece for one in added for piece in pieces_of(one, PIECE_BYTES)]
    with ThreadPoolExecutor(min(available_processors(), THREADS_MAX)) as threads:
        found = list(threads.map(lambda piece: AddedRecords(piece, window), pieces))
    rejected = list[pa.RecordBatch]()
    for piece, records in zip(pieces, found, strict=True):
        rejected.extend(_moved(positions[piece.file.path], piece, records))
    valid = [batch for one in found for batch in one.valid]
    return ReadRecords(
        pa.Table.from_batches(valid, ARROW_COLUMNS), pa.Table.from_batches(rejected, ARROW_COLUMNS)
    )


def _moved(
    position: ReadPosition, piece: AddedBytes, records: AddedRecords
) -> Iterator[pa.RecordBatch]:
    """Move a position behind a piece; return its rejected lines."""
    for batch in records.rejected:
        yield later_lines(batch, position.lines)
    if records.first_us is not None:
        clock = RecordClock(piece.name)
        jumps = clock.jumps_of(pa.array([position.last_us, records.first_us], pa.int64()))
        yield set_aside(jumps)
        position.last_us = records.last_us
    position.size, position.sample = piece.ends, piece.sample or 1
    position.lines += records.lines

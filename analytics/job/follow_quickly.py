"""`--follow` with DuckDB: tables of logs that are being written, on this machine.

Each trigger reads what the broker has added to its logs, up to the last whole gzip member, and
keeps the records (follow_state.py). The tables are made of all kept records by the queries of the
batch job, so they are the same as those of a batch. Positions and tables are published at once: a
trigger that is killed is repeated.

What is read and parsed of the logs, which takes most of a batch, is only what is new. Making the
tables takes time in proportion to all records that are kept.
"""

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from leveret.analytics.job.costs import COSTS
from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.job.engines import DUCKDB
from leveret.analytics.job.follow_state import NAME, KeptRecords, Position, State, identity_of
from leveret.analytics.job.job import Options, write_tables
from leveret.analytics.job.progress import Progress
from leveret.analytics.tables.engine import Reading
from leveret.analytics.traces.copies import Copy, without_copies
from leveret.analytics.traces.file_numbers import missing_files
from leveret.analytics.traces.local_files import list_local_files
from leveret.analytics.traces.log_members import Added, AddedRecords, end_of_whole_members
from leveret.analytics.traces.log_records import sample_of
from leveret.analytics.traces.record_files import THREADS_MAX, Counts, write_batches
from leveret.analytics.traces.trace_files import TraceFile, Window
from leveret.broker.tracing.record import OPEN_SUFFIXES, SUFFIXES

Found = dict[str, TraceFile]
"""Files by identity."""


def follow_quickly(options: Options, every_seconds: float) -> None:
    """Update the tables until Ctrl-C; a second one ends at once.

    Raises KeyboardInterrupt, OSError, and FileNotFoundError if the directory does not exist.
    """
    following = Following(options)
    with _interrupted() as interrupted:
        while not interrupted.is_set():
            began = time.monotonic()
            following.trigger()
            interrupted.wait(max(0.0, every_seconds - (time.monotonic() - began)))
    raise KeyboardInterrupt


@contextmanager
def _interrupted() -> Iterator[threading.Event]:
    """Return what Ctrl-C sets."""
    found = threading.Event()

    def interrupt(*_signal: object) -> None:
        if found.is_set():
            raise KeyboardInterrupt
        found.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, before)


class Following:
    """Follows the logs below a directory."""

    def __init__(self, options: Options) -> None:
        """Continue where an earlier follow into the same tables has ended. Raises OSError."""
        self._options = options
        self._kept = KeptRecords(options.out)

    def trigger(self) -> bool:
        """Read what is new and write the tables; False if nothing is new. Raises OSError."""
        files = _listed(self._options)
        state = self._positions(files)
        added = [one for one in (_added(state.logs[key], file) for key, file in files.items())
                 if one is not None]  # fmt: skip
        if not added:
            return False
        counts = self._read(added, state, files)
        state.last += 1
        state.events += counts.rows
        state.rejected += counts.rejected
        self._write(state, list(files.values()))
        self._kept.published(state)
        return True

    def _positions(self, files: Found) -> State:
        """Return the state with a position for each file: the known ones, and those of new files.

        If more of the same records appears in a new file, everything is read again.
        """
        known = self._kept.state
        state = replace(known, logs={key: replace(one) for key, one in known.logs.items()})
        logs = state.logs
        if any(key not in logs for key in files):
            copies = {one.file: one for one in without_copies(list(files.values()))[1]}
            if any(files[key].path in copies and logs[key].size for key in files if key in logs):
                logs = {}
                state = State(known.last + 1, known.last, logs=logs)
            for key, file in files.items():
                if key not in logs:
                    same_as = copies[file.path].same_as if file.path in copies else ""
                    logs[key] = Position(file.path, same_as=same_as)
        for key, file in files.items():
            logs[key].path = file.path
        return state

    def _read(self, added: list[Added], state: State, files: Found) -> Counts:
        """Keep the records of the added bytes, and move the positions."""
        directory, window = self._kept.begin(), self._options.window
        write_batches((), str(directory / "empty.parquet"))
        keys = {file.path: key for key, file in files.items()}

        def read(number: int) -> Counts:
            one = added[number]
            records = AddedRecords(one, window)
            counts = write_batches(records.batches(), str(directory / f"part-{number:05}.parquet"))
            position = state.logs[keys[one.file.path]]
            position.size, position.sample = one.ends, one.sample or 1
            position.lines += records.lines
            return counts

        with ThreadPoolExecutor(THREADS_MAX) as threads:
            found = list(threads.map(read, range(len(added))))
        return Counts(sum(one.rows for one in found), sum(one.rejected for one in found))

    def _write(self, state: State, files: list[TraceFile]) -> None:
        logs = state.logs.values()
        copies = tuple(Copy(one.path, one.same_as) for one in logs if one.same_as)
        reading = Reading(
            state.events, state.rejected, sum(1 for one in logs if one.size),
            sum(one.size for one in logs), copies, tuple(missing_files(files)),
        )  # fmt: skip
        with DuckDBEngine(self._options.work) as engine:
            progress = Progress(engine.parts, COSTS[DUCKDB], state.events)
            engine.open_records(self._kept.files_of(state))
            beside = {NAME: state.content()}
            write_tables(engine, self._options, progress, reading, beside)


def _listed(options: Options) -> Found:
    """Return the logs of the broker; a file that is just being renamed is left for later."""
    found = {}
    for file in list_local_files(options.directory, Window(vhost=options.window.vhost)):
        if file.path.endswith((*SUFFIXES, *OPEN_SUFFIXES)):
            try:
                with open(file.path, "rb") as opened:
                    found[identity_of(opened)] = file
            except FileNotFoundError:
                continue
    return found


def _added(position: Position, file: TraceFile) -> Added | None:
    """Return what is to be read of a file; None if nothing is new."""
    if position.same_as or position.size >= file.size:
        return None
    try:
        ends = file.size
        if file.is_open:
            with open(file.path, "rb") as opened:
                ends = end_of_whole_members(opened, position.size)
        sample = position.sample if position.size else sample_of(file.path)
    except FileNotFoundError:
        return None
    if ends <= position.size or (sample is None and file.is_open):
        return None
    return Added(file, position.size, ends, position.lines + 1, sample)

"""`--follow` with DuckDB: tables of logs that are being written, on this machine.

Each trigger reads a part of the new data in the broker's logs, up to the last whole gzip member,
and changes the state by it (follow_changes.py). So its cost is in proportion to what is new, and a
trigger that is killed loses no more than that. While it is behind, the next one follows at once.
From time to time the tables are made of the state (follow_tables.py).
"""

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from leveret.analytics.job import follow_tables
from leveret.analytics.job.costs import COSTS
from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.job.engines import DUCKDB
from leveret.analytics.job.follow_changes import Changes, ForgottenError
from leveret.analytics.job.follow_forgetting import forgotten, kept_since
from leveret.analytics.job.follow_reading import Found, added_to, find_positions, listed, read_added
from leveret.analytics.job.follow_spans import ChoiceChangedError, set_aside, view_events
from leveret.analytics.job.follow_state import NAME, FollowState, KeptState
from leveret.analytics.job.job import JobOptions, Made, write_staged
from leveret.analytics.job.progress import JobProgress
from leveret.analytics.tables.engine import ReadCounts
from leveret.analytics.tables.trust import LeftOut
from leveret.analytics.traces.copies import Copy
from leveret.analytics.traces.file_numbers import missing_files


def follow_quickly(options: JobOptions, every_seconds: float, keep_days: int) -> None:
    """Update the tables until Ctrl-C; a second one ends at once.

    keep_days: how many days can still change, beside the last one. Raises KeyboardInterrupt,
    OSError, and FileNotFoundError if the directory does not exist.
    """
    following = Following(options, every_seconds, keep_days)
    with _interrupted() as interrupted:
        while not interrupted.is_set():
            began = time.monotonic()
            if following.update():
                interrupted.wait(max(0.0, every_seconds - (time.monotonic() - began)))
    raise KeyboardInterrupt


@contextmanager
def _interrupted() -> Iterator[threading.Event]:
    """Yield the event that Ctrl-C sets."""
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
    """Follows the logs below a directory. update_seconds: when it is behind, tables are made after
    this time. keep_days: see `follow_quickly`.
    """

    def __init__(
        self, options: JobOptions, update_seconds: float = math.inf, keep_days: float = math.inf
    ) -> None:
        """Continue where an earlier follow into the same tables has ended. Raises OSError."""
        self._options = options
        self._update_seconds = update_seconds
        self._keep_days = keep_days
        # Records that were added while no follow ran are shown as soon as possible.
        self._seconds = 0.0 if update_seconds < math.inf else math.inf
        self._kept = KeptState(options)

    @property
    def state(self) -> FollowState:
        """The state of the records read so far."""
        return self._kept.state

    def update(self) -> bool:
        """Read new records, and publish the tables; False if more is left to read. Raises OSError.

        While everything is read again, the earlier tables stay.
        """
        began = time.monotonic()
        is_at_end = not self.trigger()
        while not is_at_end and time.monotonic() - began < self._seconds:
            is_at_end = not self.trigger()
        self._seconds = self._update_seconds
        is_again = self.state.events < self.state.events_before
        if (is_at_end or not is_again) and not self._kept.is_published():
            self._publish()
        return is_at_end

    def trigger(self) -> bool:
        """Read some new records; False if there are none. Raises OSError."""
        files = listed(self._options.directory, self._options.window)
        known = self.state
        state = replace(
            known, rows=dict(known.rows),
            logs={key: replace(one) for key, one in known.logs.items()},
        )  # fmt: skip
        if not find_positions(state, files):
            self._begin_again()
            return True
        added = added_to(state, files)
        if not added:
            return False
        read = read_added(added, state, files, self._options.window)
        state.trigger += 1
        state.events += len(read.valid) + len(read.rejected)
        state.rejected += len(read.rejected)
        try:
            self._change(state, read.valid, read.rejected)
        except ChoiceChangedError as error:
            self._begin_again(expected_days=[(*day,) for day in error.days])
        except ForgottenError:
            self._begin_again(keeps_details=True)
        else:
            self._kept.state = state
        return True

    def _change(self, state: FollowState, valid: pa.Table, rejected: pa.Table) -> None:
        with self._kept.engine() as engine:
            engine.put("valid", valid)
            engine.put("rejected", rejected)
            engine.put("limits", pa.table({"poison_above": [self._options.poison_above]}))
            view_events(engine, state)
            engine.change(Changes(engine, state).statements())

    def _begin_again(
        self,
        expected_days: list[tuple[float, int, int, int]] | None = None,
        keeps_details: bool = False,
    ) -> None:
        """Forget the records that were read."""
        known = self.state
        self._kept.begin_again(
            FollowState(
                known.options, trigger=known.trigger + 1,
                events_before=max(known.events, known.events_before),
                keeps_details=keeps_details or known.keeps_details,
                expected_days=expected_days or known.expected_days,
            )
        )  # fmt: skip

    def _publish(self) -> None:
        """Make the tables of the state, and publish them."""
        state = self.state
        files = listed(self._options.directory, self._options.window)
        with self._kept.engine() as engine:
            progress = JobProgress(engine.parts, COSTS[DUCKDB], state.events)
            with progress.step("changes"):
                left_out = LeftOut(set_aside(engine, state), {})
                follow_tables.stage(engine, self._options)
            beside = {NAME: self._kept.number().encode()}
            made = Made(_reading(state, files), left_out, follow_tables.TABLES, beside)
            write_staged(engine, self._options, progress, made)
            self._forget(engine)

    def _forget(self, engine: DuckDBEngine) -> None:
        """Delete rows older than the days that can still change."""
        since_us = kept_since(engine, self.state, self._keep_days)
        if since_us is not None:
            state = replace(self.state, kept_since_us=since_us)
            engine.change(forgotten(state))
            self._kept.state = state


def _reading(state: FollowState, files: Found) -> ReadCounts:
    logs = state.logs.values()
    return ReadCounts(
        state.events, state.rejected, sum(1 for one in logs if one.size),
        sum(one.size for one in logs),
        tuple(Copy(one.path, one.same_as) for one in logs if one.same_as),
        tuple(missing_files(files.values())),
    )  # fmt: skip

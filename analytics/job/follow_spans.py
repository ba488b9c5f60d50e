"""Chooses the records of plausible times (tables/plausible.py) among those that were read so far.

More records can change the choice among those that were read before. Then everything has to be read
again, and the records that are known by now decide from the beginning.
"""

from typing import NamedTuple

import pyarrow as pa

from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.job.follow_state import FollowState
from leveret.analytics.job.follow_sums import SUMMED
from leveret.analytics.tables.plausible import Span, spans, view_plausible


class Day(NamedTuple):
    """The records of a day: its beginning, their number, times of the first and the last."""

    day_us: float
    records: int
    first_us: int
    last_us: int


class ChoiceChangedError(Exception):
    """Records that were read before count now, or no longer. days: all that are known."""

    def __init__(self, days: list[Day]) -> None:
        super().__init__()
        self.days = days


_TYPES = pa.schema(
    [("day_us", pa.float64()), ("records", pa.int64()), ("first_us", pa.int64()),
     ("last_us", pa.int64())]
)  # fmt: skip


def view_events(engine: DuckDBEngine, state: FollowState) -> None:
    """Create the view `events` of the view `valid`, the new records. Raises ChoiceChangedError."""
    engine.stage("added_days", SUMMED["days"].query)
    before = known_days(engine)
    after = _days(engine, "added_days", before)
    used_before, _ = _chosen(engine, state, before)
    used, set_aside = _chosen(engine, state, after)
    if any(_is_used(day, used_before) != _is_used(day, used) for day in before):
        raise ChoiceChangedError(after)
    view_plausible(engine, used if set_aside else None)
    engine.view("events", "select * from plausible")


def set_aside(engine: DuckDBEngine, state: FollowState) -> list[Span]:
    """Return the spans of records that were read and are not used."""
    return _chosen(engine, state, known_days(engine))[1]


def latest_us(engine: DuckDBEngine, state: FollowState) -> int | None:
    """Return the time of the last record that was read and is used; None if there is none."""
    days = known_days(engine)
    used, _ = _chosen(engine, state, days)
    return max((day.last_us for day in days if _is_used(day, used)), default=None)


def known_days(engine: DuckDBEngine) -> list[Day]:
    """Return the days of all records that were read."""
    if not engine.has_table("days"):
        return []
    return _days(engine, "state.days", [])


def _days(engine: DuckDBEngine, table: str, more: list[Day]) -> list[Day]:
    engine.put("more_days", _table(more))
    columns = ", ".join(Day._fields)
    rows = f"(select {columns} from {table} union all select {columns} from more_days)"
    query = SUMMED["days"].summed(f"{rows} as days")
    return [Day(*row) for row in engine.rows(f"select {columns} from ({query}) order by day_us")]


def _chosen(
    engine: DuckDBEngine, state: FollowState, days: list[Day]
) -> tuple[list[Span], list[Span]]:
    expected = [Day(*row) for row in state.expected_days]
    if sum(one.records for one in expected) > sum(one.records for one in days):
        days = expected
    engine.put("days", _table(days))
    return spans(engine)


def _table(days: list[Day]) -> pa.Table:
    return pa.Table.from_pylist([one._asdict() for one in days], _TYPES)


def _is_used(day: Day, used: list[Span]) -> bool:
    return any(one.first_us <= day.first_us <= one.last_us for one in used)

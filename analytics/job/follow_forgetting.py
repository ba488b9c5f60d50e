"""Forgets messages that left their queues long ago: else the state of a follow grows with each one.

Some days of the log can still change: the last one, and a number before it. Of earlier days the
state keeps the rows that tables are made of (sums, rows of minutes and of ten seconds, messages
that were not just acknowledged) and deletes the rows that only a change would need: steps of
messages that were acknowledged, times that were measured, events of consumers, and message-ids.

1. A message that has a step of a day that is kept, or was not just acknowledged, keeps all its
   steps: so a new step of it takes back what it has contributed.
2. Measurements of an earlier day are not added (follow_changes.py): the rows of their minute would
   be made of them alone.
3. Rows are deleted when those that were made of them are in the state: after tables were published.
"""

from collections.abc import Iterator

from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.job.follow_changes import MEASURED_AT, Change
from leveret.analytics.job.follow_spans import latest_us
from leveret.analytics.job.follow_state import FollowState, positions
from leveret.analytics.tables.plausible import DAY_US

_NEW_STEPS = """
    select queue_key, message from state.steps where time_us >= {since_us}
        and message <= (select max(message) from state.steps where time_us < {since_us})
"""
"""Steps of days that are kept, of messages that can have earlier ones, too."""

_FORGOTTEN = f"""
    delete from state.steps where time_us < {{since_us}}
        and (queue_key, message) not in ({_NEW_STEPS})
        and (queue_key, message) not in (select queue_key, message from state.histories)
        and (queue_key, message) not in (select queue_key, message from state.open_holds)
"""
_TIMES = MEASURED_AT | {"ids": "time_us"}
"""Tables of which all rows of earlier days are deleted, and the column with the time."""


def kept_since(engine: DuckDBEngine, state: FollowState, keep_days: float) -> int | None:
    """Return the beginning of the first day to keep; None if nothing more is to be forgotten."""
    last_us = latest_us(engine, state)
    if last_us is None or keep_days >= last_us / DAY_US:
        # Nothing is older: the days may also be infinitely many.
        return None
    since_us = last_us - last_us % DAY_US - int(keep_days) * DAY_US
    return since_us if state.kept_since_us is None or since_us > state.kept_since_us else None


def forgotten(state: FollowState) -> Iterator[Change]:
    """Return the statements that delete rows older than `kept_since_us` of a state."""
    since_us = state.kept_since_us
    yield _FORGOTTEN.format(since_us=since_us), {}
    for table, time_us in _TIMES.items():
        yield f"delete from state.{table} where {time_us} < {since_us}", {}
    yield positions(state)

"""The changes that new records make to the state of a follow.

Records are counted, and the counts added to tables of sums (follow_sums.py). The steps of a message
in a queue come in several triggers, so they are kept. A trigger reads the earlier steps of the
messages of its own steps, and makes their histories twice: without the new steps and with them. The
contribution of the first ones to the tables is taken back, and that of the second ones is added:

    steps -> histories before, after -> times that were measured (n: 1, or -1 to take one back)
                                     -> events of consumers (likewise)
                                     -> sums by date, queue and consumer
                                     -> messages that are not just acknowledged (replaced)

Steps are found by message numbers, which are higher the later a message was published: blocks of
steps that have none of the numbers are not read.
"""

from collections.abc import Iterator

from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.job.follow_ranges import in_ranges
from leveret.analytics.job.follow_state import FollowState, positions
from leveret.analytics.job.follow_sums import ROWS_MIN, SUMMED
from leveret.analytics.tables import consumer_activity, event_tables, history_tables
from leveret.analytics.tables.engine import Values
from leveret.analytics.tables.queue_histories import (
    COME,
    FATES_VIEWS,
    HISTORIES,
    HOLDS_VIEWS,
    STEPS,
)

Change = tuple[str, Values]

MINUTE_US = 60_000_000
OF_MINUTE = f"{{0}} - (({{0}} % {MINUTE_US}) + {MINUTE_US}) % {MINUTE_US}"
"""The minute of a time, which may be before 1970."""
_BUCKET_BITS = 14
"""Messages are searched in ranges of numbers of this size, as a power of two."""

_NO_PURGES = """
    select cast(null as ubigint) as queue_key, cast(null as bigint) as time_us,
        cast(null as varchar) as reason where false
"""
"""The messages removed by a purge are found when the tables are made (queue_histories.py)."""

_MADE = {
    "fates": f"""
        select * exclude (purged, purge_reason), {history_tables.SEEN} as seen_us,
            fate = 'acknowledged' and dead is null
                and deliveries <= (select poison_above from limits) as is_quiet
        from fates_by_key
    """,
    "holds": "select * from holds",
    "measured": f"select *, {OF_MINUTE.format('end_us')} as minute_us from measured",
    "hold_events": "select * from hold_events",
}
"""The rows made of histories. is_quiet: tables need only sums of a message."""

_BOTH = "select *, 1 as n from {0}_after union all select *, -1 as n from {0}_before"
_DIFFERING = """
    select *, 1 as n from {0}_after anti join known using (queue_key, message) where {1}
    union all
    select * exclude (more), unnest(repeat([sign(more)], abs(more))) as n from (
        select * exclude (n), cast(sum(n) as bigint) as more from (
            select *, 1 as n from {0}_after semi join known using (queue_key, message) where {1}
            union all select *, -1 from {0}_before where {1}
        ) as both_times group by all having sum(n) != 0
    ) as differing
"""

MEASURED_AT = {"measured": "end_us", "hold_events": "time_us"}
"""Tables of measurements, and the column with the time of a row."""

_NEW_DETAILS = """
    select * from details anti join (
        select message from fates_after group by message having bool_and(is_quiet)
    ) as quiet using (message)
"""
_FORGOTTEN = f"""
    select count(*) from (
        select distinct message from fates_after where not is_quiet
    ) as noted anti join details using (message) anti join state.details using (message)
        anti join (
            select new_message as message from state.kept_events where event = 'dead_letter'
            union all select new_message from events where event = 'dead_letter'
        ) as letters using (message)
        semi join (
            select message from state.steps where code = {COME} and ({{}})
        ) as published using (message)
"""

_DOUBTFUL = "select id from new_ids group by id having count(*) > 1 union select id from old_ids"
_IDENTIFIED = """
    select * from new_ids semi join doubtful using (id)
    union all
    select vhost, queue, message_id, id, time_us, exchange, connection
    from (select * from old_ids anti join state.identified using (id)) as first_ones
        join (select distinct id, vhost, queue, message_id from new_ids) as named using (id)
"""
_KEPT_EVENTS = """
    select * from events
    where event in ('dead_letter', 'gap') or (event = 'drop' and count is not null)
"""

_ADDED = {
    "steps": "select * from new_steps",
    "step_buckets": "select * from new_buckets anti join state.step_buckets using (bucket)",
    "measured": "select * exclude (message) from changed_measured",
    "touched_minutes": "select distinct minute_us from changed_measured",
    "hold_events": "select * exclude (message) from changed_hold_events",
    "touched_holds": "select distinct queue_key, consumer_key, step_us from changed_hold_events",
    "ids": "select id, time_us, exchange, connection from new_ids",
    "identified": _IDENTIFIED,
    "details": "select * from new_details",
    "kept_events": _KEPT_EVENTS,
    "rejected": "select wrong, text, file, line, lost from rejected",
} | {name: f"select * from added_{name}" for name in SUMMED}
"""Rows that are added to tables of the state."""
_REPLACED = {
    "histories": "select * exclude (fate, seen_us, is_quiet) from fates_after where not is_quiet",
    "open_holds": "select * from holds_after where ended is null",
}
"""Rows that take the places of those of the same messages."""


class ForgottenError(Exception):
    """Details of a publish are needed, and were deleted since its message was acknowledged."""


class Changes:
    """The changes by the records of the views `valid`, `events` and `rejected`.

    The view `limits` is needed, too.
    """

    def __init__(self, engine: DuckDBEngine, state: FollowState) -> None:
        """Find the changes. Raises ForgottenError, and OSError."""
        self._engine = engine
        self._state = state
        self._stage_histories()
        self._stage_ids()
        self._stage_details()
        for name, one in SUMMED.items():
            engine.stage(f"added_{name}", one.query)
            self._create(name, f"added_{name}")
        self._create("rejected", f"({_ADDED['rejected']})")

    def statements(self) -> Iterator[Change]:
        """Return the statements that make the changes; each is to be run before the next."""
        for table, rows in _ADDED.items():
            yield f"insert into state.{table} by name {rows}", {}
        for table, rows in _REPLACED.items():
            touched = "select queue_key, message from touched"
            yield f"delete from state.{table} where (queue_key, message) in ({touched})", {}
            yield f"insert into state.{table} by name {rows}", {}
        if not self._state.keeps_details:
            yield (
                "delete from state.details where message in (select message from touched)"
                " and message not in (select message from state.histories)", {},
            )  # fmt: skip
        yield from self._summed_up()
        yield positions(self._state)

    def _create(self, table: str, rows: str) -> None:
        """Create a table of the state if there is none, with the columns of rows."""
        self._engine.change(
            [(f"create table if not exists state.{table} as select * from {rows} limit 0", {})]
        )

    def _stage_histories(self) -> None:
        engine = self._engine
        engine.stage("new_steps", STEPS)
        engine.stage("touched", "select distinct queue_key, message from new_steps")
        engine.stage(
            "new_buckets", f"select distinct message >> {_BUCKET_BITS} as bucket from touched"
        )
        self._create("steps", "new_steps")
        self._create("step_buckets", "new_buckets")
        known = "select bucket from new_buckets semi join state.step_buckets using (bucket)"
        first = [bucket << _BUCKET_BITS for (bucket,) in engine.rows(known)]
        self._ranges = in_ranges("message", first, 1 << _BUCKET_BITS)
        engine.stage(
            "old_steps",
            "select * from state.steps semi join touched using (queue_key, message)"
            f" where {self._ranges}",
        )
        engine.stage("known", "select distinct queue_key, message from old_steps")
        self._make("before", "select * from old_steps")
        self._make("after", "select * from old_steps union all select * from new_steps")
        for name in ("fates", "holds"):
            engine.view(f"changed_{name}", _BOTH.format(name))
        for name, time_us in MEASURED_AT.items():
            engine.stage(f"changed_{name}", _DIFFERING.format(name, self._is_kept(time_us)))
        for table in ("measured", "hold_events", "touched_minutes", "touched_holds"):
            self._create(table, f"({_ADDED[table]})")
        for table, rows in _REPLACED.items():
            self._create(table, f"({rows})")

    def _is_kept(self, time_us: str) -> str:
        """Return the condition that the time of a row, a column, can still change."""
        since_us = self._state.kept_since_us
        return "true" if since_us is None else f"{time_us} >= {since_us}"

    def _make(self, name: str, steps: str) -> None:
        """Make histories of steps, and of them what _MADE names."""
        engine = self._engine
        engine.view("steps", steps)
        engine.stage("histories", HISTORIES)
        engine.view("purges", _NO_PURGES)
        for view, query in (FATES_VIEWS | HOLDS_VIEWS).items():
            engine.view(view, query)
        engine.view("measured", history_tables.MEASURED)
        engine.view("hold_events", consumer_activity.hold_events(", message, is_acked"))
        for made, query in _MADE.items():
            engine.stage(f"{made}_{name}", query)

    def _stage_ids(self) -> None:
        engine = self._engine
        engine.stage("new_ids", event_tables.IDENTIFIED)
        self._create("ids", f"({_ADDED['ids']})")
        self._create("identified", "new_ids")
        engine.stage("old_ids", "select * from state.ids semi join new_ids using (id)")
        engine.stage("doubtful", _DOUBTFUL)

    def _stage_details(self) -> None:
        engine = self._engine
        engine.view("details", history_tables.DETAILS)
        self._create("details", "details")
        self._create("kept_events", "events")
        keeps_all = self._state.keeps_details
        engine.stage("new_details", "select * from details" if keeps_all else _NEW_DETAILS)
        if not keeps_all:
            [(forgotten,)] = engine.rows(_FORGOTTEN.format(self._ranges))
            if forgotten:
                raise ForgottenError

    def _summed_up(self) -> Iterator[Change]:
        for name, one in SUMMED.items():
            if self._rows_of(name) > 2 * self._state.rows.get(name, 0) + ROWS_MIN:
                table = f"state.{name}"
                yield f"create or replace table {table} as {one.summed(table)}", {}
                self._state.rows[name] = self._rows_of(name)

    def _rows_of(self, table: str) -> int:
        [(rows,)] = self._engine.rows(f"select count(*) from state.{table}")
        return int(rows)

"""Makes the tables of the state of a follow, by the queries of the batch job.

Tables whose rows are of a minute, or of ten seconds, are kept in the state, and remade for the
times in which something has changed: latency from measured times, and the activity of consumers
from their events. Rows of consumers depend on earlier ones, so the later ones are remade, too. All
other tables are made of sums, and of the messages that are not just acknowledged.
"""

from collections.abc import Iterator

import pyarrow as pa

from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.job.follow_changes import MINUTE_US, OF_MINUTE, Change
from leveret.analytics.job.follow_ranges import in_ranges
from leveret.analytics.job.follow_sums import SUMMED
from leveret.analytics.job.job import QUERIES, JobOptions, stage_flows
from leveret.analytics.tables import (
    consumer_activity,
    history_tables,
    queue_levels,
    stream_tables,
)
from leveret.analytics.tables.dead_letters import stage_hops
from leveret.analytics.tables.queue_histories import FATES_VIEWS, KIND_KEYS, PURGES

_NET = """
    with wanted as (select {columns}, n from {rows}), taken as (
        select distinct {key} from wanted where n < 0
    )
    select {columns} from wanted anti join taken using ({key})
    union all
    select {columns} from (
        select *, unnest(range(rows_left)) as place from (
            select {columns}, cast(sum(n) as bigint) as rows_left
            from wanted semi join taken using ({key}) group by {columns} having sum(n) > 0
        ) as counted
    ) as left_over
"""
"""Rows that were not taken back. key: the columns by which those that were are found."""

_OF_MINUTES = {
    "latency": (QUERIES["latency"], "minute in (select minute from minutes)"),
    "latency_histogram": (
        QUERIES["latency_histogram"], "minute in (select minute from minutes)",
    ),
    "waits": (
        queue_levels.WAITS, f"{OF_MINUTE.format('at_us')} in (select minute_us from minutes)",
    ),
}  # fmt: skip
"""Tables that are made of the view `measured`, and which of their rows are of the view `minutes`"""

_LAST_ACKS = """
    select to_date(timestamp_micros(time_us - took)) as date, queue_key, consumer_key, step_us,
        max(time_us) as last_ack_us
    from hold_events where is_acked and settled > 0 group by 1, 2, 3, 4
"""
_OF_CONSUMERS = {
    "hold_steps": "step_us", "mark_steps": "step_us", "last_acks": "step_us",
    "consumer_steps": "at_us", "kind_steps": "step_us",
}  # fmt: skip
"""Tables that are made of the view `hold_events`, and the column with the time of a row."""

_FATE_COUNTS = f"""
    select date, queue_key, fate, sum(messages) as messages from (
        {history_tables.FATE_COUNTS}
        union all select date, queue_key, 'acknowledged', messages from state.acknowledged
    ) as counts group by 1, 2, 3 having sum(messages) != 0
"""

_HELD = f"""
    with ends as (select max(last_us) as last_us from flows), ranked as (
        select *, sum(messages) over (partition by date, queue_key, consumer_key order by took)
                as up_to,
            sum(messages) over (partition by date, queue_key, consumer_key) as total
        from ({SUMMED["took"].summed("state.took")}) as took
    ), parts as (
        select date, queue_key, consumer_key, acknowledged, 0 as unacknowledged, unacked_us,
            null as took, null as last_ack_us, null as oldest_us
        from state.held_sums
        union all
        select to_date(timestamp_micros(delivered)), queue_key, consumer_key, 0, weight,
            weight * (last_us - delivered), null, null, delivered
        from state.open_holds cross join ends
        union all
        select date, queue_key, consumer_key, 0, 0, 0, [
                min(took) filter (up_to >= (total + 1) // 2),
                min(took) filter (up_to >= (total * 99 + 99) // 100)
            ], null, null
        from ranked group by 1, 2, 3
        union all
        select date, queue_key, consumer_key, 0, 0, 0, null, last_ack_us, null
        from state.last_acks
    )
    select date, queue_key, consumer_key, sum(acknowledged) as acknowledged,
        sum(unacknowledged) as unacknowledged, any_value(took) as took,
        sum(unacked_us) as unacked_us, max(last_ack_us) as last_ack_us,
        min(oldest_us) as oldest_us
    from parts group by 1, 2, 3
"""

_VIEWS = {
    "records": "select * from state.rejected",
    "events": "select * from state.kept_events",
    "histories": "select * from state.histories",
    "purges": PURGES,
    **FATES_VIEWS,
    "fate_counts": _FATE_COUNTS,
    "details": "select * from state.details",
    "identified": "select * from state.identified",
    **{
        name: SUMMED[name].summed(f"state.{name}")
        for name in ("seconds", "priority_steps", "requests", "reply_steps", "delivered_kinds")
    },
    "waits": "select * from state.waits",
    "consumer_steps": "select * from state.consumer_steps",
    "kind_steps": "select * from state.kind_steps",
    "kind_keys": KIND_KEYS,
    "held": _HELD,
}

TABLES = (
    QUERIES
    | {name: SUMMED[name].summed(f"state.{name}") for name in ("sizes", "publishers", "kinds")}
    | {name: f"select * from state.{name}" for name in ("latency", "latency_histogram")}
)
"""The tables, made from the views of `stage`."""


def stage(engine: DuckDBEngine, options: JobOptions) -> None:
    """Make the views that the queries of the tables read. Raises OSError."""
    engine.put("limits", pa.table({"poison_above": [options.poison_above]}))
    engine.stage("flows_by_key", SUMMED["flows_by_key"].summed("state.flows_by_key"))
    stage_flows(engine)
    _stage_latency(engine)
    _stage_consumers(engine)
    engine.change(_remade())
    for name, query in _VIEWS.items():
        engine.view(name, query)
    queue_levels.stage_levels(engine)
    engine.stage("stream_steps", SUMMED["stream_steps"].summed("state.stream_steps"))
    stream_tables.stage_streams(engine)
    stage_hops(engine)


def _stage_latency(engine: DuckDBEngine) -> None:
    """Make the rows of minutes in which other times were measured."""
    engine.stage(
        "minutes",
        "select distinct minute_us, date_trunc('minute', timestamp_micros(minute_us)) as minute"
        " from state.touched_minutes",
    )
    minutes = [minute_us for (minute_us,) in engine.rows("select minute_us from minutes")]
    rows = (
        "(select * from state.measured semi join minutes using (minute_us)"
        f" where {in_ranges('minute_us', minutes, MINUTE_US)}) as touched"
    )
    columns = "queue_key, weight, measure, end_us, took"
    key = "queue_key, measure, end_us"
    engine.stage("measured", _NET.format(columns=columns, key=key, rows=rows))
    for name, (query, _) in _OF_MINUTES.items():
        _stage_remade(engine, name, query)


def _stage_consumers(engine: DuckDBEngine) -> None:
    """Make the rows of consumers, from the first ten seconds on in which events have changed."""
    engine.stage(
        "first_holds",
        "select queue_key, consumer_key, min(step_us) as since_us from state.touched_holds"
        " group by 1, 2",
    )
    [(since_us,)] = engine.rows("select coalesce(min(since_us), 0) from first_holds")
    rows = (
        "(select hold_events.* from state.hold_events as hold_events join first_holds"
        " using (queue_key, consumer_key)"
        f" where step_us >= {since_us} and step_us >= since_us) as touched"
    )
    columns = (
        "queue_key, consumer_key, kind_key, time_us, held, settled, took, rejected, sent_back,"
        " is_acked, step_us"
    )
    key = "queue_key, consumer_key, time_us"
    engine.stage("hold_events", _NET.format(columns=columns, key=key, rows=rows))
    _stage_remade(engine, "last_acks", _LAST_ACKS)
    _stage_remade(engine, "hold_steps", consumer_activity.HOLD_STEPS)
    engine.view("hold_steps", _with_earlier("hold_steps"))
    engine.stage("marked_events", consumer_activity.MARKED_EVENTS)
    _stage_remade(engine, "mark_steps", consumer_activity.MARK_STEPS)
    engine.view("mark_steps", _with_earlier("mark_steps"))
    _stage_remade(engine, "consumer_steps", consumer_activity.CONSUMER_STEPS)
    _stage_remade(engine, "kind_steps", consumer_activity.KIND_STEPS)


def _stage_remade(engine: DuckDBEngine, table: str, query: str) -> None:
    """Make rows for a table of the state, which is created if there is none."""
    engine.stage(f"remade_{table}", query)
    create = f"create table if not exists state.{table} as select * from remade_{table} limit 0"
    engine.change([(create, {})])


def _with_earlier(table: str) -> str:
    """Return a query for remade rows, and those of the same consumers that are still right."""
    return f"""
        select {table}.* from state.{table} as {table}
            join first_holds using (queue_key, consumer_key)
        where {_OF_CONSUMERS[table]} < since_us
        union all by name select * from remade_{table}
    """


def _remade() -> Iterator[Change]:
    """Return the statements that replace rows of the state by remade ones."""
    for table, (_, of_minutes) in _OF_MINUTES.items():
        yield f"delete from state.{table} where {of_minutes}", {}
    for table, time_us in _OF_CONSUMERS.items():
        yield (
            f"delete from state.{table} as earlier using first_holds where"
            " earlier.queue_key = first_holds.queue_key"
            " and earlier.consumer_key = first_holds.consumer_key"
            f" and earlier.{time_us} >= since_us", {},
        )  # fmt: skip
    for table in (*_OF_MINUTES, *_OF_CONSUMERS):
        yield f"insert into state.{table} by name select * from remade_{table}", {}
    for touched in ("touched_minutes", "touched_holds"):
        yield f"delete from state.{touched}", {}

"""The analysis job: reads trace logs and writes all tables, with any engine.

    logs -> records (parsed once) -> flows and queue histories -> tables -> anomalies, report

The result of each step is kept below `_work` in the output directory, so memory use is bounded by
what the engine processes at a time.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from leveret.analytics.job.progress import JobProgress
from leveret.analytics.report.report_file import report_path, write_report
from leveret.analytics.tables import (
    consumer_activity,
    event_tables,
    flow_tables,
    history_tables,
    key_tables,
    queue_levels,
    reply_tables,
    stream_tables,
)
from leveret.analytics.tables.anomalies import ANOMALIES, open_series
from leveret.analytics.tables.copied_events import count_once
from leveret.analytics.tables.dead_letters import QUERIES as DEAD_LETTERS
from leveret.analytics.tables.dead_letters import stage_hops
from leveret.analytics.tables.engine import Engine, FinalRows, ReadCounts
from leveret.analytics.tables.plausible import implausible
from leveret.analytics.tables.queue_histories import (
    CONSUMER_KEYS,
    DELIVERED_KINDS,
    FATES_VIEWS,
    HISTORIES,
    HOLDS_VIEWS,
    KEPT_VIEWS,
    KIND_KEYS,
    PURGES,
    QUEUE_KEYS,
    STEPS,
)
from leveret.analytics.tables.tables import BY_NAME
from leveret.analytics.tables.trust import TRUST, LeftOut, put_faults
from leveret.analytics.traces.local_files import is_local, local_path, replace_file
from leveret.analytics.traces.trace_files import EVERYTHING, TraceWindow

_REJECTED = """
    select file, line, wrong as reason, text,
        try_cast(nullif(regexp_extract(file, '/date=([0-9-]{10})/', 1), '') as date) as date
    from records where wrong is not null
"""
_VALID = "select * from records where wrong is null"

QUERIES = {
    **flow_tables.QUERIES,
    **queue_levels.QUERIES,
    **key_tables.QUERIES,
    **event_tables.QUERIES,
    **DEAD_LETTERS,
    **history_tables.QUERIES,
    **consumer_activity.QUERIES,
    **stream_tables.QUERIES,
    **reply_tables.QUERIES,
}
"""The tables that are made from records, by name."""


class JobOptions(NamedTuple):
    """What to analyse and where to write it.

    poison_above: a message delivered more often than this counts as poison. only: the tables to
    write; empty for all. since: the first date to make, as YYYY-MM-DD; rows of earlier dates are
    taken over from the tables of the run before.
    """

    directory: str
    out: str
    window: TraceWindow = EVERYTHING
    poison_above: int = 5
    only: tuple[str, ...] = ()
    since: str = ""

    @property
    def work(self) -> str:
        """The directory for intermediate data."""
        return f"{self.out}/_work"


class Made(NamedTuple):
    """The sources of tables, beside views. queries: by table.

    beside: contents of files, by name, that are published together with the tables.
    """

    reading: ReadCounts
    left_out: LeftOut
    queries: Mapping[str, str] = QUERIES
    beside: Mapping[str, bytes] = {}


def analyze(engine: Engine, options: JobOptions, progress: JobProgress) -> ReadCounts:
    """Read the logs and write all tables. Raises FileNotFoundError if there is no directory."""
    engine.expect(progress.events)
    with progress.step("reading"):
        reading = engine.read(options.directory, options.window)
        progress.events = reading.events
    write_tables(engine, options, progress, reading)
    return reading


def write_tables(
    engine: Engine, options: JobOptions, progress: JobProgress, reading: ReadCounts
) -> None:
    """Write all tables from the view `records`, and publish them."""
    engine.expect(progress.events)
    left_out = _stage(engine, options, progress)
    write_staged(engine, options, progress, Made(reading, left_out))


def _stage(engine: Engine, options: JobOptions, progress: JobProgress) -> LeftOut:
    """Make all views that the queries of the tables read."""
    engine.view("valid", _VALID)
    with progress.step("trust"):
        left_out = LeftOut(implausible(engine), count_once(engine))
    with progress.step("flows"):
        engine.stage("flows_by_key", flow_tables.FLOWS_BY_KEY)
        stage_flows(engine)
    with progress.step("queue histories"):
        engine.view("steps", STEPS)
        engine.stage("purges", PURGES)
        engine.stage("histories", HISTORIES)
        view_histories(engine, options)
    with progress.step("queue levels"):
        engine.view("seconds", queue_levels.SECONDS)
        queue_levels.stage_levels(engine)
    with progress.step("consumer steps"):
        consumer_activity.stage_activity(engine)
    with progress.step("streams"):
        engine.stage("stream_steps", stream_tables.STREAM_STEPS)
        stream_tables.stage_streams(engine)
    with progress.step("dead letters"):
        stage_hops(engine)
    engine.view("delivered_kinds", DELIVERED_KINDS)
    engine.stage("kind_keys", KIND_KEYS)
    engine.view("identified", event_tables.IDENTIFIED)
    engine.view("priority_steps", event_tables.PRIORITY_STEPS)
    engine.view("requests", reply_tables.REQUESTS)
    engine.view("reply_steps", reply_tables.REPLY_STEPS)
    return left_out


def stage_flows(engine: Engine) -> None:
    """Make the view `flows` of the view `flows_by_key`, and those of names."""
    for name, query in key_tables.VIEWS.items():
        engine.view(name, query)
    engine.stage("flows", flow_tables.FLOWS)
    engine.view("queue_keys", QUEUE_KEYS)
    engine.view("consumer_keys", CONSUMER_KEYS)


def view_histories(engine: Engine, options: JobOptions) -> None:
    """Make the views that depend on the views `histories`, `steps` and `purges`."""
    for name, query in (FATES_VIEWS | HOLDS_VIEWS | history_tables.VIEWS).items():
        make = engine.stage if name in KEPT_VIEWS else engine.view
        make(name, query)
    engine.view("waits", queue_levels.WAITS)
    engine.put("limits", pa.table({"poison_above": [options.poison_above]}))


def write_staged(engine: Engine, options: JobOptions, progress: JobProgress, made: Made) -> None:
    """Write all tables from the views that their queries read, and publish them."""
    where = engine.begin(options.out)
    kept = FinalRows(engine.published(options.out), options.since) if options.since else None

    def write(name: str, query: str) -> None:
        with progress.step(name):
            engine.write_table(query, BY_NAME[name], where, kept)

    write("rejected", _REJECTED)
    put_faults(engine, made.reading, made.left_out)
    engine.write_table(TRUST, BY_NAME["trust"], where)
    for name, query in made.queries.items():
        if name in (options.only or made.queries):
            write(name, query)
    if not options.only:
        open_series(engine, where)
        write("anomalies", ANOMALIES)
        if is_local(where):
            with progress.step("report"):
                engine.expect(0)
                write_report(engine, where, report_path(where))
    for name, content in made.beside.items():
        replace_file(Path(local_path(where)) / name, content)
    engine.publish(options.out, where)

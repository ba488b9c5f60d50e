"""The analysis job: reads trace logs and writes all tables.

    logs -> records (parsed once) -> flows and queue histories -> tables -> anomalies, report

The result of each step is written below `_work` in the output directory, so memory use is bounded
by what Spark's workers process at a time. The driver collects file names and the report's sums
only.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from leveret.analytics.anomalies import anomaly_table
from leveret.analytics.dead_letters import dead_letter_tables, stage_hops
from leveret.analytics.event_tables import event_tables
from leveret.analytics.files import delete_directory
from leveret.analytics.flow_tables import flow_tables
from leveret.analytics.history_tables import history_tables
from leveret.analytics.output import BY_NAME, write_table
from leveret.analytics.progress import Progress
from leveret.analytics.queue_histories import stage_histories
from leveret.analytics.reading import EVERYTHING, read_trace
from leveret.analytics.report import report_path, write_report
from leveret.analytics.staging import stage_flows, stage_records
from leveret.analytics.tables import TABLES
from leveret.analytics.trace_files import Window

WORK = "_work"
EVENTS_PER_PARTITION = 500_000
"""Events that one task of a shuffle processes: about 50 MB."""

WEIGHTS = {
    "reading": 24.0, "flows": 6.0, "queue histories": 19.0, "dead letters": 2.5,
    **{table.name: 0.3 for table in TABLES}, "depth": 4.5, "sizes": 1.5, "duplicates": 6.0,
    "dead_letter_paths": 1.5, "latency": 5.5, "latency_histogram": 2.0, "outcomes": 2.0,
    "fates": 10.0, "poison": 3.0, "consumers": 13.0, "report": 0.5,
}  # fmt: skip

_REJECTED = """
    coalesce(to_date(nullif(regexp_extract(file, '/date=([0-9-]{10})/', 1), '')),
        date'1970-01-01') as date
"""


class Options(NamedTuple):
    """What to analyse and where to write it.

    poison_above: a message delivered more often than this counts as poison. only: the tables to
    write; empty for all. since: the first date to write, as YYYY-MM-DD; earlier dates are left
    unchanged.
    """

    directory: str
    out: str
    window: Window = EVERYTHING
    poison_above: int = 5
    only: tuple[str, ...] = ()
    since: str = ""


class Outcome(NamedTuple):
    """Counts of a finished run: records read, records rejected, log files."""

    events: int
    rejected: int
    files: int


def analyze(session: SparkSession, options: Options) -> Outcome:
    """Read the logs and write all tables. Raises FileNotFoundError if there is no directory."""
    progress = Progress(session.sparkContext, WEIGHTS)
    work = f"{options.out}/{WORK}"
    try:
        with progress.step("reading"):
            reading = read_trace(session, options.directory, options.window)
            records = stage_records(session, reading, f"{work}/records")
            progress.rows = records.count()
        write_tables(session, records, options, progress)
        return Outcome(
            progress.rows, records.where("wrong is not null").count(), reading.file_count
        )
    finally:
        delete_directory(session, work)


def write_tables(
    session: SparkSession, records: DataFrame, options: Options, progress: Progress
) -> None:
    """Write all tables from the staged records."""
    work = f"{options.out}/{WORK}"
    wrong = records.where("wrong is not null").selectExpr("file", "line", "wrong as reason", "text")
    rejected = wrong.selectExpr("*", _REJECTED)
    with progress.step("rejected"):
        write_table(rejected, BY_NAME["rejected"], options.out, options.since)
    records.where("wrong is null").createOrReplaceTempView("events")
    partitions = max(2, session.sparkContext.defaultParallelism, _parts(progress.rows))
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    with progress.step("flows"):
        stage_flows(session, f"{work}/flows")
    with progress.step("queue histories"):
        stage_histories(session, f"{work}/histories")
    with progress.step("dead letters"):
        stage_hops(session, f"{work}/hops")
    tables = {
        **flow_tables(session),
        **event_tables(session),
        **dead_letter_tables(session),
        **history_tables(session, options.poison_above),
    }
    wanted = {name: rows for name, rows in tables.items() if name in (options.only or tables)}
    for name, rows in wanted.items():
        with progress.step(name):
            write_table(rows, BY_NAME[name], options.out, options.since)
    if not options.only:
        with progress.step("anomalies"):
            rows = anomaly_table(session, options.out)
            write_table(rows, BY_NAME["anomalies"], options.out, options.since)
        with progress.step("report"):
            # Only sums are shuffled from here on: two tasks are enough.
            session.conf.set("spark.sql.shuffle.partitions", "2")
            write_report(session, options.out, report_path(options.out))


def _parts(events: int) -> int:
    return -(-events // EVENTS_PER_PARTITION)

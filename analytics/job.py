"""The job: reads trace logs and writes all tables.

    logs -> records (parsed once) -> flows and lives (counted, joined) -> tables -> anomalies

Between the steps everything is on disk, below `_work` in the output directory, so memory holds no
more than what Spark's workers are at. Nothing is collected to the driver but names of files.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from analytics.anomalies import anomaly_table
from analytics.dead_letters import dead_letter_tables, stage_hops
from analytics.event_tables import event_tables
from analytics.files import delete_directory
from analytics.flow_tables import flow_tables
from analytics.life_tables import life_tables
from analytics.lives import stage_lives
from analytics.output import BY_NAME, write_table
from analytics.progress import Progress
from analytics.reading import EVERYTHING, read_trace
from analytics.report import report_path, write_report
from analytics.staging import stage_flows, stage_records
from analytics.tables import TABLES
from analytics.trace_files import Window

WORK = "_work"
EVENTS_PER_PARTITION = 500_000
"""Events that a task of a shuffle has: some 50 MB."""

WEIGHTS = {
    "reading": 24.0, "flows": 6.0, "lives": 19.0, "dead letters": 2.5,
    **{table.name: 0.3 for table in TABLES}, "depth": 4.5, "sizes": 1.5, "duplicates": 6.0,
    "dead_letter_paths": 1.5, "latency": 5.5, "latency_histogram": 2.0, "outcomes": 2.0,
    "fates": 10.0, "poison": 3.0, "consumers": 13.0, "report": 0.5,
}  # fmt: skip

_REJECTED = """
    coalesce(to_date(nullif(regexp_extract(file, '/date=([0-9-]{10})/', 1), '')),
        date'1970-01-01') as date
"""


class Options(NamedTuple):
    """What to do. poison_above: messages delivered more often are poison. only: some tables.

    since: the first date that is written; earlier ones stay as they are.
    """

    directory: str
    out: str
    window: Window = EVERYTHING
    poison_above: int = 5
    only: tuple[str, ...] = ()
    since: str = ""


class Outcome(NamedTuple):
    """What was done."""

    events: int
    rejected: int
    files: int


def analyze(session: SparkSession, options: Options) -> Outcome:
    """Read the logs, and write all tables. Raises FileNotFoundError."""
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
    """Write all tables from staged records."""
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
    with progress.step("lives"):
        stage_lives(session, f"{work}/lives")
    with progress.step("dead letters"):
        stage_hops(session, f"{work}/hops")
    tables = {
        **flow_tables(session),
        **event_tables(session),
        **dead_letter_tables(session),
        **life_tables(session, options.poison_above),
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
            # What is shuffled is sums, which a few tasks are enough for.
            session.conf.set("spark.sql.shuffle.partitions", "2")
            write_report(session, options.out, report_path(options.out))


def _parts(events: int) -> int:
    return -(-events // EVENTS_PER_PARTITION)

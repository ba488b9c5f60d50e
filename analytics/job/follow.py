"""`--follow`: updates the tables while logs are being written, with Structured Streaming.

The stream lists new files; its checkpoint records which were processed. Each batch of files is read
like in the batch job, and its records are staged in a directory named after the batch, which
replaces what an interrupted attempt left there. So every record is staged exactly once, whenever
the job is stopped. The tables are then written from all staged records, and are equal to what the
batch job makes of the same files.

Data older than the watermark (a number of days before the latest event) is released: batches
without later events are deleted, and tables of earlier dates are final.
"""

import signal
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from leveret.analytics.job.cluster import refuse_local_paths
from leveret.analytics.job.costs import COSTS
from leveret.analytics.job.engines import SPARK
from leveret.analytics.job.files import clear_directory, exists
from leveret.analytics.job.job import JobOptions, write_tables
from leveret.analytics.job.progress import JobProgress
from leveret.analytics.job.reading import read_files
from leveret.analytics.job.session import start_session
from leveret.analytics.job.spark_engine import SparkEngine
from leveret.analytics.job.staging import stage_records
from leveret.analytics.traces.schema import SQL_COLUMNS
from leveret.analytics.traces.trace_files import described
from leveret.broker.tracing.record import SUFFIXES

STATE = "_follow"
LOOK_SECONDS = 1
"""Seconds between checks for an interrupt."""
_FILES = "path string, modificationTime timestamp, length bigint, content binary"


def run_follow(
    options: JobOptions,
    paths: Sequence[str],
    master: str | None,
    every_seconds: float,
    keep_days: int,
) -> None:
    """Start Spark and follow until Ctrl-C. paths: those that the workers must be able to open.

    Raises KeyboardInterrupt, JavaMissingError, EngineError.
    """
    session = start_session(master)
    try:
        refuse_local_paths(session, paths)
        follow(session, options, every_seconds, keep_days)
    finally:
        session.stop()


def follow(
    session: SparkSession, options: JobOptions, every_seconds: float | None, keep_days: int
) -> None:
    """Process files as they are completed. every_seconds: None processes existing files and
    returns.
    """
    files = session.readStream.format("binaryFile").schema(_FILES)
    files = files.option("pathGlobFilter", f"*{{{','.join(SUFFIXES)}}}")
    files = files.option("recursiveFileLookup", "true")
    # Without `content` Spark does not read the files here.
    paths = files.load(options.directory).select("path", "length")
    writer = paths.writeStream.foreachBatch(
        lambda batch, number: _process_batch(session, options, keep_days, batch, number)
    ).option("checkpointLocation", f"{options.out}/{STATE}/checkpoint")
    if every_seconds is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{every_seconds} seconds")
    _await(writer.start())


def _await(query: StreamingQuery) -> None:
    """Wait until the query ends. Ctrl-C lets the current batch finish; a second one ends at once.

    Raises KeyboardInterrupt.
    """
    interrupted = threading.Event()

    def interrupt(*_signal: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        while not query.awaitTermination(LOOK_SECONDS):
            if interrupted.is_set() and not query.status["isTriggerActive"]:
                query.stop()
                raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, before)


def _process_batch(
    session: SparkSession, options: JobOptions, keep_days: int, batch: DataFrame, number: int
) -> None:
    """Stage the records of new files, and write the tables."""
    staged = f"{options.out}/{STATE}/records"
    path = F.regexp_replace("path", "^file:/*", "/").alias("path")
    found = [described(row.path, row.length) for row in batch.select(path, "length").collect()]
    files = [file for file in found if options.window.meets(file)]
    with SparkEngine(session, options.work) as engine:
        progress = JobProgress(engine.parts, COSTS[SPARK])
        with progress.step("reading"):
            reading = read_files(session, files, options.window)
            stage_records(session, reading, f"{staged}/batch={number}")
            records = _staged_records(session, staged)
        since = _release_old(session, records, options, keep_days)
        if since:
            records = _staged_records(session, staged)
        read = engine.open_records(records, files, reading.copies)
        progress.events = read.events
        write_tables(engine, options._replace(since=since), progress, read)


def _staged_records(session: SparkSession, staged: str) -> DataFrame:
    return session.read.schema(f"{SQL_COLUMNS}, batch int").parquet(staged)


def _release_old(
    session: SparkSession, records: DataFrame, options: JobOptions, keep_days: int
) -> str:
    """Delete batches older than the watermark, and return the first date that is not final."""
    rows: list[Any] = records.groupBy("batch").agg(F.max("time_us").alias("last")).collect()
    latest = max((row.last for row in rows if row.last is not None), default=0)
    watermark = datetime.fromtimestamp(latest / 1e6, UTC) - timedelta(days=keep_days)
    old = [row.batch for row in rows if (row.last or latest) < watermark.timestamp() * 1e6]
    state = f"{options.out}/{STATE}"
    if old:
        session.range(1).write.mode("overwrite").parquet(f"{state}/released")
    for batch in old:
        clear_directory(session, f"{state}/records/batch={batch}")
    # Once records were released, their dates cannot be made again.
    is_partial = bool(old) or exists(session, f"{state}/released")
    return str(watermark.date() + timedelta(days=1)) if is_partial else ""

"""`--follow`: the same tables while logs are being written, by Structured Streaming.

The stream tells which files are new; its checkpoint remembers which were taken. Each batch of
files is read as the batch job reads them, and its records are staged in a directory named by the
batch, in place of what an interrupted attempt at it has left: so every record is there exactly
once, whenever the job is stopped. Then the tables are written from all staged records, and are what
the batch job would have made of the same files.

What is older than the watermark (days before the latest event) is let go: batches with nothing
later are deleted, and tables of earlier dates are final.
"""

import re
import signal
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from analytics.files import delete_directory
from analytics.job import WEIGHTS, WORK, Options, write_tables
from analytics.progress import Progress
from analytics.reading import read_files
from analytics.staging import stage_records
from analytics.trace_files import described
from broker.tracing.record import SUFFIX

STATE = "_follow"
LOOK_SECONDS = 1
"""How often it looks whether somebody wants it to end."""
_FILES = "path string, modificationTime timestamp, length bigint, content binary"


def follow(
    session: SparkSession, options: Options, every_seconds: float | None, keep_days: int
) -> None:
    """Take files as they are completed. every_seconds: None takes those there are, and ends."""
    files = session.readStream.format("binaryFile").schema(_FILES)
    files = files.option("pathGlobFilter", f"*{SUFFIX}").option("recursiveFileLookup", "true")
    # Without `content` nothing of the files is read here.
    paths = files.load(options.directory).select("path", "length")
    writer = paths.writeStream.foreachBatch(
        lambda batch, number: _take(session, options, keep_days, batch, number)
    ).option("checkpointLocation", f"{options.out}/{STATE}/checkpoint")
    if every_seconds is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{every_seconds} seconds")
    _await(writer.start())


def _await(query: StreamingQuery) -> None:
    """Until it ends, or Ctrl-C is pressed: then the batch that is being taken is ended first.

    Pressed again it ends at once. Raises KeyboardInterrupt.
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


def _take(
    session: SparkSession, options: Options, keep_days: int, batch: DataFrame, number: int
) -> None:
    """Stage the records of new files, and write the tables."""
    staged = f"{options.out}/{STATE}/records"
    path = F.regexp_replace("path", "^file:/*", "/").alias("path")
    found = [described(row.path, row.length) for row in batch.select(path, "length").collect()]
    files = [file for file in found if options.window.meets(file)]
    progress = Progress(session.sparkContext, WEIGHTS)
    with progress.step("reading"):
        reading = read_files(session, files, options.window)
        stage_records(session, reading, f"{staged}/batch={number}")
        records = session.read.parquet(staged)
        progress.rows = records.count()
    since = _let_go(session, records, staged, keep_days, number)
    if since:
        records = session.read.parquet(staged)
    write_tables(session, records, options._replace(since=since), progress)
    delete_directory(session, f"{options.out}/{WORK}")


def _let_go(
    session: SparkSession, records: DataFrame, staged: str, keep_days: int, number: int
) -> str:
    """Delete batches that are older than the watermark; the first date that is not final."""
    rows: list[Any] = records.groupBy("batch").agg(F.max("time_us").alias("last")).collect()
    latest = max((row.last for row in rows if row.last is not None), default=0)
    watermark = datetime.fromtimestamp(latest / 1e6, UTC) - timedelta(days=keep_days)
    old = [row.batch for row in rows if (row.last or latest) < watermark.timestamp() * 1e6]
    for batch in old:
        delete_directory(session, f"{staged}/batch={batch}")
    # Batches are numbered from 0 on, so a number that is missing was let go earlier.
    is_partial = bool(old) or len(_batches(records)) <= number
    return str(watermark.date() + timedelta(days=1)) if is_partial else ""


def _batches(records: DataFrame) -> set[str]:
    """The batches that are staged, also those of which nothing was of interest."""
    return set(re.findall(r"/batch=(\d+)/", "\n".join(records.inputFiles())))

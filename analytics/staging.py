"""Staged data: records and flows as Parquet files, from which the tables are made.

Each log is parsed once. The records go to a directory below the output directory that is deleted
when the job ends. `flows` holds the records counted by minute, participants and event; many tables
need nothing else.
"""

import os
import shutil
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from leveret.analytics.files import is_local
from leveret.analytics.parsing import ARROW_COLUMNS
from leveret.analytics.reading import Reading, records_of
from leveret.analytics.schema import SQL_COLUMNS

STAGED_COMPRESSION = "snappy"
"""Chosen for speed, since the files are short-lived. Not LZ4: Parquet for Java cannot read all of
PyArrow's LZ4 files (parquet-java issue 3478)."""
GROUP_ROWS = 200_000
"""Rows of one row group: about 30 MB in memory."""

_FLOWS = """
    select date_trunc('minute', timestamp_micros(time_us)) as minute, vhost, node, event, exchange,
        queue, queues, routing_keys, user, connection, channel, consumer_tag, reason, redelivered,
        requeue, count(*) as records, sum(coalesce(count, weight)) as messages,
        sum(weight * body_size) as bytes, min(time_us) as first_us, max(time_us) as last_us,
        max(weight) as sample
    from events group by all
"""


def stage_records(session: SparkSession, reading: Reading, path: str) -> DataFrame:
    """Write all records to a directory and read them back."""
    if (session.sparkContext.master or "").startswith("local") and is_local(path):
        _write_directly(reading, path.removeprefix("file://"))
    else:
        stage(reading.records, path)
    return session.read.schema(SQL_COLUMNS).parquet(path)


def stage(rows: DataFrame, path: str) -> DataFrame:
    """Write rows that are used more than once to a directory and read them back."""
    rows.write.mode("overwrite").option("compression", STAGED_COMPRESSION).parquet(path)
    return rows.sparkSession.read.parquet(path)


def _write_directly(reading: Reading, path: str) -> None:
    """Write Parquet from the Python workers: passing the rows to Java takes twice as long as
    reading.
    """
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    window = reading.window

    def write(files: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        file = f"{path}/part-{task.partitionId():05}.parquet"
        rows = write_batches(records_of(files, window), file)
        yield pa.RecordBatch.from_pydict({"rows": [rows]})

    reading.files.mapInArrow(write, "rows bigint").collect()


def write_batches(batches: Iterator[pa.RecordBatch], path: str) -> int:
    """Write one Parquet file and return its number of rows."""
    rows = pending_rows = 0
    pending: list[pa.RecordBatch] = []
    with pq.ParquetWriter(path, ARROW_COLUMNS, compression=STAGED_COMPRESSION) as file:
        for batch in batches:
            pending.append(batch)
            pending_rows += batch.num_rows
            if pending_rows >= GROUP_ROWS:
                file.write_table(pa.Table.from_batches(pending))
                rows += pending_rows
                pending, pending_rows = [], 0
        file.write_table(pa.Table.from_batches(pending, ARROW_COLUMNS))
    return rows + pending_rows


def stage_flows(session: SparkSession, path: str) -> None:
    """Count the view `events` by minute and create the view `flows`."""
    stage(session.sql(_FLOWS), path).createOrReplaceTempView("flows")

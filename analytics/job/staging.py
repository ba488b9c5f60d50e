"""Records as Parquet files that Spark reads, and results that are used more than once."""

import os
import shutil
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from leveret.analytics.job.cluster import is_one_machine
from leveret.analytics.job.reading import FilesToRead
from leveret.analytics.traces.local_files import is_local, local_path
from leveret.analytics.traces.record_files import COMPRESSION, write_batches
from leveret.analytics.traces.schema import SQL_COLUMNS


def stage_records(session: SparkSession, reading: FilesToRead, path: str) -> DataFrame:
    """Write all records to a directory and read them back."""
    if is_one_machine(session) and is_local(path) and not reading.distant:
        _write_directly(reading, local_path(path))
    else:
        stage(reading.records, path)
    return session.read.schema(SQL_COLUMNS).parquet(path)


def stage(rows: DataFrame, path: str) -> DataFrame:
    """Write rows that are used more than once to a directory and read them back."""
    rows.write.mode("overwrite").option("compression", COMPRESSION).parquet(path)
    return rows.sparkSession.read.parquet(path)


def _write_directly(reading: FilesToRead, path: str) -> None:
    """Write Parquet from the Python workers: passing the rows to Java takes twice as long as
    reading.
    """
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)

    def write(task: int, records: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = write_batches(records, f"{path}/part-{task:05}.parquet")
        yield pa.RecordBatch.from_pydict({"rows": [counts.rows]})

    reading.by_task(write, "rows bigint").collect()

"""Reads trace logs, in any state, into one data frame of valid and rejected records.

One Spark task reads each file and returns Arrow batches (log_records.py). Workers open local files
themselves; Spark reads the content of files on other file systems.
"""

import re
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from leveret.analytics.job.files import list_files
from leveret.analytics.traces.local_files import is_local, local_path
from leveret.analytics.traces.log_records import read_log
from leveret.analytics.traces.schema import SQL_COLUMNS
from leveret.analytics.traces.trace_files import EVERYTHING, TraceFile, Window

TASKS_MAX = 1_000
_FILES = "path string, content binary"


class LogFiles(NamedTuple):
    """The files to read. files: a row for each of `file_count` files, with content if not local."""

    files: DataFrame
    file_count: int
    window: Window

    @property
    def records(self) -> DataFrame:
        """The records, with the columns of schema.COLUMNS. Evaluated lazily."""
        window = self.window
        return self.files.mapInArrow(lambda files: records_of(files, window), SQL_COLUMNS)


def records_of(files: Iterable[pa.RecordBatch], window: Window) -> Iterator[pa.RecordBatch]:
    """Read the records of files: rows of (path, content)."""
    for batch in files:
        for path, content in zip(*batch.to_pydict().values(), strict=True):
            yield from read_log(path, content, window)


def read_trace(session: SparkSession, directory: str, window: Window = EVERYTHING) -> LogFiles:
    """Read the trace logs below a directory: a local path or a Hadoop URL.

    Raises FileNotFoundError if the directory does not exist.
    """
    return read_files(session, list_files(session, directory, window), window)


def read_files(
    session: SparkSession, files: list[TraceFile], window: Window = EVERYTHING
) -> LogFiles:
    """Read trace logs, one task for each file up to TASKS_MAX tasks."""
    listed: list[tuple[str, bytes | None]] = [
        (local_path(file.path), None) for file in files if is_local(file.path)
    ]
    distant = [file for file in files if not is_local(file.path)]
    # Spark leaves out files without content; the job lists them.
    listed += [(file.path, b"") for file in distant if not file.size]
    paths = [_escaped(file.path) for file in distant if file.size]
    rows = session.sparkContext.parallelize(listed, max(1, min(len(listed), TASKS_MAX)))
    found = [session.createDataFrame(rows, _FILES)]
    if paths:
        found.append(session.read.format("binaryFile").load(paths).select("path", "content"))
    return LogFiles(reduce(DataFrame.unionAll, found), len(files), window)


def _escaped(path: str) -> str:
    """Escape a path for Spark, which would expand glob characters."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)

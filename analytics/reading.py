"""Reading trace logs: from files of any state to a table of records, sound ones and others.

Each file is read by one of Spark's workers, which hands over columns (log_records.py). Local files
are opened by the workers themselves; those of other file systems come from Spark.
"""

import re
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from analytics.files import is_local, list_files
from analytics.log_records import read_log
from analytics.schema import SQL_COLUMNS
from analytics.trace_files import TraceFile, Window

TASKS_MAX = 1_000
EVERYTHING = Window()
_FILES = "path string, content binary"


class Reading(NamedTuple):
    """What is to be read. files: a row for each of so many, with its content if it is distant."""

    files: DataFrame
    file_count: int
    window: Window

    @property
    def records(self) -> DataFrame:
        """The records, with the columns of schema.COLUMNS. They are read when they are used."""
        window = self.window
        return self.files.mapInArrow(lambda files: records_of(files, window), SQL_COLUMNS)


def records_of(files: Iterable[pa.RecordBatch], window: Window) -> Iterator[pa.RecordBatch]:
    """What is in files."""
    for batch in files:
        for path, content in zip(*batch.to_pydict().values(), strict=True):
            yield from read_log(path, content, window)


def read_trace(session: SparkSession, directory: str, window: Window = EVERYTHING) -> Reading:
    """Read the trace logs below a directory (a local path, or a URL that Hadoop knows).

    Raises FileNotFoundError.
    """
    return read_files(session, list_files(session, directory, window), window)


def read_files(
    session: SparkSession, files: list[TraceFile], window: Window = EVERYTHING
) -> Reading:
    """Read trace logs, each in a task, or some together if they are very many."""
    local = [(file.path.removeprefix("file://"), None) for file in files if is_local(file.path)]
    distant = [_escaped(file.path) for file in files if not is_local(file.path)]
    rows = session.sparkContext.parallelize(local, max(1, min(len(local), TASKS_MAX)))
    found = [session.createDataFrame(rows, _FILES)]
    if distant:
        found.append(session.read.format("binaryFile").load(distant).select("path", "content"))
    return Reading(reduce(DataFrame.unionAll, found), len(files), window)


def _escaped(path: str) -> str:
    """A path as Spark takes it: it reads some letters as patterns."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)

"""Reads trace logs, in any state, into one data frame of valid and rejected records.

Workers open local files themselves, and each task reads parts of them (log_parts.py). Files on
other file systems are accessible to Spark only (distant_logs.py).
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from leveret.analytics.job.distant_logs import plain, read_distant
from leveret.analytics.job.files import list_files
from leveret.analytics.traces.copies import Copy, without_copies
from leveret.analytics.traces.local_files import is_local, local_path
from leveret.analytics.traces.log_parts import LogPart, parts_of
from leveret.analytics.traces.log_records import read_log
from leveret.analytics.traces.schema import SQL_COLUMNS
from leveret.analytics.traces.trace_files import EVERYTHING, TraceFile, TraceWindow

TASKS_MAX = 1_000

Batches = Iterator[pa.RecordBatch]


class FilesToRead(NamedTuple):
    """The files to read. parts: of local files. distant: files of other file systems.

    copies: of local files, which are not read.
    """

    session: SparkSession
    parts: list[LogPart]
    distant: list[TraceFile]
    files: list[TraceFile]
    copies: list[Copy]
    window: TraceWindow

    @property
    def records(self) -> DataFrame:
        """The records, with the columns of schema.COLUMNS. Evaluated lazily."""
        local = self.by_task(lambda _, records: plain(records), SQL_COLUMNS)
        distant = read_distant(self.session, self.distant, self.window)
        return reduce(DataFrame.unionAll, [local, *distant])

    def by_task(self, done: Callable[[int, Batches], Batches], columns: str) -> DataFrame:
        """Read the local files; return the results of `done` with the number and records of each
        task.

        Evaluated lazily.
        """
        parts, window = self.parts, self.window
        tasks = max(1, min(len(parts), TASKS_MAX))

        def records(task: int) -> Batches:
            for part in parts[task::tasks]:
                yield from read_log(part, window)

        def run(numbers: Iterable[pa.RecordBatch]) -> Batches:
            for batch in numbers:
                for task in batch.column(0).to_pylist():
                    yield from done(task, records(task))

        return self.session.range(0, tasks, 1, tasks).mapInArrow(run, columns)


def read_trace(
    session: SparkSession, directory: str, window: TraceWindow = EVERYTHING
) -> FilesToRead:
    """Read the trace logs below a directory: a local path or a Hadoop URL.

    Raises FileNotFoundError if the directory does not exist.
    """
    return read_files(session, list_files(session, directory, window), window)


def read_files(
    session: SparkSession, files: list[TraceFile], window: TraceWindow = EVERYTHING
) -> FilesToRead:
    """Read trace logs: local ones by part, others by file."""
    local, copies = without_copies(
        [file._replace(path=local_path(file.path)) for file in files if is_local(file.path)]
    )
    distant = [file for file in files if not is_local(file.path)]
    # Spark leaves out files without content; the job lists them.
    parts = parts_of([*local, *(file for file in distant if not file.size)])
    with_content = [file for file in distant if file.size]
    return FilesToRead(session, parts, with_content, files, copies, window)

"""Makes tables with Spark: for logs that are too large for one machine, or not on its disk.

The result of each step is written below the work directory, so memory use is bounded by what
Spark's workers process at a time. The driver collects file names and the report's sums only.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from leveret.analytics.job import distant_versions
from leveret.analytics.job.files import clear_directory, exists
from leveret.analytics.job.output import read_table, write_table
from leveret.analytics.job.reading import read_trace
from leveret.analytics.job.staging import stage, stage_records
from leveret.analytics.tables import versions
from leveret.analytics.tables.columns import Table
from leveret.analytics.tables.engine import FinalRows, ReadCounts, Row, Values
from leveret.analytics.tables.versions import MissingTablesError
from leveret.analytics.traces.copies import Copy
from leveret.analytics.traces.file_numbers import missing_files
from leveret.analytics.traces.local_files import is_local
from leveret.analytics.traces.trace_files import TraceFile, TraceWindow

EVENTS_PER_PARTITION = 500_000
"""Events that one task of a shuffle processes: about 50 MB."""


class SparkEngine:
    """An Engine (engine.py). work: a directory for intermediate data, a local path or a URL; None
    if the engine only reads tables.
    """

    def __init__(self, session: SparkSession, work: str | None = None) -> None:
        self._session = session
        self._work = work
        self._staged: list[str] = []

    def __enter__(self) -> "SparkEngine":
        return self

    def __exit__(self, *failure: object) -> None:
        for path in self._staged:
            clear_directory(self._session, path)
        if self._work is not None and is_local(self._work):
            clear_directory(self._session, self._work)

    def read(self, directory: str, window: TraceWindow) -> ReadCounts:
        """Read the logs; a task reads a part of a large file. Raises OSError."""
        files = read_trace(self._session, directory, window)
        path = self._path("records")
        # A wrong name or password is known before the logs have been read.
        exists(self._session, path)
        records = stage_records(self._session, files, path)
        return self.open_records(records, files.files, files.copies)

    def open_records(
        self, records: DataFrame, files: Sequence[TraceFile], copies: Sequence[Copy]
    ) -> ReadCounts:
        """Make the view `records` of rows that have been staged."""
        records.createOrReplaceTempView("records")
        [(rows, rejected)] = self.rows("select count(*), count(wrong) from records")
        size = sum(file.size for file in files)
        missing = tuple(missing_files(files))
        count = len(files) - len(copies)
        return ReadCounts(rows, rejected, count, size, tuple(copies), missing)

    def view(self, name: str, query: str) -> None:
        """Create a temporary view."""
        self._session.sql(query).createOrReplaceTempView(name)

    def stage(self, name: str, query: str) -> None:
        """Write Parquet files in the work directory. Raises ValueError if there is none."""
        stage(self._session.sql(query), self._path(name)).createOrReplaceTempView(name)

    def _path(self, name: str) -> str:
        """Return the directory of a result in the work directory. Raises ValueError."""
        if self._work is None:
            raise ValueError(f"{name} needs a work directory, and the engine was made without one")
        path = f"{self._work}/{name}"
        self._staged.append(path)
        return path

    def put(self, name: str, rows: pa.Table) -> None:
        """Name a few rows."""
        self._session.createDataFrame(rows).createOrReplaceTempView(name)

    def rows(self, query: str, values: Values | None = None) -> list[Row]:
        """Return the rows of a query, in which :name stands for a value."""
        return [tuple(row) for row in self._session.sql(query, values).collect()]

    def begin(self, out: str) -> str:
        """Return a directory for the tables of a new run."""
        if is_local(out):
            return versions.begin(out)
        return distant_versions.begin(self._session, out)

    def publish(self, out: str, where: str) -> None:
        """Change what readers follow."""
        if is_local(out):
            versions.publish(where)
        else:
            distant_versions.publish(self._session, out, where)

    def published(self, out: str) -> str:
        """Return the directory of the tables of the last complete run."""
        if is_local(out):
            return versions.published(out)
        return distant_versions.published(self._session, out)

    def write_table(
        self, query: str, table: Table, where: str, kept: FinalRows | None = None
    ) -> None:
        """Write Parquet files in a directory for each date."""
        write_table(self._session.sql(query), table, where, kept)

    def open_table(self, where: str, name: str) -> None:
        """Create a view of the files."""
        try:
            read_table(self._session, where, name).createOrReplaceTempView(name)
        except AnalysisException as error:
            raise MissingTablesError(f"no tables in {where}: {error}") from error

    def expect(self, events: int) -> None:
        """Set the number of tasks of a shuffle."""
        least = self._session.sparkContext.defaultParallelism if events else 0
        partitions = max(2, least, -(-events // EVENTS_PER_PARTITION))
        self._session.conf.set("spark.sql.shuffle.partitions", str(partitions))

    def parts(self) -> tuple[int, int]:
        """Return the completed tasks, and all tasks, of the running stages."""
        tracker = self._session.sparkContext.statusTracker()
        found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        stages = [stage for stage in found if stage is not None]
        return (
            sum(stage.numCompletedTasks for stage in stages),
            sum(stage.numTasks for stage in stages),
        )

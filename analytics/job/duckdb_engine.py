"""Makes tables with DuckDB, in this process: without Java, and quick for logs of any usual size.

Records are read into Parquet files in the work directory. Results that are used more than once are
tables of a database in memory. DuckDB holds at most `MEMORY` and spills the rest to that directory.
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from errno import ENOSPC
from pathlib import Path

import duckdb
import pyarrow as pa

from leveret.analytics.job.duckdb_dialect import MACROS, SETTINGS, TYPES, translated, with_values
from leveret.analytics.tables import versions
from leveret.analytics.tables.columns import NO_DATE, NO_ROWS, PARTITION, TIMESTAMP, Table
from leveret.analytics.tables.engine import FinalRows, ReadCounts, Row, Values
from leveret.analytics.tables.tables import BY_NAME
from leveret.analytics.tables.versions import MissingTablesError
from leveret.analytics.traces.copies import without_copies
from leveret.analytics.traces.file_numbers import missing_files
from leveret.analytics.traces.local_files import list_local_files, local_path
from leveret.analytics.traces.log_parts import parts_of
from leveret.analytics.traces.record_files import RecordFiles
from leveret.analytics.traces.trace_files import TraceWindow
from leveret.broker.resources.available_memory import available_bytes

MEMORY_BYTES_MAX = 2_000_000_000
"""The memory that DuckDB uses for data, or half of the memory of the machine or container if that
is less. Reading logs needs more memory (record_files.py)."""
COMPRESSION = "zstd"
FULL_DISK = (os.strerror(ENOSPC), "max_temp_directory_size")
"""What DuckDB says when the disk is full. What it cannot spill it takes for a lack of memory."""


class DuckDBEngine:
    """An Engine (engine.py). work: a directory for intermediate data; None to use memory only."""

    def __init__(self, work: str | None = None, memory_bytes: int | None = None) -> None:
        self._work = None if work is None else Path(local_path(work))
        self._reading: RecordFiles | None = None
        self._expected = 0
        if self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)
            self._work.mkdir(parents=True)
        if memory_bytes is None:
            memory_bytes = min(MEMORY_BYTES_MAX, available_bytes() // 2)
        limits: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{memory_bytes}B"
        }
        if self._work is not None:
            limits["temp_directory"] = str(self._work / "spilled")
        self._connection = duckdb.connect(":memory:", config=limits)
        for setting in SETTINGS:
            self._connection.execute(setting)
        for macro in MACROS:
            self._connection.execute(f"create temporary macro {macro}")

    def __enter__(self) -> "DuckDBEngine":
        return self

    def __exit__(self, *failure: object) -> None:
        self._connection.close()
        if self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)

    def read(self, directory: str, window: TraceWindow) -> ReadCounts:
        """Read the logs, several parts of files at a time."""
        assert self._work is not None
        listed = list_local_files(directory, window)
        files, copies = without_copies(listed)
        records = self._work / "records"
        self._reading = RecordFiles(parts_of(files), window, records)
        counts = self._reading.write()
        self._reading = None
        self._view_of_files("records", sorted(records.iterdir()))
        size = sum(file.size for file in files)
        missing = tuple(missing_files(listed))
        return ReadCounts(counts.rows, counts.rejected, len(files), size, tuple(copies), missing)

    def attach(self, file: Path, name: str) -> None:
        """Open a database in a file, which is created if there is none. Raises duckdb.Error."""
        path = str(file).replace("'", "''")
        self._connection.execute(f"attach '{path}' as {name}")

    def has_table(self, name: str) -> bool:
        """Tell whether an attached database has a table."""
        names = self.rows("select 1 from duckdb_tables() where table_name = :name", {"name": name})
        return bool(names)

    def change(self, statements: Iterable[tuple[str, Values]]) -> None:
        """Run statements in one transaction. They may change one database only. Raises OSError."""
        self._execute("begin")
        for statement, values in statements:
            self._execute(translated(statement), values or None)
        self._execute("commit")

    def view(self, name: str, query: str) -> None:
        """Create a view."""
        self._execute(f"create or replace view {name} as {translated(query)}")

    def stage(self, name: str, query: str) -> None:
        """Create a table in memory, which can spill."""
        self._execute(f"create or replace table {name} as {translated(query)}")

    def put(self, name: str, rows: pa.Table) -> None:
        """Name a few rows."""
        self._connection.register(name, rows)

    def rows(self, query: str, values: Values | None = None) -> list[Row]:
        """Return the rows of a query, in which :name stands for a value."""
        return self._execute(with_values(translated(query)), values).fetchall()

    def begin(self, out: str) -> str:
        """Return an empty directory for the tables of a new run."""
        return versions.begin(out)

    def publish(self, out: str, where: str) -> None:
        """Change the link that readers follow."""
        versions.publish(where)

    def published(self, out: str) -> str:
        """Return where the link leads."""
        return versions.published(out)

    def write_table(
        self, query: str, table: Table, where: str, kept: FinalRows | None = None
    ) -> None:
        """Write Parquet files in a directory for each date."""
        assert kept is None, "only Spark follows logs"
        directory = Path(where) / table.name
        directory.mkdir()
        columns = ", ".join(
            f"cast(`{one.name}` as {TYPES[one.type]}) as `{one.name}`" for one in table.columns
        )
        parquet = f"format parquet, compression {COMPRESSION}"
        [written] = self._execute(
            f"copy (select {columns}, coalesce({PARTITION}, date '{NO_DATE}') as {PARTITION}"
            f" from ({translated(query)})) to $directory"
            f" ({parquet}, partition_by ({PARTITION}), overwrite)",
            {"directory": str(directory)},
        ).fetchall()
        if written == (0,):
            empty = directory / NO_ROWS
            empty.mkdir()
            self._execute(
                f"copy (select {columns} from ({translated(query)}) limit 0) to $file ({parquet})",
                {"file": str(empty / "empty.parquet")},
            )

    def open_table(self, where: str, name: str) -> None:
        """Create a view of the files; times are without a zone, as in all queries."""
        directory, columns = Path(where) / name, BY_NAME[name].columns
        if not directory.is_dir():
            raise MissingTablesError(f"no tables in {where}: {directory} does not exist")
        files = sorted(directory.glob(f"{PARTITION}=*/*.parquet"))
        if not files:
            raise MissingTablesError(f"no tables in {where}: {directory} has no files")
        times = [one.name for one in columns if one.type == TIMESTAMP]
        self._view_of_files(name, files, times)

    def _view_of_files(self, name: str, files: list[Path], times: Sequence[str] = ()) -> None:
        """Create a view. times: columns that are instants in the files."""
        # The files are listed, since a pattern would expand a star in a directory's name as well.
        rows = self._connection.read_parquet([*map(str, files)], hive_partitioning=True)
        instants = ", ".join(f"make_timestamp(epoch_us({time})) as {time}" for time in times)
        rows.project(f"* replace ({instants})" if times else "*").create_view(name)

    def _execute(self, statement: str, values: Values | None = None) -> duckdb.DuckDBPyConnection:
        """Run a statement. Raises OSError, and MemoryError."""
        try:
            return self._connection.execute(statement, values)
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            if any(words in str(error) for words in FULL_DISK):
                raise OSError(ENOSPC, os.strerror(ENOSPC), str(self._work)) from error
            if isinstance(error, duckdb.OutOfMemoryException):
                raise MemoryError(str(error)) from error
            raise OSError(str(error)) from error

    def expect(self, events: int) -> None:
        """Keep the number for parts(); DuckDB adapts by itself."""
        self._expected = events

    def parts(self) -> tuple[int, int]:
        """Return the records that were read, and those expected; 0 of 0 when nothing is read."""
        if self._reading is None:
            return 0, 0
        rows = self._reading.rows
        return rows, max(rows, self._expected)

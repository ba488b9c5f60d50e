"""The interface of the engine that makes the tables. Two programs implement it.

Each table is defined once, as a query in Spark's SQL (flow_tables.py and its neighbours). DuckDB
runs the same text on one machine (job/duckdb_engine.py, with the differences in duckdb_dialect.py),
Spark runs it on one or many (job/spark_engine.py). A query keeps to what both understand:

1. Functions of Spark that DuckDB has as well, or that duckdb_dialect.py defines.
2. `semi join` and `anti join` without `left`; `as` before each alias, also of a joined query.
3. No lambdas, no `stack`, no literals such as `1L`; doubles are written with an exponent.
4. An order without ties wherever the order decides a value.
"""

from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from leveret.analytics.tables.columns import Table
from leveret.analytics.traces.copies import Copy
from leveret.analytics.traces.file_numbers import MissingFiles
from leveret.analytics.traces.trace_files import TraceWindow

Row = tuple[Any, ...]
Values = dict[str, Any]


class ReadCounts(NamedTuple):
    """The numbers of valid and rejected records that were read, and of log files.

    size: the bytes of the files. copies: files that were not read, since they have the records of
    others. missing: files that are not there, to judge by the numbers of the others.
    """

    events: int
    rejected: int
    files: int
    size: int = 0
    copies: tuple[Copy, ...] = ()
    missing: tuple[MissingFiles, ...] = ()


class FinalRows(NamedTuple):
    """Rows of a published table that are final. since: the first date, YYYY-MM-DD, that is not."""

    where: str
    since: str


class Engine(Protocol):
    """Reads records, runs queries and writes tables. Names of views are shared by all queries."""

    def read(self, directory: str, window: TraceWindow) -> ReadCounts:
        """Read the logs below a directory into the view `records` (schema.COLUMNS).

        Raises FileNotFoundError if the directory does not exist.
        """

    def view(self, name: str, query: str) -> None:
        """Name a query, which is run each time the name is used."""

    def stage(self, name: str, query: str) -> None:
        """Run a query once and keep its rows under a name."""

    def put(self, name: str, rows: pa.Table) -> None:
        """Name a few rows."""

    def rows(self, query: str, values: Values | None = None) -> list[Row]:
        """Return the rows of a query, which must be few. In the query :name stands for a value."""

    def begin(self, out: str) -> str:
        """Return a directory below `out` for the tables of a new run, which readers do not see."""

    def publish(self, out: str, where: str) -> None:
        """Have readers use the tables in `where`, all at once."""

    def published(self, out: str) -> str:
        """Return the directory of the tables of the last complete run.

        Raises MissingTablesError.
        """

    def write_table(
        self, query: str, table: Table, where: str, kept: FinalRows | None = None
    ) -> None:
        """Write a table below `where`. kept: earlier rows to take over; only Spark does."""

    def open_table(self, where: str, name: str) -> None:
        """Name a table that was written below `where`; it may have no rows.

        Raises MissingTablesError.
        """

    def expect(self, events: int) -> None:
        """Prepare for reading, or for queries over, about this number of records."""

    def parts(self) -> tuple[int, int]:
        """Return how many parts of the running step are done, and all; 0 of 0 if unknown."""

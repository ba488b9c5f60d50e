"""Chooses and starts the engine: DuckDB for a log of a usual size, Spark for larger ones.

The modules of the engines are imported when they are used, so that neither needs the other's
packages, and `--help` needs none.
"""

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import ENOSPC
from typing import Any, NamedTuple

from leveret.analytics.tables.engine import Engine
from leveret.analytics.traces.local_files import is_local, list_local_files
from leveret.analytics.traces.log_size import estimated_size
from leveret.analytics.traces.trace_files import TraceWindow

AUTO, DUCKDB, SPARK = "auto", "duckdb", "spark"
ENGINES = (AUTO, DUCKDB, SPARK)

SHARED_PATHS = "with a Spark cluster: local paths are mounted on all of its machines"
"""Help for the option --shared-paths."""

EVENTS_MAX = 200_000_000
"""Logs of more events go to Spark. DuckDB was measured up to half as many: its time grows in
proportion, and its memory does not (docs/operate/analytics.md)."""


def why(error: OSError) -> str:
    """Say why logs cannot be read, or tables not be written."""
    if error.errno == ENOSPC:
        of = f" of {error.filename}" if error.filename else ""
        return f"the disk{of} is full: free some space, or choose a shorter time"
    if error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class EngineError(Exception):
    """The engine cannot be used; the message says what to do."""


class Choice(NamedTuple):
    """An engine. events, blocks: how many the logs probably have.

    files: their number; 0 if unknown.
    """

    engine: str
    events: int = 0
    files: int = 0
    blocks: int = 0


def choose(
    asked: str, directory: str, out: str, window: TraceWindow, wants_spark: str = ""
) -> Choice:
    """Return the engine for the logs below a directory.

    wants_spark: an option that only Spark has, if one is given. Raises EngineError, and
    FileNotFoundError if the directory does not exist.
    """
    distant = [path for path in (directory, out) if not is_local(path)]
    needs_spark = wants_spark or "".join(distant[:1])
    if asked == DUCKDB and needs_spark:
        raise EngineError(f"{needs_spark} needs Spark: leave out --engine duckdb")
    if distant:
        return Choice(_installed(SPARK, needs_spark))
    files = list_local_files(directory, window)
    events, blocks = estimated_size(files)
    if asked == AUTO and events > EVENTS_MAX and not needs_spark:
        many = f"a log of about {events:,} events (--engine duckdb can do it, too)"
        engine = _installed(SPARK, many)
    elif needs_spark or asked == SPARK:
        engine = _installed(SPARK, needs_spark or "--engine spark")
    else:
        engine = _installed(DUCKDB, "a log of this size (--engine spark does not)")
    return Choice(engine, events, len(files), blocks)


def choose_for_tables(asked: str, out: str, wants_spark: str = "") -> Choice:
    """Return the engine that reads tables below `out`, which are small. Raises EngineError."""
    needs_spark = wants_spark or ("" if is_local(out) else out)
    if asked == DUCKDB and needs_spark:
        raise EngineError(f"{needs_spark} needs Spark: leave out --engine duckdb")
    if needs_spark or asked == SPARK:
        return Choice(_installed(SPARK, needs_spark or "--engine spark"))
    return Choice(_installed(DUCKDB, "a report (--engine spark does not)"))


def _installed(engine: str, why: str) -> str:
    """Return an engine that is installed. Raises EngineError with what to install."""
    package, extra = {DUCKDB: ("duckdb", "analytics"), SPARK: ("pyspark", "spark")}[engine]
    if importlib.util.find_spec(package) is None:
        raise EngineError(
            f"{why} needs the package {package}, which is not installed: install Leveret with the"
            f" extra '{extra}', for instance pip install '.[{extra}]' in its checkout"
        )
    return engine


@contextmanager
def opened(
    engine: str,
    paths: Sequence[str],
    work: str | None = None,
    master: str | None = None,
    partitions: int | None = None,
) -> Iterator[Engine]:
    """Start an engine, and stop it. master, partitions: as start_session of session.py has them.

    paths: those that the workers must be able to open. Raises JavaMissingError, EngineError.
    """
    if engine == DUCKDB:
        with _module("duckdb_engine").DuckDBEngine(work) as found:
            yield found
        return
    session = _module("session").start_session(master, partitions)
    try:
        _module("cluster").refuse_local_paths(session, paths)
        spark_engine = _module("spark_engine")
        with spark_engine.SparkEngine(session, work) as found:
            yield found
    finally:
        session.stop()


def _module(name: str) -> Any:
    return importlib.import_module(f"leveret.analytics.job.{name}")

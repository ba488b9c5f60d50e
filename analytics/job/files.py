"""Files of a trace directory, on the local disk or any file system that Hadoop supports.

Only PySpark's public API is used, so that the job does not depend on its implementation.
Spark lists, reads and overwrites files of other file systems, but does not delete them: those that
are no longer needed are overwritten with a data frame without rows.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from leveret.analytics.traces.local_files import (
    HIDDEN,
    chosen,
    is_local,
    list_local_files,
    local_path,
)
from leveret.analytics.traces.trace_files import TraceFile, TraceWindow, described


def list_files(session: SparkSession, directory: str, window: TraceWindow) -> list[TraceFile]:
    """List the files below a directory that can have records of a window, largest first.

    Raises FileNotFoundError if the directory does not exist, and OSError if it cannot be read.
    """
    if is_local(directory):
        return list_local_files(directory, window)
    reader = session.read.format("binaryFile").option("recursiveFileLookup", "true")
    with refused(directory):
        try:
            files = reader.load(escaped(directory))
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            raise FileNotFoundError(f"{directory} does not exist") from None
    # Without `content` Spark does not read the files. Empty files have no row.
    sizes = {row["path"]: row["length"] for row in files.select("path", "length").collect()}
    paths = [unquote(url) for url in files.inputFiles()]
    visible = (path for path in paths if path.rsplit("/", 1)[-1][:1] not in HIDDEN)
    return chosen((described(path, sizes.get(path, 0)) for path in visible), window)


def exists(session: SparkSession, path: str) -> bool:
    """Tell whether there is a directory of Parquet files. Raises OSError if it cannot be read."""
    with refused(path):
        try:
            session.read.parquet(escaped(path))
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return False
    return True


@contextmanager
def refused(path: str) -> Iterator[None]:
    """Raise OSError with the reason if Spark cannot use a path: a wrong name or password."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise OSError(f"Spark cannot use {path} ({cause(error)})") from None


def cause(error: Exception) -> str:
    """Return what Java said, on one line."""
    exception = getattr(error, "java_exception", None)
    text = str(exception.getMessage() if exception is not None else error)
    return text.partition("\n")[0].strip().rstrip(".")


def clear_directory(session: SparkSession, path: str) -> None:
    """Delete a directory of Parquet files; on another file system, empty the files."""
    if is_local(path):
        shutil.rmtree(local_path(path), ignore_errors=True)
    elif exists(session, path):
        session.range(0).write.mode("overwrite").parquet(path)


def escaped(path: str) -> str:
    """Escape a path for Spark, which would expand glob characters."""
    for character in "\\*?[]{}":
        path = path.replace(character, f"\\{character}")
    return path

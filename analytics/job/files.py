"""Files of a trace directory, on the local disk or any file system that Hadoop supports."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from leveret.analytics.traces.local_files import (
    HIDDEN,
    chosen,
    is_local,
    list_local_files,
    local_path,
    replace_file,
)
from leveret.analytics.traces.trace_files import TraceFile, Window, described


def list_files(session: SparkSession, directory: str, window: Window) -> list[TraceFile]:
    """List the files below a directory that can have records of a window, largest first.

    Raises FileNotFoundError if the directory does not exist.
    """
    if is_local(directory):
        return list_local_files(directory, window)
    return chosen(_files(session, directory), window)


def _files(session: SparkSession, directory: str) -> Iterator[TraceFile]:
    system, path = _file_system(session, directory)
    if not system.exists(path):
        raise FileNotFoundError(f"{directory} does not exist")
    found = system.listFiles(path, True)
    while found.hasNext():
        file = found.next()
        if file.getPath().getName()[:1] not in HIDDEN:
            yield described(file.getPath().toString(), file.getLen())


def write_file(session: SparkSession, path: str, content: bytes) -> None:
    """Write a file, replacing an existing one. Raises OSError."""
    if is_local(path):
        replace_file(Path(local_path(path)), content)
        return
    system, at = _file_system(session, path)
    stream = system.create(at, True)
    stream.write(bytearray(content))
    stream.close()


def delete_directory(session: SparkSession, path: str) -> None:
    """Delete a directory on any file system, if it exists."""
    system, at = _file_system(session, path)
    system.delete(at, True)


def _file_system(session: SparkSession, path: str) -> tuple[Any, Any]:
    """Return the Hadoop file system of a path, and the path as a Hadoop object."""
    context: Any = session.sparkContext
    at = context._jvm.org.apache.hadoop.fs.Path(path)
    return at.getFileSystem(context._jsc.hadoopConfiguration()), at

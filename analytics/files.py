"""Files of a trace directory, on the local disk or any file system that Hadoop supports."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from leveret.analytics.trace_files import TraceFile, Window, described

HIDDEN = "._"
"""File names with these prefixes are hidden; no log has one."""


def list_files(session: SparkSession, directory: str, window: Window) -> list[TraceFile]:
    """List the files below a directory that can have records of a window, largest first.

    Largest first, so that no worker starts a large file when the others have finished. Raises
    FileNotFoundError if the directory does not exist.
    """
    found = _local_files(directory) if is_local(directory) else _files(session, directory)
    wanted = [file for file in found if window.meets(file)]
    return sorted(wanted, key=lambda file: (-file.size, file.path))


def is_local(path: str) -> bool:
    """Tell whether a path is local and not a URL of another file system."""
    return "://" not in path or path.startswith("file://")


def _local_files(directory: str) -> Iterator[TraceFile]:
    root = Path(directory.removeprefix("file://")).resolve()
    if not root.exists():
        raise FileNotFoundError(f"{directory} does not exist")
    for path in [root] if root.is_file() else root.rglob("*"):
        if path.is_file() and path.name[0] not in HIDDEN:
            yield described(str(path), os.path.getsize(path))


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
        file = Path(path.removeprefix("file://"))
        unfinished = file.with_name(f"{file.name}.part")
        unfinished.write_bytes(content)
        unfinished.replace(file)
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

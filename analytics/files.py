"""The files of a trace directory, local or of any file system that Hadoop knows."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from analytics.trace_files import TraceFile, Window, described

HIDDEN = "._"
"""What names begin with that no log has."""


def list_files(session: SparkSession, directory: str, window: Window) -> list[TraceFile]:
    """The files below a directory that can have records of a window, the largest first.

    So no worker has much to do when the others are done. Raises FileNotFoundError.
    """
    found = _local_files(directory) if is_local(directory) else _files(session, directory)
    wanted = [file for file in found if window.meets(file)]
    return sorted(wanted, key=lambda file: (-file.size, file.path))


def is_local(path: str) -> bool:
    """It is a path of this machine, and not a URL of another file system."""
    return "://" not in path or path.startswith("file://")


def _local_files(directory: str) -> Iterator[TraceFile]:
    root = Path(directory.removeprefix("file://")).resolve()
    if not root.exists():
        raise FileNotFoundError(f"there is no {directory}")
    for path in [root] if root.is_file() else root.rglob("*"):
        if path.is_file() and path.name[0] not in HIDDEN:
            yield described(str(path), os.path.getsize(path))


def _files(session: SparkSession, directory: str) -> Iterator[TraceFile]:
    system, path = _file_system(session, directory)
    if not system.exists(path):
        raise FileNotFoundError(f"there is no {directory}")
    found = system.listFiles(path, True)
    while found.hasNext():
        file = found.next()
        if file.getPath().getName()[:1] not in HIDDEN:
            yield described(file.getPath().toString(), file.getLen())


def write_file(session: SparkSession, path: str, content: bytes) -> None:
    """Write a file, in place of what is there. Raises OSError."""
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
    """Delete a directory of any file system, if it is there."""
    system, at = _file_system(session, path)
    system.delete(at, True)


def _file_system(session: SparkSession, path: str) -> tuple[Any, Any]:
    """Hadoop's file system of a path, and the path as it takes it."""
    context: Any = session.sparkContext
    at = context._jvm.org.apache.hadoop.fs.Path(path)
    return at.getFileSystem(context._jsc.hadoopConfiguration()), at

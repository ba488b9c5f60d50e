"""Lists and finds the files that traces have written, for `/api/trace-files`."""

from pathlib import Path
from typing import NamedTuple

from leveret.broker.tracing.record import OPEN_SUFFIXES, SUFFIXES

LOG_FILES = "vhost=*/date=*/hour=*/*"
LOG_SUFFIXES = (*SUFFIXES, *OPEN_SUFFIXES)


class ListedTraceFile(NamedTuple):
    """A file. name: path below the directory. size: bytes."""

    name: str
    size: int


def trace_files(directory: Path | None) -> list[ListedTraceFile]:
    """Return all files: logs have subdirectories. Raises OSError."""
    if directory is None or not directory.is_dir():
        return []
    found = []
    logs = (path for path in directory.glob(LOG_FILES) if path.name.endswith(LOG_SUFFIXES))
    for path in sorted((*directory.glob("*"), *logs)):
        try:
            if path.is_file():
                found.append(ListedTraceFile(str(path.relative_to(directory)), path.stat().st_size))
        except FileNotFoundError:
            continue
    return found


def trace_file(directory: Path | None, name: str) -> Path | None:
    """Return the path of a file, if a trace has written it."""
    if directory is None or "\0" in name:
        return None
    path = directory / name
    inside = path.resolve().is_relative_to(directory.resolve())
    return path if inside and path.is_file() and not path.is_symlink() else None

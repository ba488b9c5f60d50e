"""Lists and finds the files that traces have written, for `/api/trace-files`."""

from pathlib import Path
from typing import NamedTuple

from leveret.broker.tracing.record import OPEN_SUFFIX, SUFFIX

LOG_FILES = f"vhost=*/date=*/hour=*/*{SUFFIX}"
OPEN_LOG_FILES = f"vhost=*/date=*/hour=*/*{OPEN_SUFFIX}"


class TraceFile(NamedTuple):
    """A file. name: path below the directory. size: bytes."""

    name: str
    size: int


def trace_files(directory: Path | None) -> list[TraceFile]:
    """Return all files: logs have subdirectories. Raises OSError."""
    if directory is None or not directory.is_dir():
        return []
    found = []
    for path in sorted((*directory.glob("*"), *directory.glob(LOG_FILES),
                        *directory.glob(OPEN_LOG_FILES))):  # fmt: skip
        try:
            if path.is_file():
                found.append(TraceFile(str(path.relative_to(directory)), path.stat().st_size))
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

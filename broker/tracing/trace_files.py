"""The files that traces have written, as `/api/trace-files` lists, gives and deletes them."""

from pathlib import Path
from typing import NamedTuple

from broker.tracing.record import OPEN_SUFFIX, SUFFIX

LOG_FILES = f"vhost=*/date=*/hour=*/*{SUFFIX}"
OPEN_LOG_FILES = f"vhost=*/date=*/hour=*/*{OPEN_SUFFIX}"


class TraceFile(NamedTuple):
    """name: its path below the directory. size: bytes."""

    name: str
    size: int


def trace_files(directory: Path | None) -> list[TraceFile]:
    """All files: those of logs are in directories of their own. Raises OSError."""
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
    """The file of that name, if it is one of a trace."""
    if directory is None or "\0" in name:
        return None
    path = directory / name
    inside = path.resolve().is_relative_to(directory.resolve())
    return path if inside and path.is_file() and not path.is_symlink() else None

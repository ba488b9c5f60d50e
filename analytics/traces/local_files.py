"""Files of a trace directory on the local disk, and files that are written beside the tables."""

import os
from collections.abc import Iterator
from pathlib import Path

from leveret.analytics.traces.trace_files import TraceFile, TraceWindow, described

HIDDEN = "._"
"""File names with these prefixes are hidden; no log has one."""


def is_local(path: str) -> bool:
    """Tell whether a path is local and not a URL of another file system."""
    return "://" not in path or path.startswith("file://")


def local_path(path: str) -> str:
    """Return a local path without its scheme."""
    return path.removeprefix("file://")


def list_local_files(directory: str, window: TraceWindow) -> list[TraceFile]:
    """List the files below a directory that can have records of a window, largest first.

    Largest first, so that no worker starts a large file when the others have finished. Raises
    FileNotFoundError if the directory does not exist.
    """
    return chosen(_files_below(directory), window)


def chosen(files: Iterator[TraceFile], window: TraceWindow) -> list[TraceFile]:
    """Return the files that can have records of a window, largest first."""
    wanted = [file for file in files if window.meets(file)]
    return sorted(wanted, key=lambda file: (-file.size, file.path))


def _files_below(directory: str) -> Iterator[TraceFile]:
    root = Path(local_path(directory)).resolve()
    if not root.exists():
        raise FileNotFoundError(f"{directory} does not exist")
    for path in [root] if root.is_file() else root.rglob("*"):
        if path.is_file() and path.name[0] not in HIDDEN:
            yield described(str(path), os.path.getsize(path))


def replace_file(file: Path, content: bytes) -> None:
    """Write a file, replacing an existing one as a whole. Raises OSError."""
    unfinished = file.with_name(f"{file.name}.part")
    unfinished.write_bytes(content)
    unfinished.replace(file)

"""The versions of the tables in a directory on the local disk: a run is published at once, or not.

    DIR/current -> tables-2      what readers follow
    DIR/tables-1/  tables-2/     the tables of the last two runs, one directory for each table
    DIR/report.html -> current/report.html

A run writes into the directory that `current` does not name, and then renames a new link over
`current`. So a run that is killed leaves the tables of the one before, and a reader that has
followed the link can continue while the next run is published: the run after that removes its
tables.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leveret.analytics.traces.local_files import local_path

CURRENT, SLOTS = "current", ("tables-1", "tables-2")


class MissingTablesError(Exception):
    """The directory has no tables of an analysis."""


@contextmanager
def only_writer(out: str) -> Iterator[None]:
    """Keep other runs from writing to a directory. Raises OSError if there is one."""
    directory = Path(local_path(out))
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "_lock", "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(
                f"another run is writing tables to {out}: wait until it ends, or choose another"
                " directory"
            ) from None
        yield


def begin(out: str) -> str:
    """Return an empty directory for the tables of a new run."""
    directory = Path(local_path(out))
    where = directory / next(slot for slot in SLOTS if slot != _current(directory))
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    return str(where)


def publish(where: str) -> None:
    """Have readers use the tables in a directory that `begin` has named. Raises OSError."""
    made = Path(where)
    _replace_link(made.with_name(CURRENT), made.name)
    for report in (path for path in made.iterdir() if path.is_file()):
        _replace_link(made.with_name(report.name), f"{CURRENT}/{report.name}")


def published(out: str) -> str:
    """Return the directory of the tables of the last complete run. Raises MissingTablesError."""
    directory = Path(local_path(out))
    slot = _current(directory)
    if slot is None:
        raise MissingTablesError(f"no tables in {out}: {directory / CURRENT} does not exist")
    return str(directory / slot)


def _current(directory: Path) -> str | None:
    try:
        return os.readlink(directory / CURRENT)
    except FileNotFoundError:
        return None


def _replace_link(link: Path, target: str) -> None:
    unfinished = link.with_name(f"{link.name}.part")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target)
    unfinished.replace(link)

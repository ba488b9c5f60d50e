"""Which files of a trace directory can hold what is looked for. Plain Python, for one machine.

Files are in partitions, `vhost=V/date=D/hour=H`, as broker/tracing/record.py says; a file that is
in none, because someone has copied it elsewhere, can hold anything.
"""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from broker.tracing.record import OPEN_SUFFIX, SUFFIX

PLAIN_SUFFIX = ".jsonl"
"""A log that someone has unpacked."""
HOUR_US = 3_600_000_000

_PARTITION = re.compile(
    r"(?:^|/)vhost=(?P<vhost>[^/]*)/date=(?P<date>\d{4}-\d\d-\d\d)/hour=(?P<hour>\d\d)/[^/]*$"
)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?(Z|[+-]\d\d:\d\d)?")


class MomentError(ValueError):
    """A text is no moment; the message says what one looks like."""


class Window(NamedTuple):
    """What to look at. from_us, to_us: from here and before there, microseconds since 1970."""

    from_us: int | None = None
    to_us: int | None = None
    vhost: str | None = None

    def holds(self, time_us: int) -> bool:
        """The moment is in the window."""
        return (self.from_us is None or time_us >= self.from_us) and (
            self.to_us is None or time_us < self.to_us
        )

    def meets(self, file: "TraceFile") -> bool:
        """The file can have records that are in the window."""
        if None not in (self.vhost, file.vhost) and self.vhost != file.vhost:
            return False
        if file.hour_us is None:
            return True
        is_over = self.from_us is not None and file.hour_us + HOUR_US <= self.from_us
        is_to_come = self.to_us is not None and file.hour_us >= self.to_us
        return not (is_over or is_to_come)


class TraceFile(NamedTuple):
    """A file. vhost, hour_us: of its partition (when the hour begins); None if it is in none."""

    path: str
    vhost: str | None
    hour_us: int | None
    size: int

    @property
    def is_open(self) -> bool:
        """It is being written."""
        return self.path.endswith(OPEN_SUFFIX)


def trace_files(directory: Path, window: Window) -> list[TraceFile]:
    """The files below a directory that meet a window, the oldest first. Raises OSError."""
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a directory of trace logs")
    found = [file for file in _all_files(directory) if window.meets(file)]
    return sorted(found, key=lambda file: (file.hour_us or 0, file.path))


def _all_files(directory: Path) -> Iterator[TraceFile]:
    def refuse(error: OSError) -> None:
        raise error

    for folder, _, names in os.walk(directory, onerror=refuse):
        for name in names:
            if name.endswith((SUFFIX, OPEN_SUFFIX, PLAIN_SUFFIX)):
                path = os.path.join(folder, name)
                yield described(path, os.stat(path).st_size)


def described(path: str, size: int) -> TraceFile:
    """A file by its path, or the URL of one, and its bytes."""
    found = _PARTITION.search(path.replace(os.sep, "/"))
    if found is None:
        return TraceFile(path, None, None, size)
    try:
        begins = datetime.fromisoformat(found["date"]).replace(tzinfo=UTC)
        begins += timedelta(hours=int(found["hour"]))
    except ValueError:
        return TraceFile(path, None, None, size)
    return TraceFile(path, unquote(found["vhost"]), int(begins.timestamp()) * 1_000_000, size)


def read_moment(text: str) -> int:
    """A moment in microseconds since 1970: 2026-03-01, 2026-03-01T14:05, with Z or an offset.

    Without an offset it is UTC. Raises MomentError.
    """
    problem = f"'{text}' is no moment: write 2026-03-01 or 2026-03-01T14:05:00 (UTC)"
    if not _MOMENT.fullmatch(text):
        raise MomentError(problem)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise MomentError(problem) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)

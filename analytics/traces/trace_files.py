"""Selects the files of a trace directory by virtual host and time. Plain Python, without Spark.

Files are partitioned as `vhost=V/date=D/hour=H` (broker/tracing/record.py). A file outside this
layout, for example a copy, can hold records of any virtual host and time.
"""

import os
import re
from argparse import ArgumentTypeError
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from leveret.broker.tracing.record import OPEN_SUFFIXES, SUFFIXES

PLAIN_SUFFIX = ".jsonl"
"""Suffix of a log that was decompressed by hand."""
HOUR_US = 3_600_000_000

_PARTITION = re.compile(
    r"(?:^|/)vhost=(?P<vhost>[^/]*)/date=(?P<date>\d{4}-\d\d-\d\d)/hour=(?P<hour>\d\d)/[^/]*$"
)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?(Z|[+-]\d\d:\d\d)?")


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MomentError(ArgumentTypeError):
    """The text is not a valid time; the message, which argparse prints, shows the format."""


class TraceWindow(NamedTuple):
    """A virtual host and a time range, from_us <= time < to_us, in microseconds since 1970.

    None means no limit.
    """

    from_us: int | None = None
    to_us: int | None = None
    vhost: str | None = None

    def holds(self, time_us: int) -> bool:
        """Tell whether a time is within the range."""
        return (self.from_us is None or time_us >= self.from_us) and (
            self.to_us is None or time_us < self.to_us
        )

    def overlaps(self, first_us: int, last_us: int) -> bool:
        """Tell whether a time from the first to the last is within the range."""
        return (self.from_us is None or last_us >= self.from_us) and (
            self.to_us is None or first_us < self.to_us
        )

    def meets(self, file: "TraceFile") -> bool:
        """Tell whether the file can contain records of this window."""
        if None not in (self.vhost, file.vhost) and self.vhost != file.vhost:
            return False
        if file.hour_us is None:
            return True
        ends_before = self.from_us is not None and file.hour_us + HOUR_US <= self.from_us
        begins_after = self.to_us is not None and file.hour_us >= self.to_us
        return not (ends_before or begins_after)


EVERYTHING = TraceWindow()


class TraceFile(NamedTuple):
    """A log file, size in bytes. vhost, hour_us (start of the hour): its partition, or None."""

    path: str
    vhost: str | None
    hour_us: int | None
    size: int

    @property
    def is_open(self) -> bool:
        """The broker is still writing this file."""
        return self.path.endswith(OPEN_SUFFIXES)


def trace_files(directory: Path, window: TraceWindow) -> list[TraceFile]:
    """List the files below a directory that overlap a window, oldest first. Raises OSError."""
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a directory of trace logs")
    found = [file for file in _all_files(directory) if window.meets(file)]
    return sorted(found, key=lambda file: (file.hour_us or 0, file.path))


def _all_files(directory: Path) -> Iterator[TraceFile]:
    def refuse(error: OSError) -> None:
        raise error

    for folder, _, names in os.walk(directory, onerror=refuse):
        for name in names:
            if name.endswith((*SUFFIXES, *OPEN_SUFFIXES, PLAIN_SUFFIX)):
                path = os.path.join(folder, name)
                yield described(path, os.stat(path).st_size)


def described(path: str, size: int) -> TraceFile:
    """Describe a file, given its path or URL and its size in bytes."""
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
    """Parse a time such as 2026-03-01 or 2026-03-01T14:05, optionally with Z or a UTC offset.

    Returns microseconds since 1970. Without an offset the time is UTC. Raises MomentError.
    """
    problem = f"'{text}' is not a valid time: write 2026-03-01 or 2026-03-01T14:05:00 (UTC)"
    if not _MOMENT.fullmatch(text):
        raise MomentError(problem)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise MomentError(problem) from None
    return microseconds_of(moment)


def microseconds_of(moment: datetime) -> int:
    """Return microseconds since 1970. Without an offset the time is UTC."""
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - EPOCH) // timedelta(microseconds=1)

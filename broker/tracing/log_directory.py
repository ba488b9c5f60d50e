"""The files of a vhost's trace log: their location, rotation and retention.

Files are below `vhost=.../date=.../hour=.../` (record.PARTITION) of a directory shared by all
vhosts. A new file begins with each hour that has records, and when a file reaches its maximum size.
The oldest complete files are deleted when the directory exceeds its maximum size, or when they are
too old.

If the disk has less free space than a reserve, nothing is written: a trace must not cause the disk
alarm, which blocks publishers.
"""

import errno
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from leveret.broker.resources.disk_monitor import free_bytes
from leveret.broker.runtime.private_files import make_directory
from leveret.broker.tracing.batches import HOUR_US
from leveret.broker.tracing.log_file import TraceLogFile, finish_left_open
from leveret.broker.tracing.output import OutputBatch
from leveret.broker.tracing.record import PARTITION, SUFFIXES

CLEANING_SECONDS = 60
DAY_US = 24 * HOUR_US

logger = logging.getLogger("leveret.tracing")


class FileLimits(NamedTuple):
    """Limits of files. file_bytes: size of a full file. bytes_max, days_max: None is unlimited.

    reserve_bytes: returns the space that must stay free on the disk; 0 for none.
    """

    file_bytes: int = 64 * 1024 * 1024
    bytes_max: int | None = None
    days_max: int | None = None
    reserve_bytes: Callable[[], int] = int


class LogDirectory:
    """The destination of one vhost's log; see `output.TraceDestination`."""

    def __init__(self, directory: Path, vhost: str, node: str, keeping: FileLimits) -> None:
        self._directory = directory
        self._vhost = quote(vhost, safe="", errors="surrogateescape")
        self._node = quote(node, safe="@")
        self._keeping = keeping
        self._file: TraceLogFile | None = None
        self._hour = -1
        self._number = 0
        self._started_us = 0
        self._cleaned_us = 0
        self._is_recovered = False

    def write(self, batch: OutputBatch) -> None:
        """Append a batch, whose records are all of one hour, to the file of that hour."""
        self._recover()
        self._require_room()
        hour = batch.time_us // HOUR_US
        file = self._file
        if file is not None and (hour != self._hour or file.size >= self._keeping.file_bytes):
            self._finish()
        if self._file is None:
            self._begin(hour, batch.time_us)
        assert self._file is not None
        self._file.add(batch.data)

    def tick(self, time_us: int) -> None:
        """Finish the file of an hour that has ended, and delete files beyond the limits."""
        self._recover()
        make_directory(self._directory)
        if self._file is not None:
            if not self._file.is_there():
                logger.warning("%s has been removed; starting a new file", self._file.path)
                self._file.close()
                self._file = None
            elif time_us // HOUR_US > self._hour:
                self._finish()
        if time_us - self._cleaned_us >= CLEANING_SECONDS * 1_000_000:
            self._cleaned_us = time_us
            self._clean(time_us)

    def close(self) -> None:
        """Finish the file."""
        if self._file is not None:
            self._finish()

    def _recover(self) -> None:
        """Before the first file: finish files that a crash left open."""
        if not self._is_recovered:
            finish_left_open(self._directory / f"vhost={self._vhost}", self._node)
            self._is_recovered = True

    def _require_room(self) -> None:
        """Raise OSError if the disk has too little free space."""
        reserve = self._keeping.reserve_bytes()
        if not reserve:
            return
        make_directory(self._directory)
        free = free_bytes(self._directory)
        if free < reserve:
            raise OSError(
                errno.ENOSPC,
                f"the disk has {free} bytes free, and {reserve} are reserved for messages",
            )

    def _begin(self, hour: int, time_us: int) -> None:
        if not self._started_us:
            self._started_us = time_us
        time = datetime.fromtimestamp(hour * 3600, UTC)
        partition = PARTITION.format(
            vhost=self._vhost, date=time.date().isoformat(), hour=f"{time.hour:02}"
        )
        name = f"{self._node}-{self._started_us}-{self._number}"
        self._file = TraceLogFile(self._directory / partition / name)
        self._hour = hour
        self._number += 1

    def _finish(self) -> None:
        file = self._file
        assert file is not None
        if file.is_there():
            file.finish()
        else:
            file.close()
        self._file = None

    def _clean(self, time_us: int) -> None:
        keeping = self._keeping
        if keeping.bytes_max is None and keeping.days_max is None:
            return
        files = sorted(_complete_files(self._directory), reverse=True)
        kept_bytes = 0
        for changed_us, path, size in files:
            kept_bytes += size
            is_old = (
                keeping.days_max is not None and time_us - changed_us > keeping.days_max * DAY_US
            )
            if is_old or (keeping.bytes_max is not None and kept_bytes > keeping.bytes_max):
                logger.info("deleted %s: %s", path, "too old" if is_old else "total size exceeded")
                _remove(path, self._directory)


def _complete_files(directory: Path) -> list[tuple[int, Path, int]]:
    """Return modification time (microseconds), path and size of each file."""
    found = []
    for path in directory.glob("vhost=*/date=*/hour=*/*"):
        if not path.name.endswith(SUFFIXES):
            continue
        status = path.stat()
        found.append((status.st_mtime_ns // 1000, path, status.st_size))
    return found


def _remove(path: Path, directory: Path) -> None:
    """Delete a file, and its directories if they are then empty."""
    path.unlink()
    for parent in path.parents:
        if parent == directory or any(os.scandir(parent)):
            return
        parent.rmdir()

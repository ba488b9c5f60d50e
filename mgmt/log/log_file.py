"""The log file: it is rotated by size and date, and opened again after logrotate has moved it.

The full file is renamed to NAME.0, the one before it to NAME.1 and so on, up to
`log.file.rotation.count` files; with 0 it is removed. With compression they are NAME.0.gz and so
on; a thread compresses the newest. Source: RabbitMQ's `rabbit_logger_std_h`.
"""

import gzip
import logging
import logging.handlers
import os
import shutil
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

from leveret.broker.config.log_settings import RotationSettings
from leveret.broker.runtime.private_files import opened
from leveret.mgmt.log.rotation import last_turn

UNPRINTABLE = "backslashreplace"
"""Names may hold bytes that are not UTF-8; a log line with such a name must not fail."""


class RotatedFile(logging.handlers.WatchedFileHandler):
    """A log file that others cannot read. Raises OSError if it cannot be opened."""

    def __init__(self, path: Path, rotation: RotationSettings) -> None:
        self._rotation = rotation
        self._last_turn = last_turn(rotation.date) if rotation.date else None
        self._compressing: threading.Thread | None = None
        try:
            self._begun_at = datetime.fromtimestamp(path.stat().st_mtime)
        except FileNotFoundError:
            self._begun_at = datetime.now()
        super().__init__(path, encoding="utf-8", errors=UNPRINTABLE)

    def _open(self) -> Any:
        return open(
            self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=opened
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record. Rotate the file before that if it is due, or after it if full."""
        try:
            if self._last_turn is not None and self._begun_at < self._last_turn(datetime.now()):
                self._rotate()
            super().emit(record)
            size_max = self._rotation.size_bytes
            if size_max is not None and self.stream is not None and self.stream.tell() > size_max:
                self._rotate()
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Report on standard error that a record cannot be written."""
        error = sys.exc_info()[1]
        print(f"the log file {self.baseFilename} cannot be written: {error}", file=sys.stderr)

    def _rotate(self) -> None:
        self.flush()
        if self.stream is not None:
            self.stream.close()
        if self._compressing is not None:
            self._compressing.join()
        suffix = ".gz" if self._rotation.compress else ""
        count, base = self._rotation.count, self.baseFilename
        for number in range(count - 1, 0, -1):
            older = f"{base}.{number - 1}{suffix}"
            if os.path.exists(older):
                os.replace(older, f"{base}.{number}{suffix}")
        if count:
            os.replace(base, f"{base}.0")
            if self._rotation.compress:
                self._compressing = threading.Thread(target=_compress, args=(f"{base}.0",))
                self._compressing.start()
        else:
            os.unlink(base)
        self._begun_at = datetime.now()
        self.stream = self._open()
        self._statstream()

    def close(self) -> None:
        """Wait until the previous file is compressed, and close this one."""
        if self._compressing is not None:
            self._compressing.join()
        super().close()


def _compress(path: str) -> None:
    """Compress a file that was rotated; it stays as it is if that fails."""
    try:
        with (
            open(path, "rb") as plain,
            open(f"{path}.gz", "wb", opener=opened) as file,
            gzip.GzipFile(fileobj=file, mode="wb") as compressed,
        ):
            shutil.copyfileobj(plain, compressed)
        os.unlink(path)
    except OSError as error:
        print(f"the log file {path} cannot be compressed: {error}", file=sys.stderr)

"""The lock that keeps two servers from using one data directory.

It is a lock of the operating system on a file in the directory (flock), so it ends with the process
that holds it, however that ends. The file holds the process's number, to name it to the second.
"""

import fcntl
import os
from pathlib import Path

LOCK_FILE = "leveret.lock"


class DataDirectoryError(Exception):
    """The data directory cannot be used; the text says why."""


class DataDirectoryInUse(DataDirectoryError):
    """Another server runs on the data directory."""


class DataDirectoryLock:
    """The lock on one directory, which is made if it is missing."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises DataDirectoryInUse, or DataDirectoryError if it cannot be."""
        path = self._directory / LOCK_FILE
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise DataDirectoryError(
                f"the data directory {self._directory} cannot be used: {error.strerror}"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise DataDirectoryInUse(
                f"the data directory {self._directory} is in use by another server, "
                f"process {holder}; stop that one or choose another --data-dir"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go, if it is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

"""The lock that keeps two servers from using one data directory.

It is a lock of the operating system on a file in the directory (flock), so it ends with the process
that holds it, however that ends. The file holds the process's number, to name it to the second. It
stays behind when the lock is released: what counts is the lock, not the file, and to remove a file
that another server is about to lock would let in a third.
"""

import fcntl
import os
from pathlib import Path

LOCK_FILE = "leveret.lock"

_DIRECTORY_MODE, _FILE_MODE = 0o750, 0o640
"""What is kept in the directory is not for everybody: messages and password hashes."""
_HOLDER_BYTES_MAX = 32


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
        try:
            self._directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(self._directory / LOCK_FILE, flags, _FILE_MODE)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            self._lock(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            raise self._in_use(descriptor) from None
        except OSError as error:
            # The lock may be held, and ends when the caller closes the descriptor.
            raise self._unusable(error) from error

    def _in_use(self, descriptor: int) -> DataDirectoryInUse:
        holder = os.pread(descriptor, _HOLDER_BYTES_MAX, 0).decode(errors="replace").strip()
        return DataDirectoryInUse(
            f"the data directory {self._directory} is in use by another server, "
            f"process {holder or 'unknown'}; stop that one or choose another --data-dir"
        )

    def _unusable(self, error: OSError) -> DataDirectoryError:
        return DataDirectoryError(
            f"the data directory {self._directory} cannot be used: {error.strerror}; check that it "
            "may be written, or choose another --data-dir"
        )

    def release(self) -> None:
        """Let go, if it is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

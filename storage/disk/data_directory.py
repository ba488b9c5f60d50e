"""The lock that keeps two servers from using one data directory.

It is an flock on a file in the directory, so the operating system releases it when the process ends
in any way. The file holds the process id, for the error of a second server. It is not removed when
the lock is released: if another server had just opened it to lock it, a third server could lock a
new file of the same name.
"""

import errno
import fcntl
import os
from pathlib import Path

from leveret.storage.disk.disk import Disk, StoreError

LOCK_FILE = "leveret.lock"

_FILE_MODE = 0o640
_HOLDER_BYTES_MAX = 32


class DataDirectoryError(Exception):
    """The data directory cannot be used; the text has the cause and the remedy."""


class DataDirectoryInUse(DataDirectoryError):
    """Another server runs on the data directory."""


class DataDirectoryLock:
    """The lock on one directory, which is created if it is missing.

    A directory that was created is synced in its parent: it survives a power cut.
    """

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        self._directory = directory
        self._disk = disk if disk is not None else Disk()
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises DataDirectoryInUse if another server has it, DataDirectoryError if the directory
        cannot be used.
        """
        try:
            self._disk.make_synced_directory(self._directory)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(self._directory / LOCK_FILE, flags, _FILE_MODE)
        except StoreError as error:
            raise self._unusable(str(error)) from error
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        try:
            self._lock(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write_holder(descriptor)
        except BlockingIOError:
            raise self._in_use(descriptor) from None
        except OSError as error:
            # If the lock was taken, it is released when the caller closes the descriptor.
            raise self._unusable(error.strerror or str(error)) from error

    @staticmethod
    def _write_holder(descriptor: int) -> None:
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # On a full disk the lock is still held; the file names no process.

    def _in_use(self, descriptor: int) -> DataDirectoryInUse:
        holder = os.pread(descriptor, _HOLDER_BYTES_MAX, 0).decode(errors="replace").strip()
        return DataDirectoryInUse(
            f"the data directory {self._directory} is in use by another server, "
            f"process {holder or 'unknown'}; stop that one or choose another --data-dir"
        )

    def _unusable(self, reason: str) -> DataDirectoryError:
        return DataDirectoryError(
            f"the data directory {self._directory} cannot be used: {reason}; check that it "
            "may be written, or choose another --data-dir"
        )

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

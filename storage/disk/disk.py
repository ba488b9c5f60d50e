"""File operations: the only place in the store that opens, writes, syncs or removes a file.

All operations are methods of `Disk`, so that a test can make any of them fail, and can stop the
process at any of the named `POINTS` between two operations. Errors of the operating system are
raised as `StoreError`, which names the file.

Creating, renaming or removing a file is durable only after a sync of its directory, too.
"""

import ctypes
import errno
import fcntl
import os
import resource
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from struct import calcsize
from time import perf_counter
from typing import NamedTuple

POINTS = (
    "log.created",
    "log.written",
    "log.synced",
    "log.retiring",
    "log.retired",
    "log.removed",
    "segment.created",
    "segment.written",
    "segment.synced",
    "segment.removed",
    "bodies.created",
    "bodies.written",
    "bodies.punched",
    "bodies.removed",
    "metadata.synced",
)
GROUP_POINTS = (
    "groups.linked", "groups.written", "groups.synced", "groups.punched", "groups.removed",
)  # fmt: skip
STREAM_POINTS = (
    "stream.begun", "stream.written", "stream.indexed", "stream.synced", "stream.cut",
    "stream.reset", "stream.removed",
)  # fmt: skip
"""Points where a test may stop the process; those of quorum queues' groups, and of streams, apart.
Each is passed right after the operation it names."""

FILE_MODE, DIRECTORY_MODE = 0o640, 0o750
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
WRITE_BYTES_MAX = 1 << 30
"""Linux writes at most 2 GiB in one call."""
BLOCK_BYTES = 512
"""The unit of `st_blocks` (stat(2))."""
SAMPLE_BYTES = 64 * 1024
"""The distance of the pages of which `is_cached` asks."""
KEPT_OPEN_SHARE = 16
"""Readers keep at most this share of the process's descriptors open. Sockets leave a tenth or more
to files (broker/resources/file_descriptors.py)."""

_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2
_FS_IOC_GETFLAGS = 2 << 30 | calcsize("l") << 16 | ord("f") << 8 | 1
_FS_IOC_SETFLAGS = 1 << 30 | calcsize("l") << 16 | ord("f") << 8 | 2
_FS_NOCOW_FL = 0x00800000
"""Attributes of files and directories (linux/fs.h); new files have those of their directory."""


class StoreError(Exception):
    """An operation on a file failed; the text names the operation, the file and the reason."""


class DiskFull(StoreError):
    """The disk has no room for a write. The earlier content of the file is intact."""


class FileMissing(StoreError):
    """The file is missing from an existing directory: its content is lost.

    If the directory is missing too, it may be on a file system that is not mounted.
    """


class Space(NamedTuple):
    """The size of a file system, and its free space for an unprivileged process, in bytes."""

    total_bytes: int
    free_bytes: int


@dataclass(slots=True)
class DiskCounts:
    """Counts of file operations since the start, their bytes and their durations.

    The event loop and both workers count. No increment is lost: CPython does not switch threads
    between loading and storing an attribute if there is no call in between.
    """

    reads: int = 0
    read_bytes: int = 0
    read_seconds: float = 0.0
    writes: int = 0
    write_bytes: int = 0
    write_seconds: float = 0.0
    syncs: int = 0
    sync_seconds: float = 0.0

    def note_read(self, size: int, began: float) -> None:
        """Count a read. began: its start, by `perf_counter`."""
        seconds = perf_counter() - began
        self.reads += 1
        self.read_bytes += size
        self.read_seconds += seconds

    def note_write(self, size: int, began: float) -> None:
        """Count a write."""
        seconds = perf_counter() - began
        self.writes += 1
        self.write_bytes += size
        self.write_seconds += seconds

    def note_sync(self, began: float) -> None:
        """Count a sync of a file, a directory or a file system."""
        seconds = perf_counter() - began
        self.syncs += 1
        self.sync_seconds += seconds


class Disk:
    """Operations on files. passed: called with the name of each of the `POINTS`."""

    def __init__(self, passed: Callable[[str], None] | None = None) -> None:
        self.counts = DiskCounts()
        self._kept_open = 0
        self._buffer = bytearray()
        self._passed = passed
        self._libc = ctypes.CDLL(None, use_errno=True)

    def passed(self, point: str) -> None:
        """Report that the store has passed one of the `POINTS`."""
        if self._passed is not None:
            self._passed(point)

    # Opening

    def create(self, path: Path) -> int:
        """Create a file, or empty it, and open it for reading and writing. Raises StoreError."""
        return self._open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def open(self, path: Path) -> int:
        """Open an existing file for reading and writing. Raises StoreError."""
        return self._open(path, os.O_RDWR)

    def open_directory(self, directory: Path) -> int:
        """Open a directory. Raises StoreError."""
        return self._open(directory, os.O_RDONLY | os.O_DIRECTORY)

    def _open(self, path: Path, flags: int) -> int:
        try:
            return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            raise failure("open", path, error) from error

    def close(self, descriptor: int) -> None:
        """Close a file."""
        os.close(descriptor)

    @property
    def kept_open_max(self) -> int:
        """How many files readers may keep open."""
        return int(resource.getrlimit(resource.RLIMIT_NOFILE)[0]) // KEPT_OPEN_SHARE

    def keep_open(self, descriptor: int) -> bool:
        """Keep a file open between reads, until `close_kept`; if too many are open, close it.

        Returns whether it is kept open.
        """
        if self._kept_open >= self.kept_open_max:
            self.close(descriptor)
            return False
        self._kept_open += 1
        return True

    def close_kept(self, descriptor: int) -> None:
        """Close a file that was kept open."""
        self._kept_open -= 1
        self.close(descriptor)

    # Reading

    def read(self, path: Path, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer at the end of the file."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return self.read_from(descriptor, path, offset, size)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise failure("read", path, error, offset) from error

    def read_from(self, descriptor: int, path: Path, offset: int, size: int) -> bytes:
        """Up to `size` bytes of an open file."""
        began = perf_counter()
        try:
            data = os.pread(descriptor, size, offset)
        except OSError as error:
            raise failure("read", path, error, offset) from error
        self.counts.note_read(len(data), began)
        return data

    def read_cached(self, descriptor: int, offset: int, size: int) -> bytes | None:
        """`size` bytes of an open file, if the system has all of them in memory; otherwise None.

        Also None near the end of the file, and if the file system cannot tell (tmpfs, NFS).
        """
        began = perf_counter()
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        view = memoryview(self._buffer)[:size]
        try:
            count = os.preadv(descriptor, [view], offset, os.RWF_NOWAIT)
        except OSError:
            # The data are not in memory, or cannot be read: a read that waits reports the error.
            return None
        if count < size:
            return None
        self.counts.note_read(size, began)
        return bytes(view)

    def is_cached(self, descriptor: int, offset: int, size: int) -> bool:
        """Whether the system has a part of an open file in memory, by a sample of its pages.

        The system reads and drops pages together that follow each other. False near the end of the
        file, and if the file system cannot tell, as with `read_cached`.
        """
        page = [bytearray(1)]
        try:
            for place in (*range(offset, offset + size, SAMPLE_BYTES), offset + size - 1):
                if os.preadv(descriptor, page, place, os.RWF_NOWAIT) < 1:
                    return False
        except OSError:
            # A read that waits reports the error.
            return False
        return True

    def send(self, descriptor: int, path: Path, socket: int, offset: int, size: int) -> int:
        """Send up to `size` bytes of an open file to a socket; returns how many it has taken.

        Raises BlockingIOError if it takes nothing now; StoreError; ConnectionError, TimeoutError.
        """
        began = perf_counter()
        try:
            sent = os.sendfile(socket, descriptor, offset, size)
        except (BlockingIOError, ConnectionError, TimeoutError):
            raise
        except OSError as error:
            raise failure("send", path, error, offset) from error
        if not sent:
            raise StoreError(f"{path} ends at offset {offset}, {size} bytes too early")
        self.counts.note_read(sent, began)
        return sent

    def will_read(self, descriptor: int, offset: int, size: int) -> None:
        """Ask the system to read ahead, so that a later read does not wait for the disk."""
        try:
            os.posix_fadvise(descriptor, offset, size, os.POSIX_FADV_WILLNEED)
        except OSError:
            # The read itself reports the error.
            return

    def read_all(self, path: Path) -> bytes:
        """The content of a file."""
        began = perf_counter()
        try:
            data = path.read_bytes()
        except OSError as error:
            raise failure("read", path, error) from error
        self.counts.note_read(len(data), began)
        return data

    def size(self, path: Path) -> int:
        """The size of a file in bytes; 0 if there is none."""
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise failure("get the size of", path, error) from error

    def used_bytes(self, path: Path) -> int:
        """The disk space of a file in bytes, without holes; 0 if there is no file."""
        try:
            return path.stat().st_blocks * BLOCK_BYTES
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise failure("get the size of", path, error) from error

    def space(self, directory: Path) -> Space:
        """The space of the file system that a directory is on."""
        try:
            found = os.statvfs(directory)
        except OSError as error:
            raise failure("get the free space of", directory, error) from error
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def names_in(self, directory: Path) -> list[str]:
        """The names in a directory, sorted; none if there is no directory."""
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise failure("list", directory, error) from error

    # Writing

    def write(self, descriptor: int, path: Path, data: bytes, offset: int) -> None:
        """Write all data at an offset. After an error the file is cut off at the offset."""
        written = 0
        began = perf_counter()
        try:
            view = memoryview(data)
            while written < len(data):
                part = view[written : written + WRITE_BYTES_MAX]
                written += os.pwrite(descriptor, part, offset + written)
        except OSError as error:
            self._cut_off(descriptor, offset)
            raise failure("write", path, error, offset + written) from error
        self.counts.note_write(written, began)

    @staticmethod
    def _cut_off(descriptor: int, size: int) -> None:
        try:
            os.ftruncate(descriptor, size)
        except OSError:
            # The next attempt overwrites these bytes, or they are a torn end of the file.
            return

    def truncate(self, path: Path, size: int) -> None:
        """Cut a file off at a size."""
        try:
            os.truncate(path, size)
        except OSError as error:
            raise failure("truncate", path, error, size) from error

    def reserve(self, descriptor: int, start: int, size: int) -> bool:
        """Allocate space for a byte range at the end of a file, if the file system can.

        Returns False if there is no room; the file's space is unchanged then. A sync has less to
        write: 90 us instead of 125 (docs/reference/performance.md).
        """
        before = os.fstat(descriptor).st_size
        try:
            os.posix_fallocate(descriptor, start, size)
        except OSError as error:
            # ext4 keeps the space that it allocated before it ran out.
            self._cut_off(descriptor, before)
            # Otherwise the file system cannot allocate, and the write reports the error.
            return error.errno not in NO_SPACE
        return True

    def allocate(self, path: Path, size: int) -> bool:
        """Create a file of allocated space. Returns False, without a file, if there is no room."""
        descriptor = self.create(path)
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            self.remove(path)
            if error.errno in NO_SPACE:
                return False
            raise failure("allocate", path, error) from error
        finally:
            os.close(descriptor)
        return True

    def punch(self, descriptor: int, start: int, end: int) -> bool:
        """Free the space of a byte range of a file. Returns whether the file system can do that."""
        flags = _FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE
        to_64_bits = ctypes.c_int64
        failed = self._libc.fallocate(descriptor, flags, to_64_bits(start), to_64_bits(end - start))
        return not failed

    # Syncing

    def sync(self, descriptor: int, path: Path) -> None:
        """Sync a file's data. A sync that failed must not be tried again: see `log.py`."""
        began = perf_counter()
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            raise failure("sync", path, error) from error
        self.counts.note_sync(began)

    def sync_directory(self, directory: Path) -> None:
        """Sync the names in a directory."""
        began = perf_counter()
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise failure("sync", directory, error) from error
        self.counts.note_sync(began)

    def sync_paths(self, paths: Iterable[Path]) -> None:
        """Sync files that another process may have written, and their directory entries."""
        paths = list(paths)
        for path in paths:
            descriptor = self.open(path)
            try:
                self.sync(descriptor, path)
            finally:
                self.close(descriptor)
        self.sync_directories_of(paths)

    def sync_directories_of(self, paths: Iterable[Path]) -> None:
        """Sync the directories of files, and the directories' parents."""
        for directory in {path.parent for path in paths}:
            self.sync_directory(directory)
            self.sync_directory(directory.parent)

    def sync_file_system(self, descriptor: int, root: Path) -> None:
        """Sync the file system of an open directory.

        Linux reports failed writes since the descriptor was opened or last used for this (5.8).
        """
        began = perf_counter()
        if self._libc.syncfs(descriptor):
            number = ctypes.get_errno()
            raise failure("sync", root, OSError(number, os.strerror(number)))
        self.counts.note_sync(began)

    # Directories and names

    def make_directory(self, directory: Path) -> None:
        """Create a directory and its parents, unless they exist."""
        try:
            directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        except OSError as error:
            raise failure("create", directory, error) from error

    def write_in_place(self, directory: Path) -> None:
        """Have new files of a directory written in place.

        btrfs would write overwritten data to a new place, even if allocated: a full disk has no
        room for it. These files lose its checksums. Other file systems write in place anyway.
        """
        descriptor = self.open_directory(directory)
        flags = array("i", [0])
        try:
            fcntl.ioctl(descriptor, _FS_IOC_GETFLAGS, flags)
            flags[0] |= _FS_NOCOW_FL
            fcntl.ioctl(descriptor, _FS_IOC_SETFLAGS, flags)
        except OSError:
            # The file system has no such attribute, or this user may not set it.
            return
        finally:
            self.close(descriptor)

    def make_synced_directory(self, directory: Path) -> None:
        """Create a directory and its parents, and sync the name of each one that was created."""
        missing = [path for path in (directory, *directory.parents) if not os.path.exists(path)]
        self.make_directory(directory)
        for path in missing:
            self.sync_directory(path.parent)

    def remove(self, path: Path) -> None:
        """Remove a file or an empty directory, if it exists."""
        try:
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise failure("remove", path, error) from error

    def remove_tree(self, directory: Path) -> None:
        """Remove a directory and everything in it, if it exists."""
        for name in self.names_in(directory):
            path = directory / name
            if path.is_dir():
                self.remove_tree(path)
            else:
                self.remove(path)
        if directory.exists():
            self.remove(directory)

    def link(self, path: Path, other: Path) -> bool:
        """Give a file a second name. Returns False if the file system has no such names."""
        try:
            os.link(path, other)
        except OSError as error:
            if error.errno in NO_LINKS:
                return False
            raise failure("link", path, error) from error
        return True

    def rename(self, path: Path, other: Path) -> None:
        """Rename a file; an existing file of the other name is replaced."""
        try:
            path.rename(other)
        except OSError as error:
            raise failure("rename", path, error) from error


def no_room(path: Path, offset: int) -> StoreError:
    """The error for a write at an offset that would find no room."""
    return failure("write", path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), offset)


def failure(what: str, path: Path, error: OSError, offset: int | None = None) -> StoreError:
    """The StoreError, or a subclass of it, for an error of the operating system."""
    place = f" at offset {offset}" if offset is not None else ""
    reason = error.strerror or str(error)
    if error.errno in NO_SPACE:
        return DiskFull(f"cannot {what} {path}{place}: {reason}; make room on its disk")
    if error.errno == errno.ENOENT and path.parent.is_dir():
        return FileMissing(f"cannot {what} {path}{place}: {reason}")
    return StoreError(f"cannot {what} {path}{place}: {reason}")

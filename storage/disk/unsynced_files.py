"""Files that were written and not synced yet. They stay open until the sync that covers them.

The system writes data to the disk some time after the write. A sync reports an error of that
through a descriptor that was open at the write; a descriptor that is opened later may not get it.
So a few files are kept open. When more are written before a sync, no file is kept open, and one
syncfs syncs them all: through a descriptor of the root directory opened before the first of these
writes, it reports every error of the file system since then (Linux 5.8 and later).

**Promise.** If data written through `opened` do not reach the disk, the next `sync` fails.
**Not promised.** Errors of many files on a file system that does not report them to syncfs.

Invariants:

UF1  Every file that was written since the last sync is open here since its first write, or the root
     directory is, and the next sync is that of the file system.
UF2  At most SYNC_EACH_MAX files are open here between writes. A job that removes files also
     calls `give_up_removed`, since the space of a file is not free while it is open.
UF3  After a failed sync no sync is tried: the system reports an error only once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leveret.storage.disk.disk import Disk, StoreError

SYNC_EACH_MAX = 4
"""With more files than this, one syncfs costs less than an fdatasync of each (1,000 files: 10 ms
instead of 170, docs/reference/performance.md)."""
NOT_OPEN = -1


class UnsyncedFiles:
    """The unsynced files below one directory. All methods are for one worker's thread."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self.disk = disk
        self._root = root
        self._root_descriptor = NOT_OPEN
        self._descriptors: dict[Path, int] = {}
        self._are_many = False
        self._has_failed = False

    @contextmanager
    def opened(self, path: Path, is_new: bool) -> Iterator[int]:
        """A descriptor to write to a file (UF1). is_new: the file is created. Raises StoreError.

        A file that is open here is not created again: a write is repeated after a full disk.
        """
        if self._root_descriptor == NOT_OPEN:
            self._root_descriptor = self.disk.open_directory(self._root)
        descriptor = self._descriptors.get(path)
        if descriptor is None:
            descriptor = self.disk.create(path) if is_new else self.disk.open(path)
            self._keep(path, descriptor)
        try:
            yield descriptor
        finally:
            if path not in self._descriptors:
                self.disk.close(descriptor)

    def _keep(self, path: Path, descriptor: int) -> None:
        if self._are_many or len(self._descriptors) == SYNC_EACH_MAX:
            self._are_many = True
            self._close_files()
        else:
            self._descriptors[path] = descriptor
        assert len(self._descriptors) <= SYNC_EACH_MAX, "UF2"

    def free_bytes(self) -> int:
        """The free space of the file system. Raises StoreError."""
        return self.disk.space(self._root).free_bytes

    def sync(self) -> None:
        """Sync all files written so far, and close them. Raises StoreError (UF3)."""
        if self._has_failed:
            raise StoreError("segments cannot be synced: an earlier sync failed")
        try:
            self._sync()
        except BaseException:
            self._has_failed = True
            raise
        finally:
            self.close()

    def _sync(self) -> None:
        self.give_up_removed()
        if self._are_many:
            assert self._root_descriptor != NOT_OPEN, "UF1"
            self.disk.sync_file_system(self._root_descriptor, self._root)
            return
        for path, descriptor in self._descriptors.items():
            self.disk.sync(descriptor, path)
        self.disk.sync_directories_of(self._descriptors)

    def give_up_removed(self) -> None:
        """Close files that were removed, so that their space is freed (UF2)."""
        for path in [path for path in self._descriptors if not path.exists()]:
            self.disk.close(self._descriptors.pop(path))

    def close(self) -> None:
        """Close all files and the root directory."""
        self._close_files()
        self._are_many = False
        if self._root_descriptor != NOT_OPEN:
            self.disk.close(self._root_descriptor)
            self._root_descriptor = NOT_OPEN

    def _close_files(self) -> None:
        while self._descriptors:
            self.disk.close(self._descriptors.popitem()[1])

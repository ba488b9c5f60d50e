"""The reserve: disk space that is kept for operations that free disk space.

Acks, deletions and the removal of log files are written to disk before space is freed, and a start
writes, too. On a full disk a node could do none of these: the disk would stay full. So the space of
two files is allocated. A running node gives up the first when the disk is full; a node that starts
gives up the second if the disk is still full. Both are allocated again when there is room for twice
their size. Until then publishers wait (pressure.py), so that only operations that free space use
the reserve.

**Promises.** A batch of the log that finds the disk full fits into the first part, unless the disk
is so small that an eighth of it is less than the batch. A node starts once on a disk without any
space. **Not promised.** That other programs do not take the space after it was given up.
"""

from pathlib import Path

from leveret.storage.disk.disk import Disk, StoreError

RUNNING_FILE, STARTING_FILE = "reserve", "reserve-for-start"
TRIAL_FILE = "reserve-trial"
"""This file exists only for a moment."""
RESERVE_BYTES_MAX = 8 * 1024 * 1024
"""The largest size of a batch of the log (log.py, `PENDING_BYTES_HIGH`)."""
DISK_SHARE, STARTING_SHARE = 8, 8
"""Of a small disk the reserve is an eighth; the part for a start is an eighth of that."""
FULL_BYTES = 512 * 1024
"""With less space than this the disk counts as full: SQLite's next write may fail."""


class Reserve:
    """The reserve in one data directory. is_held: all of its space is allocated."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._running, self._starting = directory / RUNNING_FILE, directory / STARTING_FILE
        self._trial = directory / TRIAL_FILE
        self._disk = disk
        self.is_held = bool(disk.size(self._running) and disk.size(self._starting))

    def take(self) -> bool:
        """Allocate the missing files, if there is room for twice that. Returns whether all is held.

        Waits for the disk. Raises StoreError if the disk cannot be used.
        """
        if self.is_held:
            return True
        space = self._disk.space(self._directory)
        size = min(RESERVE_BYTES_MAX, space.total_bytes // DISK_SHARE)
        if space.free_bytes < 2 * size:
            return False
        self.is_held = all(
            self._disk.size(path) or self._disk.allocate(path, wanted)
            for path, wanted in ((self._starting, size // STARTING_SHARE), (self._running, size))
        )
        return self.is_held

    def give_up(self) -> bool:
        """Free the part for a running node. Returns whether it was held. Raises StoreError."""
        self.is_held = False
        return self._free(self._running)

    def make_room_to_start(self) -> None:
        """Free one part if the disk is full, before other files are opened. Raises StoreError."""
        if self._has_room():
            return
        if not self.give_up():
            self._free(self._starting)
        # btrfs frees the space of a removed file only when the removal is on disk.
        descriptor = self._disk.open_directory(self._directory)
        try:
            self._disk.sync_file_system(descriptor, self._directory)
        finally:
            self._disk.close(descriptor)

    def _has_room(self) -> bool:
        """Whether a start can write. btrfs counts unusable space as free: this allocates some."""
        if self._disk.space(self._directory).free_bytes < FULL_BYTES:
            return False
        if not self._disk.allocate(self._trial, FULL_BYTES):
            return False
        self._disk.remove(self._trial)
        return True

    def _free(self, path: Path) -> bool:
        was_held = self._disk.size(path) > 0
        self._disk.remove(path)
        return was_held


def make_room_to_start(directory: Path) -> None:
    """Give up a part of the reserve if the disk is full, so that a start can write."""
    try:
        Reserve(directory, Disk()).make_room_to_start()
    except StoreError:
        # The next open of a file reports the error of the directory.
        return

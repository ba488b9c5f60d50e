"""The files of streams that one thread writes, which stay open between writes.

A stream that gets a few frames a second writes two files for each and syncs one of them. Opening
and closing these each time cost six system calls of nine. The files written last stay open, so that
idle streams need no descriptors when others are written.
"""

from pathlib import Path

from leveret.storage.disk.disk import Disk

OPEN_MIN = 2
"""A segment and its index."""


class WrittenFiles:
    """Open files by their paths. For one thread."""

    __slots__ = ("_disk", "_most", "_open")

    def __init__(self, disk: Disk, most: int = OPEN_MIN) -> None:
        """most: how many files stay open."""
        self._disk = disk
        self._most = max(OPEN_MIN, most)
        self._open: dict[Path, int] = {}
        """From the one that was used longest ago to the last one."""

    def __del__(self) -> None:
        self.close_all()

    def open(self, path: Path) -> int:
        """The descriptor of an existing file. It stays valid until the next file is opened.

        Raises StoreError.
        """
        descriptor = self._open.pop(path, -1)
        if descriptor < 0:
            descriptor = self._disk.open(path)
            while len(self._open) >= self._most:
                self.close(next(iter(self._open)))
        self._open[path] = descriptor
        return descriptor

    def close(self, path: Path) -> None:
        """Close a file that is no longer written, or is removed."""
        descriptor = self._open.pop(path, -1)
        if descriptor >= 0:
            self._disk.close(descriptor)

    def close_in(self, directory: Path) -> None:
        """Close the files of a directory."""
        for path in [path for path in self._open if path.parent == directory]:
            self.close(path)

    def close_all(self) -> None:
        """Close all files."""
        for path in tuple(self._open):
            self.close(path)

"""A file that is extended by whole pieces: an incompletely written piece is removed."""

import os
from pathlib import Path

from leveret.broker.runtime.private_files import make_directory, opened


class AppendedFile:
    """A file that is written at its end. Methods raise OSError and can be called again after it.

    size: bytes of complete pieces.
    """

    def __init__(self, path: Path) -> None:
        make_directory(path.parent)
        self.path = path
        self._descriptor = opened(str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.size = os.fstat(self._descriptor).st_size
        self._is_torn = False

    def append(self, piece: bytes) -> None:
        """Write a piece completely, or not at all."""
        self._mend()
        self._is_torn = True
        written = 0
        while written < len(piece):
            written += os.write(self._descriptor, piece[written:])
        self._is_torn = False
        self.size += len(piece)

    def sync(self) -> None:
        """Write all data to the disk, after removing an incomplete piece."""
        self._mend()
        os.fsync(self._descriptor)

    def is_there(self) -> bool:
        """Return whether the file still exists under its path."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return False
        mine = os.fstat(self._descriptor)
        return (found.st_ino, found.st_dev) == (mine.st_ino, mine.st_dev)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _mend(self) -> None:
        if self._is_torn:
            os.ftruncate(self._descriptor, self.size)
            self._is_torn = False

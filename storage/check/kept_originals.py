"""The files that a repair changes: a copy of each is kept in `damaged/` in the data directory."""

from collections.abc import Callable
from pathlib import Path

from leveret.storage.disk.disk import Disk

DAMAGED = "damaged"


class KeptOriginals:
    """Changes files below a directory. repaired: their paths."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.directory = directory
        self.disk = disk
        self.repaired: list[Path] = []

    def keep(self, path: Path) -> None:
        """Copy a file that is about to be changed."""
        if path in self.repaired:
            return
        copy = self.directory / DAMAGED / path.relative_to(self.directory)
        self.disk.make_directory(copy.parent)
        if path.exists():
            self.write(copy, self.disk.read_all(path), is_new=True)
        self.repaired.append(path)

    def replace(self, path: Path, data: bytes) -> None:
        """Replace a file that was kept, or create it: a kill leaves the one or the other."""
        new = path.with_suffix(".new")
        self.write(new, data, is_new=True)
        self.disk.rename(new, path)
        self.disk.sync_directory(path.parent)

    def write(self, path: Path, data: bytes, *, is_new: bool) -> None:
        """Write the beginning of a file, and sync it."""
        self._change(path, is_new, lambda file: self.disk.write(file, path, data, 0))

    def patch(self, path: Path, pieces: dict[int, bytes]) -> None:
        """Write pieces of a file that was kept, by their offsets, and sync it."""

        def write(file: int) -> None:
            for offset, data in pieces.items():
                self.disk.write(file, path, data, offset)

        self._change(path, False, write)

    def cut(self, path: Path, size: int) -> None:
        """Cut off the end of a file that was kept, and sync it."""
        self.disk.truncate(path, size)
        self._change(path, False, lambda file: None)

    def _change(self, path: Path, is_new: bool, change: Callable[[int], object]) -> None:
        descriptor = self.disk.create(path) if is_new else self.disk.open(path)
        try:
            change(descriptor)
            self.disk.sync(descriptor, path)
        finally:
            self.disk.close(descriptor)
        self.disk.sync_directory(path.parent)

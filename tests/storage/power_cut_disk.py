"""A disk whose power can be cut: unsynced data is lost completely, partially, or not at all.

It works on real files. For each unsynced write it keeps the previous contents. `cut` undoes the
writes to each file from a random one on, of which random sectors remain, in any order. A file or
directory may vanish if the one that it is in was not synced since its creation; a removed file may
reappear. After the cut every operation fails.
"""

import os
import shutil
from pathlib import Path

from leveret.storage.disk.disk import Disk

SECTOR_BYTES = 512


class PowerIsOff(Exception):
    """The machine is off."""


class PowerCutDisk(Disk):
    """dies_at: (point, n): the power is cut when the store passes that point for the nth time."""

    def __init__(self, random, dies_at=None):
        super().__init__()
        self._random = random
        self._dies_at = dies_at
        self._undo = {}
        self._new = {}
        self._removed = {}
        self._paths = {}
        self.is_off = False
        self.points = {}

    def dies_at(self, point_and_count):
        """Cut the power when the store has passed a point a number of times from now on."""
        self.points.clear()
        self._dies_at = point_and_count

    def after_kill(self, dies_at=None):
        """The same disk for the next process: what was not synced may still be lost."""
        disk = PowerCutDisk(self._random, dies_at)
        disk._undo, disk._new, disk._removed = self._undo, self._new, self._removed
        return disk

    def _check(self):
        if self.is_off:
            raise PowerIsOff

    def passed(self, point):
        self._check()
        self.points[point] = self.points.get(point, 0) + 1
        if self._dies_at == (point, self.points[point]):
            self.is_off = True
            raise PowerIsOff

    def _open(self, path, flags):
        self._check()
        is_new = not path.exists()
        if flags & os.O_TRUNC and not is_new:
            self._note(path, 0, path.stat().st_size, b"")
        descriptor = super()._open(path, flags)
        self._paths[descriptor] = path
        if is_new:
            self._new[path] = True
        return descriptor

    def _note(self, path, offset, size, data):
        """Keep the contents that the data will overwrite."""
        before = path.read_bytes()[offset : offset + size] if path.exists() else b""
        length = path.stat().st_size if path.exists() else 0
        self._undo.setdefault(path, []).append((offset, before, length, data))

    def reserve(self, descriptor, start, size):
        self._check()
        return True

    def write(self, descriptor, path, data, offset):
        self._check()
        self._note(path, offset, len(data), data)
        super().write(descriptor, path, data, offset)

    def truncate(self, path, size):
        self._check()
        self._note(path, size, 1 << 40, b"")
        super().truncate(path, size)

    def punch(self, descriptor, start, end):
        self._check()
        return super().punch(descriptor, start, end)

    def make_directory(self, directory):
        self._check()
        new = [path for path in (directory, *directory.parents) if not path.exists()]
        super().make_directory(directory)
        self._new.update(dict.fromkeys(new))

    def sync(self, descriptor, path):
        self._check()
        self._undo.pop(path, None)

    def sync_directory(self, directory):
        self._check()
        # In place: the threads of both workers call this.
        for names in (self._new, self._removed):
            for path in [path for path in tuple(names) if path.parent == directory]:
                names.pop(path, None)

    def sync_file_system(self, descriptor, root):
        self._check()
        self._undo.clear()
        self._new.clear()
        self._removed.clear()

    def remove(self, path):
        self._check()
        if path.is_file():
            self._removed[path] = path.read_bytes()
            self._undo.pop(path, None)
        super().remove(path)

    def rename(self, path, other):
        """Its new name is on the disk when the directory is synced; the old one comes not back."""
        self._check()
        super().rename(path, other)
        self._undo[other] = self._undo.pop(path, [])
        self._new.pop(path, None)
        self._new[other] = True

    def link(self, path, other):
        self._check()
        is_linked = super().link(path, other)
        self._new[other] = True
        return is_linked

    def read_from(self, descriptor, path, offset, size):
        self._check()
        return super().read_from(descriptor, path, offset, size)

    def cut(self):
        """Cut the power; a restart finds what is on the disk now."""
        self.is_off = True
        for path, changes in self._undo.items():
            kept = self._random.randint(0, len(changes))
            self._undo_changes(path, changes[kept:])
            if kept < len(changes) and path.exists():
                offset, _, _, data = changes[kept]
                self._keep_sectors(path, offset, data)
        for path, data in self._removed.items():
            if self._random.random() < 0.5 and path.parent.exists():
                path.write_bytes(data)
        for path in tuple(self._new):
            if self._random.random() < 0.3 and path.exists():
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()

    def _keep_sectors(self, path, offset, data):
        """The disk wrote some sectors of the data before the power was cut."""
        with path.open("r+b") as file:
            start = 0
            while start < len(data):
                end = min(len(data), start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES)
                if self._random.random() < 0.5:
                    file.seek(offset + start)
                    file.write(data[start:end])
                start = end

    @staticmethod
    def _undo_changes(path: Path, changes):
        if not path.exists():
            return
        with path.open("r+b") as file:
            for offset, before, length, _ in reversed(changes):
                file.seek(offset)
                file.write(before)
                file.truncate(length)

"""Log files that are kept for the entries in them when the log no longer needs them.

A kept file gets a second name in the groups' directory, a hard link, so nothing is copied. Where
the file system has no links, the needed byte ranges are copied to the same offsets of a new file.
The parts of a kept file that are not needed are freed by punching holes. A file without needed
entries is removed.

**Promise.** A needed entry stays readable at its offset after the log has removed the file. **Not
promised.** That the space of unneeded entries is freed at once, or at all where the file system
cannot punch holes.

Invariants:

KF1  A file is linked, and its name is on disk, before the log removes its own name.
KF2  No hole is punched into bytes that a row on disk refers to, nor into a file that the log needs.
KF3  A file is removed when no row on disk refers to it.
"""

from collections.abc import Iterable
from pathlib import Path

from leveret.storage.disk.disk import Disk

SUFFIX = ".log"
HOLE_BYTES_MIN = 16 * 1024
"""Smaller holes are not punched: a file system frees whole blocks, and has to record each hole."""


class KeptFiles:
    """The kept files of one node. For one thread at a time, except `path` and `numbers`.

    numbers: of the log files whose entries are read from their kept copies or links.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        self.numbers = set(kept_numbers(disk, directory))
        self._unfinished: set[int] = set()

    def path(self, number: int) -> Path:
        """The path of a kept file."""
        return kept_path(self._directory, number)

    def used_bytes(self, number: int) -> int:
        """The disk space of a file."""
        return self._disk.used_bytes(self.path(number))

    def keep(self, number: int, log_path: Path, needed: Iterable[tuple[int, int]]) -> None:
        """Keep a log file for the needed byte ranges (KF1). This takes effect with `finish`.

        Until then any part of the log file may be read, and a copy has only the needed parts.
        Raises StoreError.
        """
        path = self.path(number)
        if number in self.numbers:
            return
        if number in self._unfinished:
            self._disk.remove(path)  # An earlier round has failed after this step.
            self._unfinished.discard(number)
        if not self._disk.link(log_path, path):
            self._copy(log_path, path, needed)
        self._unfinished.add(number)
        self._disk.sync_directory(self._directory)
        self._disk.passed("groups.linked")

    def finish(self, number: int) -> None:
        """From now on read the file's entries from here: no row on disk needs the others."""
        if number in self._unfinished:
            self._unfinished.discard(number)
            self.numbers.add(number)

    def _copy(self, log_path: Path, path: Path, needed: Iterable[tuple[int, int]]) -> None:
        new = path.with_suffix(".new")
        descriptor = self._disk.create(new)
        try:
            for start, end in joined(needed, HOLE_BYTES_MIN):
                data = self._disk.read(log_path, start, end - start)
                self._disk.write(descriptor, new, data, start)
            self._disk.sync(descriptor, new)
        finally:
            self._disk.close(descriptor)
        self._disk.rename(new, path)

    def free(self, number: int, needed: Iterable[tuple[int, int]]) -> None:
        """Free the space of all but the needed byte ranges (KF2). Raises StoreError."""
        path = self.path(number)
        descriptor = self._disk.open(path)
        try:
            start = 0
            for begin, end in [*joined(needed, HOLE_BYTES_MIN), (self._disk.size(path), 0)]:
                if begin - start >= HOLE_BYTES_MIN:
                    self._disk.punch(descriptor, start, begin)
                start = end
        finally:
            self._disk.close(descriptor)
        self._disk.passed("groups.punched")

    def remove(self, number: int) -> None:
        """Remove a file without needed entries (KF3). Raises StoreError."""
        self._disk.remove(self.path(number))
        self.numbers.discard(number)
        self._disk.passed("groups.removed")


def joined(ranges: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """The ranges in their order, with those joined that have only a small gap between them."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start - found[-1][1] < gap:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((max(0, start), end))
    return found


def kept_path(directory: Path, number: int) -> Path:
    """The path of the kept file with this number."""
    return directory / f"{number:010d}{SUFFIX}"


def kept_numbers(disk: Disk, directory: Path) -> list[int]:
    """The numbers of the kept files in a directory, in order."""
    names = [Path(name) for name in disk.names_in(directory)]
    return [int(name.stem) for name in names if name.suffix == SUFFIX and name.stem.isdigit()]

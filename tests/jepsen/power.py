"""Disks whose power can be cut: what was not synced is gone.

Each is an ext4 file system in a file, mounted as a loop device. What programs write stays in the
page cache of the file system until they sync it, or until the system writes it. So a copy of the
file, made while it is mounted, is what a disk has after its power was cut, and mounting it again
recovers the journal, as a start of the machine does. The interval of the journal is long, so that
a power cut takes all that nobody has synced.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.small_disk import MAKING, MEGABYTE

OPTIONS = "loop,commit=600"


class PowerDisk:
    """A disk that is mounted at a directory."""

    def __init__(self, place: Path, megabytes: int) -> None:
        self._place = place
        self._image = place.with_name(f"{place.name}.image")
        self._image.touch()
        os.truncate(self._image, max(megabytes, MAKING["ext4"][0]) * MEGABYTE)
        _run("mkfs.ext4", *MAKING["ext4"][1], str(self._image))
        place.mkdir(exist_ok=True)
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-t", "ext4", "-o", OPTIONS, str(self._image), str(self._place))

    def cut(self) -> None:
        """Cut the power, and switch it on again. No program may be using the disk."""
        kept = self._image.with_suffix(".kept")
        _run("cp", "--sparse=always", str(self._image), str(kept))
        _run("umount", str(self._place))
        kept.replace(self._image)
        self._mount()


@contextlib.contextmanager
def power_disks(places: list[Path], megabytes: int) -> Iterator[dict[Path, PowerDisk]]:
    """Mount a disk at each place. Raises subprocess.CalledProcessError if that is not possible."""
    disks: dict[Path, PowerDisk] = {}
    try:
        for place in places:
            disks[place] = PowerDisk(place, megabytes)
        yield disks
    finally:
        for place in disks:
            subprocess.run(["umount", "-l", str(place)], check=False)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)

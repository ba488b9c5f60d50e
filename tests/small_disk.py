"""A disk of some megabytes for a test to fill: a file system that only root may mount.

tmpfs is in memory and quick. The others are in a file, mounted as a loop device: ext4 keeps what a
failed allocation got, XFS needs space for a new name, and btrfs writes copies.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

MEGABYTE = 1024 * 1024
TMPFS = "tmpfs"
MAKING = {
    "ext4": (48, ["-q", "-m", "0"]),
    "xfs": (300, ["-q"]),
    "btrfs": (256, ["-q"]),
    "btrfs, mixed": (120, ["-q", "--mixed"]),
}
"""The file systems in files: the least megabytes of one, and the options of its mkfs."""
MIXED_BTRFS = "btrfs, mixed"
"""With data and metadata in the same block groups."""
OPTIONS = {"btrfs": "loop,commit=1"}
"""Of mount. Space is free once btrfs has committed that, by default within 30 seconds."""


@contextlib.contextmanager
def mounted(place: Path, megabytes: int, kind: str = TMPFS) -> Iterator[str]:
    """Make a directory, and mount a disk there. Yields why it could not be mounted, or nothing."""
    place.mkdir()
    image = place.with_name(f"{place.name}.image")
    reason = "" if kind == TMPFS else _made(image, max(megabytes, MAKING[kind][0]), kind)
    if not reason:
        options = (
            ["-t", TMPFS, "-o", f"size={megabytes}m", TMPFS]
            if kind == TMPFS
            else ["-t", _type(kind), "-o", OPTIONS.get(_type(kind), "loop"), str(image)]
        )
        reason = _run("mount", *options, str(place))
    try:
        yield reason
    finally:
        if not reason:
            subprocess.run(["umount", "-l", str(place)], check=False)
        image.unlink(missing_ok=True)


def _made(image: Path, megabytes: int, kind: str) -> str:
    """Make a file system in a file; why that is not possible, or nothing."""
    program = f"mkfs.{_type(kind)}"
    if shutil.which(program) is None:
        return f"{program} is not installed"
    image.touch()
    os.truncate(image, megabytes * MEGABYTE)
    return _run(program, *MAKING[kind][1], str(image))


def _type(kind: str) -> str:
    return kind.partition(",")[0]


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() or f"{command[0]} failed" if done.returncode else ""


@contextlib.contextmanager
def small_disk(place: Path, megabytes: int, kind: str = TMPFS) -> Iterator[Path]:
    """The disk for a test, which is skipped where nothing can be mounted."""
    with mounted(place, megabytes, kind) as reason:
        if reason:
            pytest.skip(f"no {kind} can be mounted here: {reason}")
        yield place


def free_bytes(disk: Path) -> int:
    """The free space of a disk."""
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def fill(disk: Path, leave: int = 0) -> Path:
    """Leave `leave` bytes free on a disk; return the file that takes the space."""
    filling = disk / "filling"
    with filling.open("ab", buffering=0) as file:
        if leave:
            os.posix_fallocate(file.fileno(), 0, free_bytes(disk) - leave)
            return filling
        for size in (MEGABYTE, 4096):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    return filling

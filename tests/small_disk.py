"""A disk of some megabytes for a test to fill: a file system that only root may mount."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

MEGABYTE = 1024 * 1024


@contextlib.contextmanager
def mounted(place: Path, megabytes: int) -> Iterator[str]:
    """Make a directory, and mount a disk there. Yields why it could not be mounted, or nothing."""
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        yield done.stderr.strip() if done.returncode else ""
    finally:
        if not done.returncode:
            subprocess.run(["umount", "-l", str(place)], check=False)


@contextlib.contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """The disk for a test, which is skipped where nothing can be mounted."""
    with mounted(place, megabytes) as reason:
        if reason:
            pytest.skip(f"no file system can be mounted here: {reason}")
        yield place


def fill(disk: Path) -> Path:
    """Leave no room on a disk; the file that takes it."""
    filling = disk / "filling"
    with filling.open("ab", buffering=0) as file:
        for size in (MEGABYTE, 4096):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    return filling

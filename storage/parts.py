"""Parts of files: planned in the event loop, written by a worker.

A segment or a file of the message store is only appended to. Where the next part goes is decided in
the loop, so a part can be written again at the same place if the disk was full.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from storage.disk import Disk
from storage.formats import SEGMENT_MAGIC, encode_file_header


class Part(NamedTuple):
    """What is to be written to a file, at an offset. is_new: the file is to be made first."""

    path: Path
    magic: bytes
    number: int
    is_new: bool
    offset: int
    data: bytes


def write_parts(disk: Disk, parts: Iterable[Part]) -> None:
    """Do what was planned. For a worker's thread. Raises StoreError; may be done again then."""
    for part in parts:
        name = "segment" if part.magic == SEGMENT_MAGIC else "bodies"
        if part.is_new:
            disk.make_directory(part.path.parent)
            descriptor = disk.create(part.path)
            disk.passed(f"{name}.created")
        else:
            descriptor = disk.open(part.path)
        try:
            if part.is_new:
                disk.write(descriptor, part.path, encode_file_header(part.magic, part.number), 0)
            disk.write(descriptor, part.path, part.data, part.offset)
        finally:
            disk.close(descriptor)
        disk.passed(f"{name}.written")

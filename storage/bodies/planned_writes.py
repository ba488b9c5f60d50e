"""Appends to segments and files of the message store: planned in the event loop, written by a
worker's thread.

The event loop decides the file and the offset of each write. So the offset of the next write is
known before the data are written, and after a full disk the same writes can be repeated.

Invariants:

PW1  A write begins where the file's last planned write ends. The first one begins at the end of the
     file header.
PW2  The writes to a file are carried out in the order in which they were planned, by one thread.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from leveret.storage.disk.unsynced_files import UnsyncedFiles
from leveret.storage.log.large_records import LogRecord, pieces_of
from leveret.storage.messages.formats import FILE_HEADER_BYTES, SEGMENT_MAGIC, encode_file_header


class PlannedWrite(NamedTuple):
    """Records, or a body, to write to a file at an offset. is_new: the file is created first.

    magic, number: for the header of a new file.
    """

    path: Path
    magic: bytes
    number: int
    is_new: bool
    offset: int
    data: list[LogRecord]


def write_planned(files: UnsyncedFiles, writes: Iterable[PlannedWrite]) -> None:
    """Carry out planned writes. For a worker's thread.

    Raises StoreError. After DiskFull the same writes can be repeated.
    """
    disk = files.disk
    for write in writes:
        assert not write.is_new or write.offset == FILE_HEADER_BYTES, "PW1: a new file is empty"
        name = "segment" if write.magic == SEGMENT_MAGIC else "bodies"
        if write.is_new:
            disk.make_directory(write.path.parent)
        with files.opened(write.path, write.is_new) as descriptor:
            if write.is_new:
                disk.passed(f"{name}.created")
                disk.write(descriptor, write.path, encode_file_header(write.magic, write.number), 0)
            data = b"".join(pieces_of(write.data))
            disk.write(descriptor, write.path, data, write.offset)
        disk.passed(f"{name}.written")

"""A file of a trace log: blocks of records (block_format.py), each in a gzip member of its own.

A file's name ends in `.open` while it is being written; it is renamed when it is complete. After a
crash, and for a reader of an open file, everything up to the end of the last complete member is
valid.

Compressed with ISA-L at level 1, without the interpreter's lock.
"""

import logging
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from isal import isal_zlib

from leveret.broker.tracing.appended_file import AppendedFile
from leveret.broker.tracing.record import OPEN_SUFFIX, OPEN_SUFFIXES, SUFFIX

LEVEL = 1
GZIP = 31
"""zlib's `wbits` for a gzip member."""
READ_BYTES = 1 << 20
MAGIC = b"\x1f\x8b"
BEING_WRITTEN = ".open"
DAMAGED: tuple[Any, ...] = (zlib.error, isal_zlib.error)

logger = logging.getLogger("leveret.tracing")


class TraceLogFile(AppendedFile):
    """A file that is being written. size: bytes of complete members."""

    def __init__(self, path: Path) -> None:
        """Open a file. path: without the suffix."""
        super().__init__(Path(f"{path}{OPEN_SUFFIX}"))
        self._complete = Path(f"{path}{SUFFIX}")

    def add(self, block: bytes) -> None:
        """Write a block as one member, completely or not at all."""
        self.append(isal_zlib.compress(block, LEVEL, GZIP))

    def finish(self) -> None:
        """Close the file, and rename it to the name of a complete file."""
        self.sync()
        self.path.rename(self._complete)
        self.close()


def finish_left_open(directory: Path, node: str) -> None:
    """Finish the files that a crash of this node left open. Raises OSError."""
    for path in tuple(directory.rglob(f"*{BEING_WRITTEN}")):
        if path.name.startswith(f"{node}-") and path.name.endswith(OPEN_SUFFIXES):
            _finish(path)


def _finish(path: Path) -> None:
    size = path.stat().st_size
    whole = whole_bytes(path)
    if whole < size:
        logger.warning(
            "%s: truncated from %d to %d bytes, the last complete member", path, size, whole
        )
        os.truncate(path, whole)
    if whole:
        path.rename(path.with_name(path.name.removesuffix(BEING_WRITTEN)))
    else:
        path.unlink()


def whole_bytes(path: Path) -> int:
    """Return the end of the last complete member of a file. Raises OSError."""
    return max(_member_ends(path), default=0)


def _member_ends(path: Path) -> Iterator[int]:
    """Return the offset after each complete member, up to the first truncated or damaged one."""
    with path.open("rb") as file:
        unread, position = b"", 0
        while (chunk := unread or file.read(READ_BYTES)).startswith(MAGIC) or len(chunk) == 1:
            member = isal_zlib.decompressobj(GZIP)
            try:
                while chunk and not member.eof:
                    member.decompress(chunk)
                    position += len(chunk)
                    chunk = b"" if member.eof else file.read(READ_BYTES)
            except DAMAGED:
                return
            if not member.eof:
                return
            unread = member.unused_data
            position -= len(unread)
            yield position

"""Parts of large log files, which different threads and workers read.

A log of the broker is a sequence of gzip members, each with a block of records or whole lines. A
part begins at the first member that begins in the part's range of bytes, and ends where a later
part begins; a range in which no member begins belongs to the part before it. The three bytes at the
beginning of a member can also be within one, so a candidate is decompressed to its end, which
checks its length and CRC. So all parts find the same borders, whatever is damaged between them.
"""

from collections.abc import Iterable
from typing import BinaryIO, NamedTuple

from isal import isal_zlib

from leveret.analytics.traces.log_blocks import (
    BLOCK_BYTES_MAX,
    DAMAGED,
    GZIP,
    MEMBER,
    READ_BYTES,
    BlockSource,
)
from leveret.analytics.traces.trace_files import TraceFile

PART_BYTES = 16 * 1024 * 1024
"""About 700,000 events, which are read in 4 seconds."""


class LogPart(NamedTuple):
    """The members of a local file that begin at bytes from `begins` to before `ends`.

    size: the size of the file when it was listed.
    """

    path: str
    begins: int
    ends: int
    size: int

    @property
    def is_whole(self) -> bool:
        """It is the whole file."""
        return self.begins == 0 and self.ends >= self.size


def parts_of(files: Iterable[TraceFile], part_bytes: int = PART_BYTES) -> list[LogPart]:
    """Return the parts of local files, in the order of the files."""
    return [
        LogPart(file.path, begins, min(begins + part_bytes, file.size), file.size)
        for file in files
        for begins in range(0, max(1, file.size), part_bytes)
    ]


class PartSource(BlockSource):
    """The bytes of an open file from `begins` to before `ends`, or to its end if `ends` is None."""

    def __init__(self, file: BinaryIO, begins: int, ends: int | None = None) -> None:
        self._file = file
        self.ends = ends
        file.seek(begins)

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end."""
        left = size if self.ends is None else min(size, self.ends - self._file.tell())
        return self._file.read(left)

    def tell(self) -> int:
        """Return the position in the file."""
        return self._file.tell()


def part_source(file: BinaryIO, part: LogPart) -> PartSource | None:
    """Return the bytes of a part of a gzip file; None if no member begins in it. Raises OSError."""
    begins = next_member(file, part.begins, part.ends) if part.begins else 0
    if begins is None:
        return None
    return PartSource(file, begins, next_member(file, part.ends, part.size))


def next_member(file: BinaryIO, begins: int, ends: int) -> int | None:
    """Return where the first whole gzip member begins, from `begins` to before `ends`."""
    at = begins
    while at < ends:
        file.seek(at)
        data = file.read(min(READ_BYTES, ends - at) + len(MEMBER) - 1)
        found = data.find(MEMBER)
        if found < 0:
            at += READ_BYTES
        elif _is_whole_member(file, at + found):
            return at + found
        else:
            at += found + 1
    return None


def _is_whole_member(file: BinaryIO, at: int) -> bool:
    file.seek(at)
    member, data = isal_zlib.decompressobj(GZIP), b""
    try:
        while not member.eof:
            data = member.unconsumed_tail or file.read(READ_BYTES)
            if not member.decompress(data, BLOCK_BYTES_MAX) and not data:
                return False
    except DAMAGED:
        return False
    return True

"""Reads the lines of one log in blocks, whatever state the file is in.

A log is a sequence of gzip members of whole lines, or the same lines decompressed. A truncated file
is read up to its last whole line; after a damaged member, reading continues with the next one. Each
fault is reported as a `Problem`. An incomplete end of a file that is being written is not a fault.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, cast

from isal import isal_zlib

from leveret.analytics.traces.trace_files import TraceFile

READ_BYTES = 256 * 1024
BLOCK_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of a decompressed block, unless one line is longer."""
LINE_BYTES_MAX = 256 * 1024 * 1024
"""The longest line that is read; the rest of a longer one is dropped."""
GZIP = 31
"""zlib's `wbits` for a gzip member."""
MEMBER = b"\x1f\x8b\x08"

# isal's annotation calls it an exception instance, not a class.
DAMAGED = (zlib.error, cast(type[Exception], isal_zlib.error))


class Source(Protocol):
    """What blocks are read from: an open file, or what stands for one."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end. Raises OSError."""

    def tell(self) -> int:
        """Return the position, in bytes from the beginning of the file."""


class Problem(NamedTuple):
    """What could not be read.

    line: from 1; None if the problem concerns the whole file. text: what was read of the line.
    """

    file: str
    line: int | None
    reason: str
    text: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{place}: {self.reason}"


class Block(NamedTuple):
    """Whole lines. line: the number of the first, from 1. lines: their number."""

    data: bytes
    line: int
    lines: int


class _Damage(NamedTuple):
    """A place where data is missing. is_end: no data follows it."""

    reason: str
    is_end: bool = False


def read_blocks(file: TraceFile, problems: list[Problem]) -> Iterator[Block]:
    """Return the lines of a file. Faults are appended to `problems`."""
    try:
        with open(file.path, "rb") as source:
            yield from blocks_of(source, file.path, problems, file.is_open)
    except OSError as error:
        problems.append(Problem(file.path, None, f"cannot be read: {error.strerror or error}"))


def blocks_of(
    source: Source, path: str, problems: list[Problem], is_being_written: bool
) -> Iterator[Block]:
    """Return the lines of an open file; `path` names it in problems. Raises OSError."""
    begun, line = b"", 1
    for data in _unpacked(source):
        if isinstance(data, _Damage):
            if not (data.is_end and is_being_written):
                problems.append(Problem(path, line, data.reason, _text(begun)))
            begun = b""
            continue
        end = data.rfind(b"\n") + 1
        if end:
            block = begun + data[:end]
            begun = data[end:]
            lines = block.count(b"\n")
            yield Block(block, line, lines)
            line += lines
        elif len(begun) + len(data) <= LINE_BYTES_MAX:
            begun += data
        else:
            reason = "a line does not end; the part that was read is dropped"
            problems.append(Problem(path, line, reason))
            begun = b""
    if begun and not is_being_written:
        reason = "the file ends within this line"
        problems.append(Problem(path, line, reason, _text(begun)))


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def _unpacked(source: Source) -> Iterator[bytes | _Damage]:
    """Return the decompressed data, and each fault at its place."""
    data = source.read(READ_BYTES)
    if not data.startswith(MEMBER):
        while data:
            yield data
            data = source.read(BLOCK_BYTES_MAX)
        return
    yield from _inflated(source, data)


def _inflated(source: Source, data: bytes) -> Iterator[bytes | _Damage]:
    """Decompress gzip members. data: what was already read of them."""
    member, has_begun = isal_zlib.decompressobj(GZIP), True
    while data or (data := source.read(READ_BYTES)) or (has_begun and not member.eof):
        is_at_end = not data
        try:
            piece = member.decompress(data, BLOCK_BYTES_MAX)
            data, has_begun = member.unconsumed_tail, True
        except DAMAGED as error:
            yield _Damage(f"damaged near byte {source.tell() - len(data)}: {error}")
            data = _next_member(source.read, data)
            member, has_begun = isal_zlib.decompressobj(GZIP), False
            continue
        yield piece
        if member.eof:
            data = member.unused_data
            member, has_begun = isal_zlib.decompressobj(GZIP), False
        elif is_at_end and not piece:
            yield _Damage("the file is truncated", is_end=True)
            return


def _next_member(read: Callable[[int], bytes], data: bytes) -> bytes:
    """Return the data from the start of the next member on; empty if there is none."""
    data = data[1:]
    while (at := data.find(MEMBER)) < 0:
        more = read(READ_BYTES)
        if not more:
            return b""
        data = data[-len(MEMBER) + 1 :] + more
    return data[at:]

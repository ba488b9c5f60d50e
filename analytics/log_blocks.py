"""The lines of one log, in blocks, whatever state the file is in.

A log is gzip members of whole lines, or the same lines unpacked. One that is cut off is good up to
its last whole line; after a damaged member it goes on with the next one. What was wrong is noted as
a `Problem`. The end of a file that is being written is no problem.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, cast

from isal import isal_zlib

from analytics.trace_files import TraceFile
from broker.tracing.record import OPEN_SUFFIX

READ_BYTES = 256 * 1024
BLOCK_BYTES_MAX = 4 * 1024 * 1024
"""Of what a block is unpacked to, as long as lines are shorter."""
LINE_BYTES_MAX = 256 * 1024 * 1024
"""No record is longer; what is, has no lines."""
GZIP = 31
"""zlib's `wbits` of a gzip member."""
MEMBER = b"\x1f\x8b\x08"

# isal's own annotation says that it is an exception, and not a class of exceptions.
_DAMAGED = (zlib.error, cast(type[Exception], isal_zlib.error))


class Problem(NamedTuple):
    """What could not be read.

    line: from 1; None if it is about the file as a whole. text: what there is of the line.
    """

    file: str
    line: int | None
    reason: str
    text: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{place}: {self.reason}"


class Block(NamedTuple):
    """Whole lines. line: the number of the first. lines: how many they are."""

    data: bytes
    line: int
    lines: int


class _Damage(NamedTuple):
    """Something is missing here. is_end: and nothing comes after it."""

    reason: str
    is_end: bool = False


def read_blocks(file: TraceFile, problems: list[Problem]) -> Iterator[Block]:
    """The lines of a file. What is wrong with it is added to `problems`."""
    try:
        with open(file.path, "rb") as source:
            yield from blocks_of(source, file.path, problems)
    except OSError as error:
        problems.append(Problem(file.path, None, f"cannot be read: {error.strerror or error}"))


def blocks_of(source: BinaryIO, path: str, problems: list[Problem]) -> Iterator[Block]:
    """The lines of a file that is open; `path` says who it is. Raises OSError."""
    is_being_written = path.endswith(OPEN_SUFFIX)
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
            reason = "a line has no end; what there was of it is left out"
            problems.append(Problem(path, line, reason))
            begun = b""
    if begun and not is_being_written:
        reason = "the file ends in the middle of this line"
        problems.append(Problem(path, line, reason, _text(begun)))


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def _unpacked(source: BinaryIO) -> Iterator[bytes | _Damage]:
    """What the file is unpacked to, and each damage where it is."""
    data = source.read(READ_BYTES)
    if not data.startswith(MEMBER):
        while data:
            yield data
            data = source.read(BLOCK_BYTES_MAX)
        return
    yield from _inflated(source, data)


def _inflated(source: BinaryIO, data: bytes) -> Iterator[bytes | _Damage]:
    """The same of gzip members. data: what was read of them."""
    member, has_begun = isal_zlib.decompressobj(GZIP), True
    while data or (data := source.read(READ_BYTES)) or (has_begun and not member.eof):
        is_at_end = not data
        try:
            piece = member.decompress(data, BLOCK_BYTES_MAX)
            data, has_begun = member.unconsumed_tail, True
        except _DAMAGED as error:
            yield _Damage(f"is damaged near byte {source.tell() - len(data)}: {error}")
            data = _next_member(source.read, data)
            member, has_begun = isal_zlib.decompressobj(GZIP), False
            continue
        yield piece
        if member.eof:
            data = member.unused_data
            member, has_begun = isal_zlib.decompressobj(GZIP), False
        elif is_at_end and not piece:
            yield _Damage("the file is cut off", is_end=True)
            return


def _next_member(read: Callable[[int], bytes], data: bytes) -> bytes:
    """What there is from the next member's beginning on; empty if there is none."""
    data = data[1:]
    while (at := data.find(MEMBER)) < 0:
        more = read(READ_BYTES)
        if not more:
            return b""
        data = data[-len(MEMBER) + 1 :] + more
    return data[at:]

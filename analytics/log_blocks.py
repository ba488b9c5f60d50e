"""The lines of one trace file, in blocks, whatever state the file is in.

A log is gzip members of whole lines. One that is cut off is good up to its last whole line; after a
damaged member it goes on with the next one. What was wrong is noted as a `Problem`. The end of a
file that is being written is no problem.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

from isal import isal_zlib

from analytics.trace_files import PLAIN_SUFFIX, TraceFile

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
    """What could not be read. line: from 1; None if it is about the file as a whole."""

    file: str
    line: int | None
    reason: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{place}: {self.reason}"


class Block(NamedTuple):
    """Whole lines. line: the number of the first."""

    data: bytes
    line: int


def read_blocks(file: TraceFile, problems: list[Problem]) -> Iterator[Block]:
    """The lines of a file. What is wrong with it is added to `problems`."""
    begun, line = b"", 1
    try:
        for data, is_torn in _unpacked(file, problems):
            if is_torn:
                begun = b""
                continue
            end = data.rfind(b"\n") + 1
            if end == 0:
                begun = _longer(file, begun, data, problems)
                continue
            block = begun + data[:end]
            begun = data[end:]
            yield Block(block, line)
            line += block.count(b"\n")
    except OSError as error:
        problems.append(Problem(file.path, None, f"cannot be read: {error.strerror or error}"))
        return
    if begun and not file.is_open:
        problems.append(Problem(file.path, line, "the file ends in the middle of this line"))


def _longer(file: TraceFile, begun: bytes, data: bytes, problems: list[Problem]) -> bytes:
    if len(begun) + len(data) <= LINE_BYTES_MAX:
        return begun + data
    problems.append(Problem(file.path, None, "a line has no end; what there was of it is left out"))
    return b""


def _unpacked(file: TraceFile, problems: list[Problem]) -> Iterator[tuple[bytes, bool]]:
    """What the file is unpacked to; with True where something is missing."""
    with open(file.path, "rb") as source:
        if file.path.endswith(PLAIN_SUFFIX):
            while data := source.read(BLOCK_BYTES_MAX):
                yield data, False
            return
        member, data, has_begun = isal_zlib.decompressobj(GZIP), b"", False
        while data or (data := source.read(READ_BYTES)):
            has_begun = True
            try:
                yield member.decompress(data, BLOCK_BYTES_MAX), False
                data = member.unconsumed_tail
            except _DAMAGED as error:
                at = source.tell() - len(data)
                problems.append(Problem(file.path, None, f"is damaged near byte {at}: {error}"))
                data = _next_member(source.read, data)
                member, has_begun = isal_zlib.decompressobj(GZIP), False
                yield b"", True
                continue
            if member.eof:
                data = member.unused_data
                member, has_begun = isal_zlib.decompressobj(GZIP), False
        if has_begun and not file.is_open:
            problems.append(Problem(file.path, None, "the file is cut off"))


def _next_member(read: Callable[[int], bytes], data: bytes) -> bytes:
    """What there is from the next member's beginning on; empty if there is none."""
    data = data[1:]
    while (at := data.find(MEMBER)) < 0:
        more = read(READ_BYTES)
        if not more:
            return b""
        data = data[-len(MEMBER) + 1 :] + more
    return data[at:]

"""Reads one log in blocks of lines, whatever state the file is in.

A log is a sequence of gzip members, each of which has a block of records, of which lines are made
(block_members.py), or whole lines; or it has the lines themselves, uncompressed. A truncated file
is read up to its last whole line; after a damaged member, reading continues with the next one. Each
fault is reported as a `Problem`. An incomplete end of a file that is being written is not a fault.

A reader that looks for a few records only can say which blocks of records may have them: no lines
are made of the others. A reader that needs no lines can have columns made of blocks of records.
"""

import zlib
from collections.abc import Iterator
from enum import Enum
from itertools import chain
from typing import NamedTuple, Protocol, cast

from isal import isal_zlib

from leveret.analytics.traces.block_members import (
    BlockMembers,
    Columns,
    Found,
    IsWanted,
    Skipped,
)
from leveret.analytics.traces.trace_files import TraceFile
from leveret.broker.tracing.block_lines import BlockError, NewerBlockError

READ_BYTES = 256 * 1024
BLOCK_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of a decompressed block, unless one line is longer."""
LINE_BYTES_MAX = 256 * 1024 * 1024
"""The longest line that is read; the rest of a longer one is dropped."""
KEPT_BYTES_MAX = 16 * 1024 * 1024
"""How much of a member is kept, to search it for the next one if it is damaged."""
GZIP = 31
"""zlib's `wbits` for a gzip member."""
MEMBER = b"\x1f\x8b\x08"

# isal's annotation calls it an exception instance, not a class.
DAMAGED = (zlib.error, cast(type[Exception], isal_zlib.error))


class BlockSource(Protocol):
    """The source of blocks: an open file, or an object like one."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end. Raises OSError."""

    def tell(self) -> int:
        """Return the position, in bytes from the beginning of the file."""


class Problem(NamedTuple):
    """What could not be read.

    line: from 1; None if the problem concerns the whole file. text: the line, if it was read.
    lost_bytes: the compressed bytes of the file that were skipped; None if the number is unknown.
    """

    file: str
    line: int | None
    reason: str
    text: str = ""
    lost_bytes: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{place}: {self.reason}"


class LogBlock(NamedTuple):
    """Whole lines. line: the number of the first, from 1. lines: their number.

    columns: the columns made of the lines instead of `data`, which is empty then.
    """

    data: bytes
    line: int
    lines: int
    columns: Columns | None = None


class EndOfData(Enum):
    """The state at the end of the data that is read."""

    FILE = "the end of a complete file"
    WRITTEN = "the end of what has been written of a file"
    MEMBER = "the beginning of another member of the file"


class _Damage(NamedTuple):
    """A place where data is missing. is_end: a member has no end, and no data follows it."""

    reason: str
    is_end: bool = False
    lost_bytes: int | None = None


def read_blocks(
    file: TraceFile, problems: list[Problem], is_wanted: IsWanted | None = None
) -> Iterator[LogBlock]:
    """Return the lines of a file. Faults are appended to `problems`.

    is_wanted: chooses the blocks of records; None for all. The first line is returned in any case.
    """
    members = BlockMembers(is_wanted)
    ending = EndOfData.WRITTEN if file.is_open else EndOfData.FILE
    try:
        with open(file.path, "rb") as source:
            yield from blocks_of(source, file.path, problems, ending, members)
    except OSError as error:
        problems.append(Problem(file.path, None, f"cannot be read: {error.strerror or error}"))


def blocks_of(
    source: BlockSource,
    path: str,
    problems: list[Problem],
    ending: EndOfData,
    members: BlockMembers,
) -> Iterator[LogBlock]:
    """Return the lines of an open file; `path` names it in problems. Raises OSError."""
    begun, line = b"", 1
    for data in _unpacked(source, members, ending):
        if isinstance(data, Skipped):
            line += data.lines
            continue
        if isinstance(data, _Damage):
            if not (data.is_end and ending is EndOfData.WRITTEN):
                problems.append(Problem(path, line, data.reason, _text(begun), data.lost_bytes))
            begun = b""
            continue
        if not isinstance(data, bytes):
            yield LogBlock(b"", line, data.num_rows, data)
            line += data.num_rows
            continue
        end = data.rfind(b"\n") + 1
        if end:
            block = begun + data[:end]
            begun = data[end:]
            lines = block.count(b"\n")
            yield LogBlock(block, line, lines)
            line += lines
        elif len(begun) + len(data) <= LINE_BYTES_MAX:
            begun += data
        else:
            reason = "a line does not end; the part that was read is dropped"
            problems.append(Problem(path, line, reason))
            begun = b""
    if begun and ending is not EndOfData.WRITTEN:
        whole = "file" if ending is EndOfData.FILE else "member"
        reason = f"the {whole} ends within this line"
        problems.append(Problem(path, line, reason, _text(begun)))


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


class _MemberEnd:
    """The end of a member whose checksum is right."""


def _unpacked(
    source: BlockSource, members: BlockMembers, ending: EndOfData
) -> Iterator[bytes | Columns | _Damage | Skipped]:
    """Return the decompressed data, and each fault at its place."""
    data = source.read(READ_BYTES)
    if not data.startswith(MEMBER):
        while data:
            yield data
            data = source.read(BLOCK_BYTES_MAX)
        return
    found: Iterator[Found | _Damage]
    for piece in _inflated(_MemberData(source, data), data, ending):
        if isinstance(piece, _Damage):
            found = chain(members.damaged(), [piece])
        elif isinstance(piece, bytes):
            found = members.take(piece)
        else:
            found = members.end()
        for made in found:
            yield _Damage(str(made)) if isinstance(made, BlockError) else made
            if isinstance(made, NewerBlockError):
                return
    for made in members.rest():
        yield _Damage(str(made)) if isinstance(made, BlockError) else made


class _MemberData:
    """The data of a source. The pieces of a member are kept until its end.

    A damaged member may seem to be much longer than it is, so the next one is searched for from
    just behind its beginning.
    """

    def __init__(self, source: BlockSource, data: bytes) -> None:
        """data: the bytes of the first member that were read already."""
        self._source = source
        self._kept = [data]
        self._kept_bytes = len(data)

    @property
    def position(self) -> int:
        """The position in the file."""
        return self._source.tell()

    @property
    def begun_at(self) -> int:
        """Where the data that is kept begins: the member, unless it is too large to keep."""
        return self._source.tell() - self._kept_bytes

    def read(self) -> bytes:
        """Return more data; none at the end. Raises OSError."""
        data = self._source.read(READ_BYTES)
        self._kept_bytes += len(data)
        if self._kept_bytes > KEPT_BYTES_MAX:
            self.begin(data)
        else:
            self._kept.append(data)
        return data

    def begin(self, data: bytes) -> None:
        """A member begins with this data, which was read before."""
        self._kept = [data]
        self._kept_bytes = len(data)

    def next_member(self) -> bytes:
        """Return the data from the start of the next member on; empty if there is none."""
        data = b"".join(self._kept)[1:]
        while (at := data.find(MEMBER)) < 0:
            more = self._source.read(READ_BYTES)
            if not more:
                return b""
            data = data[-len(MEMBER) + 1 :] + more
        self.begin(data[at:])
        return data[at:]


def _inflated(
    source: _MemberData, data: bytes, ending: EndOfData
) -> Iterator[bytes | _Damage | _MemberEnd]:
    """Decompress gzip members. data: their bytes that were read already."""
    member, is_begun = isal_zlib.decompressobj(GZIP), True
    while data or (data := source.read()) or is_begun:
        is_at_end, piece, damage = not data, b"", ""
        try:
            piece = member.decompress(data, BLOCK_BYTES_MAX)
        except DAMAGED as error:
            damage = f"damaged near byte {source.position - len(data)}: {error}"
        has_no_end = is_at_end and not piece and not member.eof and not damage
        if damage or has_no_end:
            begun_at = source.begun_at
            data = source.next_member()
            is_end = has_no_end and not data
            if has_no_end:
                is_truncated = is_end and ending is not EndOfData.MEMBER
                damage = "the file is truncated" if is_truncated else _without_end(begun_at)
            lost_bytes = source.position - len(data) - begun_at
            yield _Damage(damage, is_end, lost_bytes)
            member, is_begun = isal_zlib.decompressobj(GZIP), False
            continue
        data, is_begun = member.unconsumed_tail, True
        yield piece
        if member.eof:
            yield _MemberEnd()
            data = member.unused_data
            source.begin(data)
            member, is_begun = isal_zlib.decompressobj(GZIP), False


def _without_end(begun_at: int) -> str:
    return f"damaged near byte {begun_at}: the member that begins there has no end"

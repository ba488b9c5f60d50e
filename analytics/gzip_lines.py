"""The lines of gzip files that may be cut off, damaged, or still being written.

A log is a row of gzip members. What is damaged costs the rest of its member, and reading goes on
with the next one. Half a line at the end of a file that is being written is not there yet.
"""

import zlib
from collections.abc import Iterator
from typing import NamedTuple

MAGIC = b"\x1f\x8b\x08"
_CHUNK_BYTES = 1 << 20


class Damage(NamedTuple):
    """What cannot be read. is_end: it is the end of the file. rest: the line that it cut in two."""

    reason: str
    is_end: bool = False
    rest: str = ""


def inflate(data: bytes) -> Iterator[bytes | Damage]:
    """The content, in pieces, and each damage where it is."""
    view, start = memoryview(data), 0
    while start < len(data):
        member = zlib.decompressobj(wbits=31)
        position = start
        try:
            while not member.eof and position < len(data):
                piece = member.decompress(view[position : position + _CHUNK_BYTES])
                position += _CHUNK_BYTES
                if piece:
                    yield piece
        except zlib.error as error:
            yield Damage(f"the part that begins at byte {start} is damaged ({error})")
            start = _next_member(data, start + 1)
            continue
        if not member.eof:
            yield Damage(f"the file is cut off in the part that begins at byte {start}", True)
            return
        start = min(position, len(data)) - len(member.unused_data)


def _next_member(data: bytes, start: int) -> int:
    found = data.find(MAGIC, start)
    return len(data) if found < 0 else found


def lines_of(pieces: Iterator[bytes | Damage]) -> Iterator[bytes | Damage]:
    """Whole lines without their ends, and each damage; what a damage cut in two is left out.

    A last line without an end comes as a damage, for it may be half a line.
    """
    rest = b""
    for piece in pieces:
        if isinstance(piece, Damage):
            yield piece._replace(rest=rest.decode("utf-8", "replace"))
            rest = b""
            continue
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        yield from lines
    if rest:
        yield Damage("the last line has no end", True, rest.decode("utf-8", "replace"))

"""Makes lines of the blocks of records that the gzip members of a log have.

A block can be read when its member has ended and its checksum is right. Members of other logs have
lines; those are not touched.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from leveret.broker.tracing.block_format import MAGIC
from leveret.broker.tracing.block_lines import BlockError, RecordBlock

MEMBER_BYTES_MAX = 1 << 30
"""The largest member with a block. A body may be as large as half of it."""

IsWanted = Callable[[RecordBlock], bool]
"""Tells whether a block may have records that the reader looks for."""


class Skipped(NamedTuple):
    """So many lines that are not wanted."""

    lines: int


class BlockMembers:
    """The members of one log. is_wanted: chooses blocks; None for all.

    has_header: whether the lines begin with that of the header.
    """

    def __init__(self, is_wanted: IsWanted | None = None, has_header: bool = True) -> None:
        self._is_wanted = is_wanted
        self._needs_header = has_header
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._is_begun = False

    def take(self, piece: bytes) -> bool:
        """Keep a decompressed piece of a member until its end. False if it has lines."""
        if not self._is_begun:
            self._is_begun = bool(piece)
            if not piece.startswith(MAGIC):
                return False
        elif not self._pieces:
            return False
        self._bytes += len(piece)
        if self._bytes <= MEMBER_BYTES_MAX:
            self._pieces.append(piece)
        return True

    def forget(self) -> None:
        """The member is damaged."""
        self._pieces.clear()
        self._bytes = 0
        self._is_begun = False

    def end(self) -> Iterator[bytes | Skipped]:
        """The member has ended: return the lines of its block. Raises BlockError."""
        data, size = b"".join(self._pieces), self._bytes
        self.forget()
        if size > MEMBER_BYTES_MAX:
            raise BlockError(f"has a block of {size} bytes; at most {MEMBER_BYTES_MAX} are read")
        if data:
            yield from self._lines_of(RecordBlock(data))

    def _lines_of(self, block: RecordBlock) -> Iterator[bytes | Skipped]:
        is_wanted = self._is_wanted is None or self._is_wanted(block)
        lines = block.lines() if is_wanted else b""
        if self._needs_header:
            self._needs_header = False
            lines = block.header_line() + lines
        if lines:
            yield lines
        if not is_wanted:
            yield Skipped(block.records)

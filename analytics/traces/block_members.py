"""Makes lines, or columns that a reader asks for, of the blocks of records in the members of a log.

A block can be read when its member has ended and its checksum is right. Members of other logs have
lines; those are not touched.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from leveret.broker.tracing.block_format import MAGIC
from leveret.broker.tracing.block_lines import BlockError, RecordBlock

MEMBER_BYTES_MAX = 1 << 30
"""The largest member with a block. A body may be as large as half of it."""

IsWanted = Callable[[RecordBlock], bool]
"""Tells whether a block may have records that the reader looks for."""


class Columns(Protocol):
    """The records of a block in another form than lines."""

    @property
    def num_rows(self) -> int:
        """The number of records."""


Making = Callable[[RecordBlock], bytes | Columns]
"""Makes the lines of a block, or columns. Raises BlockError."""


class Skipped(NamedTuple):
    """A number of lines that are not wanted."""

    lines: int


class BlockMembers:
    """The members of one log. is_wanted: chooses blocks; None for all.

    has_header: whether the lines begin with that of the header. make: what to make of a block.
    header: the line of the header, after the first block.
    """

    def __init__(
        self,
        is_wanted: IsWanted | None = None,
        has_header: bool = True,
        make: Making = RecordBlock.lines,
    ) -> None:
        self._is_wanted = is_wanted
        self._make = make
        self._needs_header = has_header
        self.header = b""
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._has_lines = False

    def take(self, piece: bytes) -> bytes:
        """Keep a decompressed piece of a member until its end; return its lines.

        The first bytes of a member say what it contains, and a piece may have only some of them: it
        ends where the data read from the file ends.
        """
        if self._has_lines:
            return piece
        if 0 < self._bytes < len(MAGIC):
            piece = self._pieces.pop() + piece
            self._bytes = 0
        if not self._bytes and not piece.startswith(MAGIC[: len(piece)]):
            self._has_lines = True
            return piece
        self._bytes += len(piece)
        if self._bytes <= MEMBER_BYTES_MAX:
            self._pieces.append(piece)
        return b""

    def forget(self) -> None:
        """The member is damaged."""
        self._pieces.clear()
        self._bytes = 0
        self._has_lines = False

    def end(self) -> Iterator[bytes | Columns | Skipped]:
        """The member has ended: return the lines or columns of its block. Raises BlockError."""
        data, size = b"".join(self._pieces), self._bytes
        self.forget()
        if size > MEMBER_BYTES_MAX:
            raise BlockError(f"has a block of {size} bytes; at most {MEMBER_BYTES_MAX} are read")
        if data:
            yield from self._made_of(RecordBlock(data))

    def _made_of(self, block: RecordBlock) -> Iterator[bytes | Columns | Skipped]:
        is_wanted = self._is_wanted is None or self._is_wanted(block)
        made = self._make(block) if is_wanted else b""
        self.header = self.header or block.header_line()
        if self._needs_header:
            self._needs_header = False
            yield self.header
        if made:
            yield made
        if not is_wanted:
            yield Skipped(block.records)

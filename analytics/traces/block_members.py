"""Makes lines, or columns that a reader asks for, of the blocks of records in the members of a log.

A block can be read when its member has ended and its checksum is right. Small blocks are gathered
for a reader that makes columns of several at once. Members of other logs have lines; those are not
touched.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from leveret.broker.tracing.block_format import MAGIC
from leveret.broker.tracing.block_lines import BlockError, RecordBlock

MEMBER_BYTES_MAX = 1 << 30
"""The largest member with a block. A body may be as large as half of it."""
GATHERED_BYTES = 2 * 1024 * 1024
"""Blocks are gathered until they are as large as four full ones."""

IsWanted = Callable[[RecordBlock], bool]
"""Tells whether a block may have records that the reader looks for."""


class Columns(Protocol):
    """The records of blocks in another form than lines."""

    @property
    def num_rows(self) -> int:
        """The number of records."""


class Skipped(NamedTuple):
    """A number of lines that are not wanted."""

    lines: int


Making = Callable[[Sequence[RecordBlock]], Sequence[bytes | Columns | BlockError]]
"""Makes lines or columns of blocks, or tells what is wrong with one; in the order of the blocks."""
Found = bytes | Columns | Skipped | BlockError
"""The contents of members. A member with a BlockError is left out."""


def lines_of(blocks: Sequence[RecordBlock]) -> list[bytes | Columns | BlockError]:
    """Return the lines of each block, or what is wrong with it."""
    return [_lines(block) for block in blocks]


def _lines(block: RecordBlock) -> bytes | BlockError:
    try:
        return block.lines()
    except BlockError as error:
        return error


class BlockMembers:
    """The members of one log. is_wanted: chooses blocks; None for all.

    has_header: whether the lines begin with that of the header. make: what to make of blocks.
    gathered_bytes: how large the blocks are of which something is made at once; 0 for one block.
    header: the line of the header, after the first block.
    """

    def __init__(
        self,
        is_wanted: IsWanted | None = None,
        has_header: bool = True,
        make: Making = lines_of,
        gathered_bytes: int = 0,
    ) -> None:
        self._is_wanted = is_wanted
        self._make = make
        self._gathered_bytes = gathered_bytes
        self._needs_header = has_header
        self.header = b""
        self._blocks: list[RecordBlock] = []
        self._blocks_bytes = 0
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._has_lines = False

    def take(self, piece: bytes) -> Iterator[Found]:
        """Keep a decompressed piece of a member until its end, or return its lines.

        The first bytes of a member say what it contains, and a piece may have only some of them: it
        ends where the data read from the file ends.
        """
        if not self._has_lines:
            if 0 < self._bytes < len(MAGIC):
                piece = self._pieces.pop() + piece
                self._bytes = 0
            if self._bytes or piece.startswith(MAGIC[: len(piece)]):
                self._bytes += len(piece)
                if self._bytes <= MEMBER_BYTES_MAX:
                    self._pieces.append(piece)
                return
            self._has_lines = True
        yield from self.rest()
        yield piece

    def damaged(self) -> Iterator[Found]:
        """The member is damaged: return the contents of those before it."""
        self._forget()
        return self.rest()

    def end(self) -> Iterator[Found]:
        """The member has ended: return its contents, unless it is gathered."""
        data, size = b"".join(self._pieces), self._bytes
        self._forget()
        try:
            if size > MEMBER_BYTES_MAX:
                raise BlockError(
                    f"has a block of {size} bytes; at most {MEMBER_BYTES_MAX} are read"
                )
            if data:
                yield from self._gathered(RecordBlock(data))
        except BlockError as error:
            yield from self.rest()
            yield error

    def rest(self) -> Iterator[Found]:
        """Return the contents of the members that are gathered."""
        blocks, self._blocks, self._blocks_bytes = self._blocks, [], 0
        if blocks:
            yield from filter(_has_any, self._make(blocks))

    def _gathered(self, block: RecordBlock) -> Iterator[Found]:
        self.header = self.header or block.header_line()
        if self._needs_header:
            self._needs_header = False
            yield self.header
        if self._is_wanted is not None and not self._is_wanted(block):
            yield from self.rest()
            yield Skipped(block.records)
            return
        self._blocks.append(block)
        self._blocks_bytes += len(block.data)
        if self._blocks_bytes >= self._gathered_bytes:
            yield from self.rest()

    def _forget(self) -> None:
        """Forget the member that has been taken."""
        self._pieces.clear()
        self._bytes = 0
        self._has_lines = False


def _has_any(made: bytes | Columns | BlockError) -> bool:
    """Tell whether it is not an empty block's."""
    return bool(made) or isinstance(made, BlockError)

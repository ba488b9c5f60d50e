"""Where the entries of a group are on disk: blocks of consecutive entries of one file. Pure.

A block has 12 bytes an entry: its offset and its size.

Of the entries that a snapshot covers, only those with live messages are needed. `needed_blocks`
leaves out the others, except in gaps of less than `GAP_MIN` entries, so that a queue which is
consumed in any order has few blocks.
"""

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter

GAP_MIN = 32

_BLOCK = struct.Struct("<QQBI")

Runs = Sequence[tuple[int, int]]
"""Runs of indexes: the first and the last one of each, in order."""


class EntryBlock:
    """Consecutive entries of one term and kind in one file. octets: the size of their payloads."""

    __slots__ = ("file", "first", "kind", "octets", "offsets", "sizes", "term")

    def __init__(
        self, file: int, first: int, term: int, kind: int,
        offsets: "array[int] | None" = None, sizes: "array[int] | None" = None,
    ) -> None:  # fmt: skip
        self.file = file
        self.first = first
        self.term = term
        self.kind = kind
        self.offsets = array("Q") if offsets is None else offsets
        self.sizes = array("I") if sizes is None else sizes
        self.octets = sum(self.sizes)

    @property
    def last(self) -> int:
        """The index of the last entry."""
        return self.first + len(self.sizes) - 1

    def part(self, first: int, last: int) -> "EntryBlock":
        """The entries from one index to another, both in this block."""
        if first == self.first and last == self.last:
            return self
        start, end = first - self.first, last + 1 - self.first
        return EntryBlock(
            self.file, first, self.term, self.kind, self.offsets[start:end], self.sizes[start:end]
        )


def block_of(blocks: list[EntryBlock], index: int) -> EntryBlock | None:
    """The block that contains an entry."""
    place = bisect_right(blocks, index, key=attrgetter("first")) - 1
    if place < 0 or blocks[place].last < index:
        return None
    return blocks[place]


def add_entry(
    blocks: list[EntryBlock], file: int, index: int, term: int, kind: int, offset: int, size: int
) -> None:
    """Add an entry after the last one."""
    last = blocks[-1] if blocks else None
    if (
        last is None or last.file != file or last.term != term or last.kind != kind
        or last.last + 1 != index
    ):  # fmt: skip
        last = EntryBlock(file, index, term, kind)
        blocks.append(last)
    last.offsets.append(offset)
    last.sizes.append(size)
    last.octets += size


def truncate(blocks: list[EntryBlock], first: int) -> None:
    """Remove all entries from this index on."""
    while blocks and blocks[-1].last >= first:
        last = blocks.pop()
        if last.first < first:
            blocks.append(last.part(last.first, first - 1))


def needed_blocks(blocks: list[EntryBlock], after: int, live: Runs) -> list[EntryBlock]:
    """The blocks with entries after an index, and those before it that are in live runs."""
    needed: list[EntryBlock] = []
    runs = joined_runs(live)
    place = 0
    for block in blocks:
        if block.first > after:
            needed.append(block)
            continue
        covered = min(block.last, after)
        while place < len(runs) and runs[place][1] < block.first:
            place += 1
        at = place
        kept: list[tuple[int, int]] = []
        while at < len(runs) and runs[at][0] <= covered:
            kept.append((max(runs[at][0], block.first), min(runs[at][1], covered)))
            at += 1
        if block.last > after:
            kept.append((after + 1, block.last))
        needed += [block.part(first, last) for first, last in joined_runs(kept)]
    return needed


def joined_runs(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The runs, with those joined that have only a small gap between them."""
    found: list[tuple[int, int]] = []
    for first, last in runs:
        if found and first - found[-1][1] <= GAP_MIN:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def encode_blocks(blocks: list[EntryBlock]) -> bytes:
    """Blocks of one file as bytes."""
    pieces = []
    for block in blocks:
        pieces.append(_BLOCK.pack(block.first, block.term, block.kind, len(block.sizes)))
        pieces += [_to_bytes(block.offsets), _to_bytes(block.sizes)]
    return b"".join(pieces)


def decode_blocks(data: bytes, file: int) -> list[EntryBlock]:
    """The inverse of `encode_blocks`. Raises ValueError."""
    blocks, place = [], 0
    while place < len(data):
        if place + _BLOCK.size > len(data):
            raise ValueError("a block of entries is cut off")
        first, term, kind, count = _BLOCK.unpack_from(data, place)
        place += _BLOCK.size
        sizes_at = place + 8 * count
        end = sizes_at + 4 * count
        if not count or end > len(data):
            raise ValueError("a block of entries is cut off")
        offsets = _from_bytes("Q", data[place:sizes_at])
        blocks.append(
            EntryBlock(file, first, term, kind, offsets, _from_bytes("I", data[sizes_at:end]))
        )
        place = end
    return blocks


def _to_bytes(numbers: "array[int]") -> bytes:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def _from_bytes(code: str, data: bytes) -> "array[int]":
    numbers = array(code, data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers

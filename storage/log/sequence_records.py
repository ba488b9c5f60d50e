"""The record of a log client that keeps sequences of entries. Pure: entries in, bytes out.

A client writes one record for each batch, so that a torn batch has all of its entries or none. The
record is a named record (formats.py): one of the kinds from 16 on, whose head begins with the name
of the feature. After the name:

    first     u64       the number of the first entry; later ones count up from it

    what      u8        ENTRY or TRUNCATE
    sequence  u64       the entry's sequence, numbered by the client
    size      u32       bytes of the data
    crc       u32       of the data, for reading one entry alone
    data                ENTRY: the client's own; TRUNCATE: u64 number

TRUNCATE: every entry of this sequence with this number or a higher one, before this place in the
log, is void. A truncation takes a number itself.
"""

import struct
from typing import NamedTuple

from leveret.storage.messages.checksum import crc32
from leveret.storage.messages.formats import RECORD_BYTES, FormatError, encode_record, named_head

ENTRY, TRUNCATE = 1, 2

_FIRST = struct.Struct("<Q")
_ITEM = struct.Struct("<BQII")


class SequenceItem(NamedTuple):
    """One entry or truncation. number: its own. data: for a truncation, the encoded number."""

    what: int
    sequence: int
    number: int
    data: bytes


def truncation(sequence: int, number: int, void_from: int) -> SequenceItem:
    """An item that voids the entries of a sequence from a number on."""
    return SequenceItem(TRUNCATE, sequence, number, _FIRST.pack(void_from))


def void_from(item: SequenceItem) -> int:
    """The lowest number that a truncation voids."""
    return int(_FIRST.unpack(item.data)[0])


def encode_items(kind: int, name: str, items: list[SequenceItem]) -> tuple[bytes, list[int]]:
    """A record of items with consecutive numbers, and the offset in it of each item's data."""
    offset = RECORD_BYTES + 1 + len(name) + _FIRST.size
    pieces, offsets = [_FIRST.pack(items[0].number)], []
    for what, sequence, _, data in items:
        pieces.append(_ITEM.pack(what, sequence, len(data), crc32(data)))
        pieces.append(data)
        offsets.append(offset + _ITEM.size)
        offset += _ITEM.size + len(data)
    return encode_record(kind, named_head(name, b"".join(pieces))), offsets


def decode_items(head: bytes, name: str) -> tuple[list[SequenceItem], list[int]]:
    """The inverse of `encode_items`.

    Raises FormatError if another feature wrote the record, or if the head ends within an item.
    """
    start = 1 + len(name)
    if head[:start] != named_head(name, b""):
        raise FormatError(f"it is not a record of {name!r}")
    place = start + _FIRST.size
    if place + _ITEM.size > len(head):
        raise FormatError("it has no entries")
    number = _FIRST.unpack_from(head, start)[0]
    items, offsets = [], []
    while place < len(head):
        what, sequence, size = _decode_item(head, place)
        place += _ITEM.size
        items.append(SequenceItem(what, sequence, number, head[place : place + size]))
        offsets.append(RECORD_BYTES + place)
        place += size
        number += 1
    return items, offsets


def _decode_item(head: bytes, place: int) -> tuple[int, int, int]:
    """An item's kind, its sequence, and the size of its data in bytes, which follow it."""
    data_at = place + _ITEM.size
    if data_at <= len(head):
        what, sequence, size, _ = _ITEM.unpack_from(head, place)
        is_whole = data_at + size <= len(head)
        if is_whole and (what == ENTRY or (what == TRUNCATE and size == _FIRST.size)):
            return what, sequence, size
    raise FormatError(f"there is no whole entry at offset {place} of its head")

"""The record of the node's log with the writes of all groups of a kind in one batch. Pure.

It is a named record (formats.py): the name is that of the kind. After it, its head has

    number    u64       of the record; the next one has the next number

    what      u8        one of the constants below
    group     u64       and the fields of this kind of item, see `GroupWrite`

The bodies of the record are the payloads in the order of the items, each after its checksum (u32).
So a payload can be read alone, and damage to one affects only the group it belongs to.

A record with 1 MiB of payloads or more is encoded by the thread that writes it (large_records.py).
"""

import struct
from typing import NamedTuple

from leveret.storage.log.large_records import LARGE_BODIES_BYTES, LargeRecord, LogRecord
from leveret.storage.messages.checksum import crc32
from leveret.storage.messages.formats import FormatError, ScannedRecord, encode_record, named_head

KIND = 17
"""Of the records of quorum queues. Those of streams (stream_groups) have another one."""
CREATE, REMOVE, TERM, ENTRIES, TRUNCATE, RESET, RECEIVED = 1, 2, 3, 4, 5, 6, 7
CRC_BYTES = 4

_NUMBER = struct.Struct("<Q")
_START = struct.Struct("<BQ")
_TWO = struct.Struct("<QI")
_ENTRIES = struct.Struct("<QQBI")
_RESET = struct.Struct("<QQQ")
_RECEIVED = struct.Struct("<QQQQBI")
_CRC = struct.Struct("<I")


class RecordName(NamedTuple):
    """The records of one kind of groups: the kind of their named records, and the name."""

    kind: int
    name: str


QUORUM_RECORDS = RecordName(KIND, "quorum queues")


class GroupWrite(NamedTuple):
    """One write of one group. Its fields depend on `what`:

    CREATE     text: the member's name; data: the configuration. Earlier items are void.
    REMOVE     the group is removed.
    TERM       number: the term; text: the member that was voted for.
    ENTRIES    first, term, kind; sizes of the payloads.
    TRUNCATE   first: the entries from this index on are removed.
    RESET      number, term: of the snapshot after which the log begins; first: entries through this
               index stay, as bodies only.
    RECEIVED   number, snapshot_term: of the snapshot that it came with; first: the index of the
               entry; term, kind; sizes: of its payload.
    """

    what: int
    group: int
    number: int = 0
    first: int = 0
    term: int = 0
    kind: int = 0
    text: str = ""
    data: bytes = b""
    sizes: tuple[int, ...] = ()
    snapshot_term: int = 0


class EncodedItem(NamedTuple):
    """An item that waits for the next record."""

    head: bytes
    payloads: list[bytes]


def encode_item(item: GroupWrite, payloads: list[bytes]) -> EncodedItem:
    """Encode an item. Its sizes are taken from the payloads."""
    start = _START.pack(item.what, item.group)
    if item.what == ENTRIES:
        count = len(payloads)
        fixed = _ENTRIES.pack(item.first, item.term, item.kind, count)
        sizes = struct.pack(f"<{count}I", *map(len, payloads))
        return EncodedItem(start + fixed + sizes, payloads)
    if item.what == RECEIVED:
        fixed = _RECEIVED.pack(
            item.number, item.snapshot_term, item.first, item.term, item.kind, len(payloads[0])
        )
        return EncodedItem(start + fixed, payloads)
    text = item.text.encode()
    if item.what == CREATE:
        fixed = _TWO.pack(len(item.data), len(text)) + text + item.data
    elif item.what == TERM:
        fixed = _TWO.pack(item.number, len(text)) + text
    elif item.what == TRUNCATE:
        fixed = _NUMBER.pack(item.first)
    elif item.what == RESET:
        fixed = _RESET.pack(item.number, item.term, item.first)
    else:
        fixed = b""
    return EncodedItem(start + fixed, [])


class _LargeGroupRecord(LargeRecord):
    """A record whose thread computes the checksums of its payloads."""

    __slots__ = ("_payloads",)

    def __init__(self, head: bytes, payloads: list[bytes], body_bytes: int) -> None:
        super().__init__(len(head) + body_bytes, lambda: head, [])
        self._payloads = payloads

    def pieces(self) -> list[bytes]:
        """The record in pieces, to be written in this order. For a worker's thread."""
        return [self._encode(), *_with_checksums(self._payloads)]


def encode_group_record(
    record: RecordName, number: int, items: list[EncodedItem]
) -> tuple[list[LogRecord], list[int]]:
    """The pieces of a record, and the offset of each payload in it.

    The log joins all pieces of a batch. Payloads that are joined here were copied three times.
    """
    payloads = [payload for item in items for payload in item.payloads]
    content = _NUMBER.pack(number) + b"".join([item.head for item in items])
    body_bytes = sum(map(len, payloads)) + CRC_BYTES * len(payloads)
    head = encode_record(record.kind, named_head(record.name, content), body_bytes)
    offset, offsets = len(head), []
    for payload in payloads:
        offsets.append(offset + CRC_BYTES)
        offset += CRC_BYTES + len(payload)
    if body_bytes >= LARGE_BODIES_BYTES:
        return [_LargeGroupRecord(head, payloads, body_bytes)], offsets
    return [head, *_with_checksums(payloads)], offsets


def _with_checksums(payloads: list[bytes]) -> list[bytes]:
    pieces: list[bytes] = []
    for payload in payloads:
        pieces += (_CRC.pack(crc32(payload)), payload)
    return pieces


def is_intact(data: bytes | memoryview, offset: int, size: int) -> bool:
    """Whether the payload at this offset matches the checksum before it."""
    start = offset - CRC_BYTES
    if start < 0 or offset + size > len(data):
        return False
    found: int = _CRC.unpack_from(data, start)[0]
    return found == crc32(data[offset : offset + size])


def decode_group_record(record: ScannedRecord, name: str) -> tuple[int, list[GroupWrite]]:
    """The number of a record of the groups with this name, and its items. Raises FormatError."""
    head = record.head
    start = 1 + len(name)
    if head[:start] != named_head(name, b""):
        raise FormatError(f"it is not a record of {name!r}")
    try:
        number = int(_NUMBER.unpack_from(head, start)[0])
        place, items = start + _NUMBER.size, []
        while place < len(head):
            item, place = _decode_item(head, place)
            items.append(item)
    except (struct.error, UnicodeDecodeError) as error:
        raise FormatError(f"its items cannot be read: {error}") from error
    sizes = [CRC_BYTES + size for item in items for size in item.sizes]
    if place != len(head) or record.body_offset + sum(sizes) != record.end:
        raise FormatError("its items do not have the size that it says")
    return number, items


def _decode_item(head: bytes, place: int) -> tuple[GroupWrite, int]:
    what, group = _START.unpack_from(head, place)
    place += _START.size
    if what == ENTRIES:
        first, term, kind, count = _ENTRIES.unpack_from(head, place)
        place += _ENTRIES.size
        sizes = struct.unpack_from(f"<{count}I", head, place)
        return GroupWrite(what, group, 0, first, term, kind, sizes=sizes), place + 4 * count
    if what == RECEIVED:
        number, snapshot_term, first, term, kind, size = _RECEIVED.unpack_from(head, place)
        item = GroupWrite(
            what, group, number, first, term, kind, sizes=(size,), snapshot_term=snapshot_term
        )
        return item, place + _RECEIVED.size
    if what == CREATE:
        data_bytes, text_bytes = _TWO.unpack_from(head, place)
        place += _TWO.size
        data_at = place + text_bytes
        text, data = head[place:data_at].decode(), head[data_at : data_at + data_bytes]
        return GroupWrite(what, group, text=text, data=data), data_at + data_bytes
    if what == TERM:
        number, text_bytes = _TWO.unpack_from(head, place)
        place += _TWO.size
        text = head[place : place + text_bytes].decode()
        return GroupWrite(what, group, number, text=text), place + text_bytes
    if what == TRUNCATE:
        return GroupWrite(
            what, group, first=_NUMBER.unpack_from(head, place)[0]
        ), place + _NUMBER.size
    if what == RESET:
        number, term, first = _RESET.unpack_from(head, place)
        return GroupWrite(what, group, number, first, term), place + _RESET.size
    if what == REMOVE:
        return GroupWrite(what, group), place
    raise FormatError(f"it has an item of kind {what}")

"""Reads the entries of a publish. Pure, and compiled.

    8 bytes    publishing id
    2 bytes    size of the filter value, and the value: with version 2 only
    the entry  a message with its size, or a batch of messages, as in a chunk

Entries are not decoded: they are cut out in the form that chunks have.
"""

import struct
from collections.abc import Iterator
from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from leveret.broker.protocols.stream.requests import FrameError

BODY: Final = 9
"""Where the entries of a publish begin: after its key, version, publisher and count."""
WITH_FILTERS: Final = 2
"""The version of a publish whose entries have filter values."""
_IS_BATCH: Final = 0x80
_SHORT: Final = struct.Struct(">h")
_BATCH: Final = struct.Struct(">BHII")
_BATCH_BYTES: Final = 11


class PublishedEntries:
    """The entries of a publish. ids: the publishing ids.

    filter_values: of each entry; none with version 1. entries: each in the form of a chunk.
    message_count: of all entries. are_increasing: whether each id is above the one before it.
    """

    __slots__ = ("are_increasing", "entries", "filter_values", "ids", "message_count")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.filter_values: list[bytes] = []
        self.entries: list[bytes] = []
        self.message_count = 0
        self.are_increasing = True

    def put_in_order(self) -> list[int]:
        """Leave out the entries whose id is not above all before; returns these ids."""
        last = -1
        kept: list[int] = []
        left_out: list[int] = []
        for place, number in enumerate(self.ids):
            if number > last:
                kept.append(place)
                last = number
            else:
                left_out.append(number)
        self.ids = [self.ids[place] for place in kept]
        self.entries = [self.entries[place] for place in kept]
        if self.filter_values:
            self.filter_values = [self.filter_values[place] for place in kept]
        self.message_count = count_messages(self.entries)
        self.are_increasing = True
        return left_out

    def parts(self, entries_max: int) -> Iterator["PublishedEntries"]:
        """The same in parts. entries_max: of a part."""
        for begin in range(0, len(self.ids), entries_max):
            end = begin + entries_max
            part = PublishedEntries()
            part.ids, part.entries = self.ids[begin:end], self.entries[begin:end]
            part.filter_values = self.filter_values[begin:end]
            part.message_count = count_messages(part.entries)
            yield part


def read_published(data: bytes, at: int, count: int, version: int) -> PublishedEntries:
    """The entries of a publish, which begin at a place. Raises FrameError."""
    published = PublishedEntries()
    try:
        end = _read(published, data, at, count, version == WITH_FILTERS)
    except (IndexError, struct.error):
        end = -1
    if end != len(data):
        raise FrameError(f"a publish of {count} entries does not fill its frame")
    return published


def _read(published: PublishedEntries, data: bytes, at: i64, count: int, has_filters: bool) -> i64:
    """Read the entries; returns where they end. Raises IndexError and struct.error."""
    ids, entries = published.ids, published.entries
    more_messages: i64 = 0
    last: i64 = -1
    for _ in range(count):
        number: i64 = read_i64_be(data, at)
        at += 8
        if number > last:
            last = number
        else:
            # Also where an id has its highest bit set: `put_in_order` compares them all.
            published.are_increasing = False
        if number >= 0:
            ids.append(number)
        else:
            ids.append(int.from_bytes(data[at - 8 : at], "big"))
        if has_filters:
            begin: i64 = at + 2
            at = begin + max(0, _SHORT.unpack_from(data, at)[0])
            published.filter_values.append(data[begin:at])
        after: i64 = at + 4 + i64(read_i32_be(data, at))
        if data[at] & _IS_BATCH:
            _, messages, _, size = _BATCH.unpack_from(data, at)
            if not messages:
                raise FrameError("a publish has a batch without messages")
            more_messages += messages - 1
            after = at + _BATCH_BYTES + size
        entries.append(data[at:after])
        at = after
    published.message_count = count + more_messages
    return at


def count_messages(entries: list[bytes]) -> int:
    """The number of messages of entries."""
    return sum(_BATCH.unpack_from(entry)[1] if entry[0] & _IS_BATCH else 1 for entry in entries)

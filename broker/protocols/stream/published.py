"""Reads the entries of a publish. Pure, and compiled.

    8 bytes    publishing id
    2 bytes    size of the filter value, and the value: with version 2 only
    the entry  a message with its size, or a batch of messages, as in a chunk

Entries are not decoded: they are cut out in the form that chunks have.
"""

import struct
from collections.abc import Iterator
from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i64_be
from mypy_extensions import i64

from leveret.broker.protocols.stream.requests import FrameError
from leveret.broker.protocols.stream.responses import ID_BYTES

BODY: Final = 9
"""Where the entries of a publish begin: after its key, version, publisher and count."""
WITH_FILTERS: Final = 2
"""The version of a publish whose entries have filter values."""
_IS_BATCH: Final = 0x80
_SHORT: Final = struct.Struct(">h")
_BATCH: Final = struct.Struct(">BHII")
_BATCH_BYTES: Final = 11


class PublishedEntries:
    """The entries of a publish. ids: the publishing ids, in the form of a confirm.

    filter_values: one for each entry; empty with version 1. entries: the entries in the form of a
    chunk. message_count: the messages of all entries. are_increasing: each id is above the previous
    one.
    """

    __slots__ = ("are_increasing", "entries", "filter_values", "ids", "message_count")

    def __init__(self) -> None:
        self.ids = b""
        self.filter_values: list[bytes] = []
        self.entries: list[bytes] = []
        self.message_count = 0
        self.are_increasing = True

    @property
    def numbers(self) -> tuple[int, ...]:
        """The publishing ids as numbers."""
        return numbers_of(self.ids)

    def put_in_order(self) -> bytes:
        """Leave out entries whose id is not above all earlier ones; returns their ids."""
        last = -1
        kept: list[int] = []
        left_out: list[int] = []
        numbers = self.numbers
        for place, number in enumerate(numbers):
            if number > last:
                kept.append(place)
                last = number
            else:
                left_out.append(number)
        self.ids = struct.pack(f">{len(kept)}Q", *[numbers[place] for place in kept])
        self.entries = [self.entries[place] for place in kept]
        if self.filter_values:
            self.filter_values = [self.filter_values[place] for place in kept]
        self.message_count = count_messages(self.entries)
        self.are_increasing = True
        return struct.pack(f">{len(left_out)}Q", *left_out)

    def parts(self, entries_max: int) -> Iterator["PublishedEntries"]:
        """The same in parts of up to `entries_max` entries."""
        for begin in range(0, len(self.entries), entries_max):
            end = begin + entries_max
            part = PublishedEntries()
            part.ids = self.ids[begin * ID_BYTES : end * ID_BYTES]
            part.entries = self.entries[begin:end]
            part.filter_values = self.filter_values[begin:end]
            part.message_count = count_messages(part.entries)
            yield part


def read_published(data: bytes, at: int, end: int, count: int, version: int) -> PublishedEntries:
    """The entries of a publish, in a part of `data`. Raises FrameError."""
    published = PublishedEntries()
    try:
        read = _read(published, data, at, end, count, version == WITH_FILTERS)
    except (IndexError, struct.error):
        read = -1
    if read != end:
        raise FrameError(f"a publish of {count} entries does not fill its frame")
    return published


def _read(
    published: PublishedEntries, data: bytes, at: i64, end: i64, count: int, has_filters: bool
) -> i64:
    """Read the entries; returns the position after them. Raises IndexError, struct.error."""
    ids, entries = BytesWriter(), published.entries
    more_messages: i64 = 0
    last: i64 = -1
    for _ in range(count):
        if at >= end:
            return -1
        number: i64 = read_i64_be(data, at)
        at += 8
        if number > last:
            last = number
        else:
            # Also where an id has its highest bit set: `put_in_order` compares them all.
            published.are_increasing = False
        write_i64_be(ids, number)
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
    published.ids = ids.getvalue()
    published.message_count = count + more_messages
    return at


def numbers_of(ids: bytes) -> tuple[int, ...]:
    """Publishing ids as numbers."""
    return struct.unpack(f">{len(ids) // ID_BYTES}Q", ids)


def count_messages(entries: list[bytes]) -> int:
    """The number of messages of entries."""
    return sum(_BATCH.unpack_from(entry)[1] if entry[0] & _IS_BATCH else 1 for entry in entries)

"""Reads the entries of a publish. Pure.

    8 bytes    publishing id
    2 bytes    size of the filter value, and the value: with version 2 only
    the entry  a message with its size, or a batch of messages, as in a chunk

Entries are not decoded: they are cut out in the form that chunks have.
"""

import struct
from typing import Final

from leveret.broker.protocols.stream.requests import FrameError

BODY: Final = 9
"""Where the entries of a publish begin: after its key, version, publisher and count."""
WITH_FILTERS: Final = 2
"""The version of a publish whose entries have filter values."""
_IS_BATCH: Final = 0x80
_SHORT: Final = struct.Struct(">h")
_BATCH: Final = struct.Struct(">BHII")


class Published:
    """The entries of a publish. ids: the publishing ids.

    filter_values: of each entry; none with version 1. entries: each in the form of a chunk.
    message_counts: of each entry. are_increasing: whether each id is above the one before it.
    """

    __slots__ = ("are_increasing", "entries", "filter_values", "ids", "message_counts")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.filter_values: list[bytes] = []
        self.entries: list[bytes] = []
        self.message_counts: list[int] = []
        self.are_increasing = True


def read_published(data: bytes, at: int, count: int, version: int) -> Published:
    """The entries of a publish, which begin at a place. Raises FrameError."""
    published = Published()
    ids, entries, counts = published.ids, published.entries, published.message_counts
    end, last = len(data), -1
    try:
        for _ in range(count):
            number = int.from_bytes(data[at : at + 8], "big")
            ids.append(number)
            if number <= last:
                published.are_increasing = False
            last = number
            at += 8
            if version == WITH_FILTERS:
                size = max(0, _SHORT.unpack_from(data, at)[0])
                published.filter_values.append(data[at + 2 : at + 2 + size])
                at += 2 + size
            messages = 1
            if data[at] & _IS_BATCH:
                _, messages, _, size = _BATCH.unpack_from(data, at)
                after = at + _BATCH.size + size
            else:
                after = at + 4 + int.from_bytes(data[at : at + 4], "big")
            entries.append(data[at:after])
            counts.append(messages)
            at = after
    except (IndexError, struct.error):
        at = end + 1
    if at != end:
        raise FrameError(f"a publish of {count} entries does not fill its frame")
    if 0 in counts:
        raise FrameError("a publish has a batch without messages")
    return published

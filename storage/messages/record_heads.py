"""The heads of the store's own records: their layouts, and whether bytes have them. Pure.

formats.py describes the records. Heads that `is_run`, `is_progress` and `is_state` accept can be
decoded: their counts match their contents, no position is above POSITION_MAX, and an address is two
short strings. The readers of a run's properties check that these can be decoded.
"""

import struct
from typing import Final

POSITION_MAX: Final = 1 << 47
"""A queue that takes a million messages a second reaches it after four years. As many positions are
left for messages published after a restart (PriorityQueue gives a position 48 bits)."""

RUN_START = struct.Struct("<QIHHIB")
TARGET = struct.Struct("<QQ")
PROGRESS_START = struct.Struct("<QQQI")
STATE_START = struct.Struct("<QQQQqQBII")
NUMBER = struct.Struct("<Q")
NUMBER_32 = struct.Struct("<I")
PLACE = struct.Struct("<IQ")
"""File and offset of a body in the message store."""

STORED: Final = 2
NUMBERED: Final = 4
"""Flags of a run."""


def is_run(head: bytes, body_bytes: int) -> bool:
    """Whether this is the head of a RUN with this many bytes of bodies."""
    if len(head) < RUN_START.size:
        return False
    fixed: tuple[int, int, int, int, int, int] = RUN_START.unpack_from(head)
    _, count, targets, address_bytes, header_bytes, flags = fixed
    sizes_at = RUN_START.size + TARGET.size * targets
    each = 2 * NUMBER_32.size + (PLACE.size if flags & STORED else 0)
    address_at = sizes_at + each * count + (NUMBER.size if flags & NUMBERED else 0)
    if len(head) != address_at + address_bytes + header_bytes or not (count and targets):
        return False
    for place in range(RUN_START.size, sizes_at, TARGET.size):
        if TARGET.unpack_from(head, place)[1] > POSITION_MAX - count:
            return False
    if not _is_address(head, address_at, address_at + address_bytes):
        return False
    if flags & STORED:
        return body_bytes == 0
    sizes: tuple[int, ...] = struct.unpack_from(f"<{count}I", head, sizes_at)
    return sum(sizes) == body_bytes


def is_progress(head: bytes) -> bool:
    """Whether this is the head of a PROGRESS."""
    if len(head) < PROGRESS_START.size:
        return False
    fixed: tuple[int, int, int, int] = PROGRESS_START.unpack_from(head)
    return fixed[1] <= POSITION_MAX and _are_ranges(head, PROGRESS_START.size, fixed[3])


def is_state(head: bytes) -> bool:
    """Whether this is the head of a STATE."""
    if len(head) < STATE_START.size:
        return False
    _, flushed_to, fetched_to, _, _, _, _, segments, ranges = STATE_START.unpack_from(head)
    ranges_at = STATE_START.size + NUMBER.size * segments
    return max(flushed_to, fetched_to) <= POSITION_MAX and _are_ranges(head, ranges_at, ranges)


def _is_address(head: bytes, start: int, end: int) -> bool:
    """Two short strings, which are the exchange and the routing key."""
    key_at = start + 1 + head[start] if start < end else end
    return key_at < end and key_at + 1 + head[key_at] == end


def _are_ranges(head: bytes, offset: int, count: int) -> bool:
    if len(head) != offset + 2 * NUMBER.size * count:
        return False
    return not count or max(struct.unpack_from(f"<{2 * count}Q", head, offset)) <= POSITION_MAX

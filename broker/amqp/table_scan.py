"""Stepping over a field table: where it ends, and whether a header is in it that queues must read.

This runs for each message with headers. The table is not decoded, but it is checked that it can be,
as a message is delivered with its headers unchanged and they may be decoded later (field_table.py
describes the format).
"""

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from leveret.broker.amqp.field_table import DECIMAL, FIXED, NESTING_MAX, FieldTableError

UNSIGNED: Final = 0xFFFFFFFF
NAME_BYTES_MAX: Final = 14
"""No name of a header that queues read is longer."""

_UNKNOWN: Final = 0
_STRING: Final = 254
_NESTED: Final = 255
_TABLE: Final = ord("F")


def _sizes() -> bytes:
    """By the letter of a type: the bytes of a field with its letter, or one of the above."""
    sizes = bytearray(256)
    for letter, fixed in FIXED.items():
        sizes[letter] = 1 + fixed.size
    sizes[ord("t")], sizes[ord("V")], sizes[ord("D")] = 2, 1, 1 + DECIMAL.size
    sizes[ord("S")] = sizes[ord("x")] = _STRING
    sizes[ord("F")] = sizes[ord("A")] = _NESTED
    return bytes(sizes)


_SIZES: Final = _sizes()


def table_end(data: bytes, start: int) -> int:
    """The offset after the table whose length is at `start`, which can be decoded.

    Raises FieldTableError or IndexError if it cannot be decoded.
    """
    end = scan_headers(data, start, frozenset())
    return end if end >= 0 else -end


def scan_headers(data: bytes, start: i64, wanted: frozenset[bytes]) -> i64:
    """The offset after the table whose length is at `start`; negative if a wanted name is in it.

    wanted: names of at most `NAME_BYTES_MAX` bytes. Raises FieldTableError or IndexError if the
    table cannot be decoded.
    """
    position: i64 = start + 4
    end = _end(data, start)
    is_wanted = False
    while position < end:
        length: i64 = data[position]
        position += 1
        if length <= NAME_BYTES_MAX and data[position : position + length] in wanted:
            is_wanted = True
        position = field_end(data, position + length)
    _require_end(position, end)
    return -end if is_wanted else end


def field_end(data: bytes, position: i64, depth: i64 = 0) -> i64:
    """The offset after the field whose letter is at `position`. Raises as `table_end` does."""
    letter: i64 = data[position]
    size: i64 = _SIZES[letter]
    if size < _STRING:
        if size == _UNKNOWN:
            raise FieldTableError(f"no field has the type {chr(letter)!r}")
        return position + size
    if size == _STRING:
        length: int = read_i32_be(data, position + 1)
        return position + 5 + (length & UNSIGNED)
    end = _end(data, position + 1)
    if depth == NESTING_MAX:
        return end
    position += 5
    has_names = letter == _TABLE
    while position < end:
        if has_names:
            position += 1 + data[position]
        position = field_end(data, position, depth + 1)
    _require_end(position, end)
    return end


def _end(data: bytes, start: i64) -> i64:
    """The offset after the table or array whose length is at `start`."""
    length: int = read_i32_be(data, start)
    end: i64 = start + 4 + (length & UNSIGNED)
    if end > len(data):
        raise FieldTableError(f"a table of {end - start - 4} bytes does not fit its frame")
    return end


def _require_end(position: i64, end: i64) -> None:
    if position != end:
        raise FieldTableError("a value reaches past the end of its table")

"""Skips over a field table: finds its end, and whether it has a header that queues must read.

This runs for each message with headers. The table is not decoded, but checked to be decodable,
because a message is delivered with its headers unchanged and they may be decoded later
(field_table.py describes the format).
"""

from collections.abc import Iterable
from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from leveret.broker.amqp.field_table import DECIMAL, FIXED, NESTING_MAX, FieldTableError

UNSIGNED: Final = 0xFFFFFFFF
_SHAPES_MAX: Final = 31

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


def name_shapes(names: Iterable[bytes]) -> int:
    """Bits that tell most other names from these by their length and first octet alone.

    To cut out each name and look for it would double the time of scanning two headers.
    """
    shapes = 0
    for name in names:
        shapes |= 1 << (len(name) + name[0] & _SHAPES_MAX)
    return shapes


def table_end(data: bytes, start: int) -> int:
    """The offset after the table whose length is at `start`, which can be decoded.

    Raises FieldTableError or IndexError if it cannot be decoded.
    """
    end = scan_headers(data, start, frozenset(), 0)
    return end if end >= 0 else -end


def scan_headers(data: bytes, start: i64, wanted: frozenset[bytes], shapes: i64) -> i64:
    """The offset after the table whose length is at `start`; negative if a wanted name is in it.

    shapes: `name_shapes` of the wanted names. Raises FieldTableError or IndexError if the table
    cannot be decoded.
    """
    position: i64 = start + 4
    end = _end(data, start)
    is_wanted = False
    while position < end:
        length: i64 = data[position]
        position += 1
        shape: i64 = length + data[position] & _SHAPES_MAX
        if shapes >> shape & 1 and data[position : position + length] in wanted:
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

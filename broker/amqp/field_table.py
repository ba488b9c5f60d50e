"""Field tables: the typed key-value maps of AMQP's arguments and headers.

A value is kept with the letter of its type, as a `Field`: a broker that rewrites a message's
headers must encode a short as a short again, and RabbitMQ's error texts name the type that a client
sent. The letters are the ones RabbitMQ reads and writes, which differ from the specification's
(RabbitMQ, "AMQP 0-9-1 errata", section 3):

    S longstr   I int32   s int16   b int8    l, L int64   t bool    V void       F table
    x binary    i uint32  u uint16  B uint8   T time_t     f float   d double     A array
    D decimal

Strings are decoded with `surrogateescape`, so that bytes that are not UTF-8 are encoded unchanged.
Tables and arrays may be nested to any depth. Levels deeper than `NESTING_MAX` are kept encoded,
since code that walks a table level by level would exhaust the stack.
"""

import struct
from typing import Any

Field = tuple[str, Any]
"""The type's letter and the value: S str, x bytes, F Table, A list[Field], D (scale, int)."""

Table = dict[str, Field]

INTEGER_LETTERS = frozenset("bsIlLBui")
"""The letters of the types whose values are whole numbers, but for timestamps."""

NESTING_MAX = 128
"""Tables and arrays that are nested deeper stay encoded."""
DEEP = "deep"
"""The letter of a field that stays encoded. Its value is bytes that begin with its real letter."""

FIXED: dict[int, struct.Struct] = {
    ord(letter): struct.Struct(">" + code)
    for letter, code in {
        "I": "i", "s": "h", "b": "b", "l": "q", "L": "q", "i": "I", "u": "H", "B": "B",
        "T": "Q", "f": "f", "d": "d",
    }.items()
}  # fmt: skip
"""By the letter of a type: the numbers of fixed size."""
_LONG = struct.Struct(">I")
DECIMAL = struct.Struct(">BI")
"""Scale and value."""


class FieldTableError(ValueError):
    """The bytes are not a field table; the text says why."""


class TableCutOff(FieldTableError):
    """The table is longer than the bytes that it is in."""


def decode_table(data: bytes, start: int = 0) -> tuple[Table, int]:
    """Decode the table whose length is at `start`. Raises FieldTableError.

    Returns the table and the offset after it.
    """
    try:
        return _decode_table(data, start, 0)
    except (struct.error, IndexError):
        _require_whole(data, start)
        raise FieldTableError("the table ends in the middle of a value") from None
    except FieldTableError:
        _require_whole(data, start)
        raise


def decode_field(data: bytes) -> Field:
    """Decode the bytes of one field of a table."""
    return _decode_field(data, 0, 0)[0]


def _require_whole(data: bytes, start: int) -> None:
    """Raise TableCutOff if the table at `start` is longer than the bytes that it is in."""
    length = data[start : start + 4]
    if len(length) < 4 or start + 4 + _LONG.unpack(length)[0] > len(data):
        raise TableCutOff("the table does not fit its frame") from None


def encode_table(table: Table) -> bytes:
    """Encode a table, preceded by its length."""
    body = b"".join(
        encode_short_string(name) + encode_field(field) for name, field in table.items()
    )
    return _LONG.pack(len(body)) + body


def sorted_table(table: Table) -> Table:
    """The table with its fields in the order of the bytes of their names.

    RabbitMQ sorts the arguments of bindings, so that their order does not make another binding.
    """
    return dict(sorted(table.items(), key=_name_bytes))


def _name_bytes(item: tuple[str, Field]) -> bytes:
    return bytes_of(item[0])


def encode_short_string(text: str) -> bytes:
    """Encode a string of at most 255 bytes, preceded by its length."""
    data = bytes_of(text)
    return bytes((len(data),)) + data


def encode_long_string(text: str) -> bytes:
    """Encode a string of up to 4 GiB, preceded by its length."""
    data = bytes_of(text)
    return _LONG.pack(len(data)) + data


def bytes_of(text: str) -> bytes:
    """Encode a string; the reverse of `text_of`."""
    return text.encode("utf-8", "surrogateescape")


def text_of(data: bytes) -> str:
    """Decode a string."""
    return data.decode("utf-8", "surrogateescape")


def _decode_table(data: bytes, start: int, depth: int) -> tuple[Table, int]:
    position, end = _extent(data, start)
    table: Table = {}
    while position < end:
        name_end = position + 1 + data[position]
        name = text_of(data[position + 1 : name_end])
        table[name], position = _decode_field(data, name_end, depth)
    _require_end(position, end)
    return table, end


def _decode_array(data: bytes, start: int, depth: int) -> tuple[list[Field], int]:
    position, end = _extent(data, start)
    items: list[Field] = []
    while position < end:
        item, position = _decode_field(data, position, depth)
        items.append(item)
    _require_end(position, end)
    return items, end


def _extent(data: bytes, start: int) -> tuple[int, int]:
    """The offsets at which the values of a table or array begin and end."""
    end = start + 4 + _LONG.unpack_from(data, start)[0]
    if end > len(data):
        raise FieldTableError(f"a table of {end - start - 4} bytes does not fit its frame")
    return start + 4, end


def _require_end(position: int, end: int) -> None:
    if position != end:
        raise FieldTableError("a value reaches past the end of its table")


def _decode_field(data: bytes, start: int, depth: int) -> tuple[Field, int]:
    letter = data[start]
    position = start + 1
    if letter == 0x53:  # S
        end = position + 4 + _LONG.unpack_from(data, position)[0]
        return ("S", text_of(_exactly(data, position + 4, end))), end
    fixed = FIXED.get(letter)
    if fixed is not None:
        return (chr(letter), fixed.unpack_from(data, position)[0]), position + fixed.size
    return _decode_rare_field(data, chr(letter), position, depth)


def _decode_rare_field(data: bytes, letter: str, position: int, depth: int) -> tuple[Field, int]:
    value: Any
    if depth == NESTING_MAX and letter in "FA":
        _, end = _extent(data, position)
        return (DEEP, data[position - 1 : end]), end
    match letter:
        case "t":
            return (letter, data[position] != 0), position + 1
        case "V":
            return (letter, None), position
        case "F":
            value, end = _decode_table(data, position, depth + 1)
        case "A":
            value, end = _decode_array(data, position, depth + 1)
        case "x":
            end = position + 4 + _LONG.unpack_from(data, position)[0]
            value = _exactly(data, position + 4, end)
        case "D":
            value, end = DECIMAL.unpack_from(data, position), position + DECIMAL.size
        case _:
            raise FieldTableError(f"no field has the type {letter!r}")
    return (letter, value), end


def _exactly(data: bytes, start: int, end: int) -> bytes:
    piece = data[start:end]
    if len(piece) != end - start:
        raise FieldTableError("a string reaches past the end of its frame")
    return piece


def encode_field(field: Field) -> bytes:
    """Encode one field of a table: its letter and its value."""
    letter, value = field
    match letter:
        case "S":
            body = encode_long_string(value)
        case "t":
            body = b"\1" if value else b"\0"
        case "V":
            body = b""
        case "F":
            body = encode_table(value)
        case "A":
            items = b"".join(encode_field(item) for item in value)
            body = _LONG.pack(len(items)) + items
        case "x":
            body = _LONG.pack(len(value)) + value
        case "deep":
            return bytes(value)
        case "D":
            body = DECIMAL.pack(*value)
        case _:
            body = FIXED[ord(letter)].pack(value)
    return letter.encode() + body

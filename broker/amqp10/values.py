"""The types of AMQP 1.0, as bytes and as values (OASIS standard, part 1: types).

A value is kept with the name of its type, as a `Value`: a message that is converted and sent on has
the types that its publisher gave it. Strings and symbols are decoded with `surrogateescape`, so
that bytes that are not UTF-8 are encoded unchanged.

    null boolean ubyte ushort uint ulong byte short int long float double
    timestamp (milliseconds since 1970), uuid and decimals (bytes), char (a code point)
    binary (bytes), string, symbol
    list (Values), map (pairs of Values), array (Values of one type), described (two Values)

`encode` writes the shortest form of each value.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

NESTING_MAX: Final = 64
"""Values that are nested deeper are refused: code that walks them would exhaust the stack."""
SMALL: Final = 256


class Value(NamedTuple):
    """A value with the name of its type."""

    kind: str
    value: Any


class Amqp10Error(ValueError):
    """The bytes are not values of AMQP 1.0; the text says why."""


NULL: Final = Value("null", None)
TRUE: Final = Value("boolean", True)
FALSE: Final = Value("boolean", False)


# Decoding


def decode(data: bytes, at: int = 0) -> tuple[Value, int]:
    """The value at a place, and the place after it. Raises Amqp10Error."""
    try:
        return _decode(data, at, 0)
    except (IndexError, struct.error):
        raise Amqp10Error("the bytes end in the middle of a value") from None


def _decode(data: bytes, at: int, depth: int) -> tuple[Value, int]:
    code = data[at]
    if code == _DESCRIBED:
        return _decode_described(data, at + 1, depth + 1)
    return _decode_plain(data, at + 1, code, depth)


def _decode_described(data: bytes, at: int, depth: int) -> tuple[Value, int]:
    _require_shallow(depth)
    descriptor, at = _decode(data, at, depth)
    value, at = _decode(data, at, depth)
    return Value("described", (descriptor, value)), at


def _decode_plain(data: bytes, at: int, code: int, depth: int) -> tuple[Value, int]:
    """The value of a type without a descriptor. at: after its code."""
    constant = _CONSTANTS.get(code)
    if constant is not None:
        return constant, at
    fixed = _FIXED.get(code)
    if fixed is not None:
        kind, form = fixed
        value = form.unpack_from(data, at)[0]
        return Value(kind, bool(value) if kind == "boolean" else value), at + form.size
    opaque = _OPAQUE.get(code)
    if opaque is not None:
        kind, size = opaque
        return Value(kind, _slice(data, at, size)), at + size
    if code in _VARIABLE:
        kind, width = _VARIABLE[code]
        size, at = _size(data, at, width)
        raw = _slice(data, at, size)
        value = raw if kind == "binary" else raw.decode("utf-8", "surrogateescape")
        return Value(kind, value), at + size
    if code in _COMPOUND:
        return _decode_compound(data, at, code, depth + 1)
    raise Amqp10Error(f"there is no type with the code {code:#04x}")


def _decode_compound(data: bytes, at: int, code: int, depth: int) -> tuple[Value, int]:
    _require_shallow(depth)
    kind, width = _COMPOUND[code]
    size, at = _size(data, at, width)
    end = at + size
    if end > len(data):
        raise IndexError
    count, at = _size(data, at, width)
    if count > size:
        # No element has less than a byte, but for those of arrays of constants.
        raise Amqp10Error(f"a {kind} of {size} bytes cannot have {count} elements")
    if kind == "array":
        items, at = _decode_array(data, at, count, depth)
    else:
        items = []
        for _ in range(count):
            item, at = _decode(data, at, depth)
            items.append(item)
    if at != end:
        raise Amqp10Error(f"the elements of a {kind} do not fill its size")
    return Value(kind, _pairs(items) if kind == "map" else items), end


def _decode_array(data: bytes, at: int, count: int, depth: int) -> tuple[list[Value], int]:
    code, descriptor = data[at], None
    at += 1
    if code == _DESCRIBED:
        descriptor, at = _decode(data, at, depth)
        code = data[at]
        at += 1
    values = []
    for _ in range(count):
        value, at = _decode_plain(data, at, code, depth)
        values.append(value if descriptor is None else Value("described", (descriptor, value)))
    return values, at


def _pairs(items: list[Value]) -> list[tuple[Value, Value]]:
    if len(items) % 2:
        raise Amqp10Error(f"a map has {len(items)} elements, an odd number")
    return list(zip(items[::2], items[1::2], strict=True))


def _size(data: bytes, at: int, width: int) -> tuple[int, int]:
    if width == 1:
        return data[at], at + 1
    return _UINT.unpack_from(data, at)[0], at + 4


def _slice(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise IndexError
    return data[at : at + size]


def _require_shallow(depth: int) -> None:
    if depth > NESTING_MAX:
        raise Amqp10Error(f"values are nested more than {NESTING_MAX} deep")


def end_of_value(data: bytes, at: int, depth: int = 0) -> int:
    """Where the value at a place ends, which is not decoded; may be behind the end of the bytes.

    Raises Amqp10Error, and IndexError or struct.error for bytes that end in the middle of a value.
    """
    code = data[at]
    if code == _DESCRIBED:
        _require_shallow(depth)
        return end_of_value(data, end_of_value(data, at + 1, depth + 1), depth + 1)
    category = code >> 4
    fixed = _FIXED_SIZES.get(category)
    if fixed is not None:
        return at + 1 + fixed
    if category in (0xA, 0xC, 0xE):
        return at + 2 + data[at + 1]
    if category in (0xB, 0xD, 0xF):
        size: int = _UINT.unpack_from(data, at + 1)[0]
        return at + 5 + size
    raise Amqp10Error(f"there is no type with the code {code:#04x}")


# Encoding


def encode(value: Value) -> bytes:
    """A value as bytes, in its shortest form."""
    return _ENCODERS[value.kind](value.value)


def encode_described(code: int, value: bytes) -> bytes:
    """An encoded value with a numeric descriptor."""
    return b"\x00" + _encode_ulong(code) + value


def encode_list(items: Iterable[bytes]) -> bytes:
    """A list of encoded values."""
    body = list(items)
    return b"\x45" if not body else _compound(0xC0, 0xD0, len(body), b"".join(body))


def encode_map(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A map of encoded values."""
    items = [item for pair in pairs for item in pair]
    return _compound(0xC1, 0xD1, len(items), b"".join(items))


def encode_binary(data: bytes) -> bytes:
    """Bytes as a value of the type binary."""
    return _variable(0xA0, 0xB0, data)


def encode_string(text: str) -> bytes:
    """A text as a value of the type string."""
    return _variable(0xA1, 0xB1, text.encode("utf-8", "surrogateescape"))


def encode_symbol(text: str) -> bytes:
    """A text as a value of the type symbol."""
    return _variable(0xA3, 0xB3, text.encode("utf-8", "surrogateescape"))


def _variable(small: int, large: int, data: bytes) -> bytes:
    size = len(data)
    if size < SMALL:
        return bytes((small, size)) + data
    return bytes((large,)) + _UINT.pack(size) + data


def _compound(small: int, large: int, count: int, body: bytes) -> bytes:
    size = len(body) + 1
    if size < SMALL and count < SMALL:
        return bytes((small, size, count)) + body
    return bytes((large,)) + _UINT.pack(len(body) + 4) + _UINT.pack(count) + body


def _encode_uint(number: int) -> bytes:
    if number == 0:
        return b"\x43"
    return bytes((0x52, number)) if number < SMALL else b"\x70" + _UINT.pack(number)


def _encode_ulong(number: int) -> bytes:
    if number == 0:
        return b"\x44"
    return bytes((0x53, number)) if number < SMALL else b"\x80" + _ULONG.pack(number)


def _encode_int(number: int) -> bytes:
    return struct.pack(">Bb" if -128 <= number < 128 else ">Bi", *_small(0x54, 0x71, number))


def _encode_long(number: int) -> bytes:
    return struct.pack(">Bb" if -128 <= number < 128 else ">Bq", *_small(0x55, 0x81, number))


def _small(small: int, large: int, number: int) -> tuple[int, int]:
    return (small if -128 <= number < 128 else large), number


def _encode_array(values: list[Value]) -> bytes:
    """An array. Each value has to have the type of the first one."""
    if not values:
        return b"\xf0" + _UINT.pack(5) + _UINT.pack(0) + b"\x40"
    kind = values[0].kind
    if any(value.kind != kind for value in values):
        raise Amqp10Error("the values of an array have more than one type")
    constructor, encoders = _constructor(values[0])
    body = b"".join(encoders(value) for value in values)
    size = 4 + len(constructor) + len(body)
    return b"\xf0" + _UINT.pack(size) + _UINT.pack(len(values)) + constructor + body


def _constructor(first: Value) -> tuple[bytes, Callable[[Value], bytes]]:
    """The code of an array's values, and what encodes one without it: each in its longest form."""
    kind = first.kind
    if kind == "described":
        descriptor, inner = first.value
        constructor, encoder = _constructor(inner)
        return b"\x00" + encode(descriptor) + constructor, lambda value: encoder(value.value[1])
    code = _LONGEST[kind]
    if code in _FIXED:
        form = _FIXED[code][1]
        return bytes((code,)), lambda value: form.pack(value.value)
    if code in _OPAQUE:
        return bytes((code,)), lambda value: bytes(value.value)
    if code in _VARIABLE:
        return bytes((code,)), lambda value: _sized(_bytes_of(value))
    if kind == "array":
        return bytes((code,)), lambda value: encode(value)[1:]
    return bytes((code,)), _encode_large_compound


def _encode_large_compound(value: Value) -> bytes:
    items = value.value if value.kind == "list" else [item for pair in value.value for item in pair]
    return _sized(_UINT.pack(len(items)) + b"".join(map(encode, items)))


def _bytes_of(value: Value) -> bytes:
    if value.kind == "binary":
        return bytes(value.value)
    text: str = value.value
    return text.encode("utf-8", "surrogateescape")


def _sized(data: bytes) -> bytes:
    return _UINT.pack(len(data)) + data


def _encode_fixed(code: int) -> Callable[[Any], bytes]:
    form = struct.Struct(">B" + _FIXED[code][1].format.lstrip(">"))
    return lambda value: form.pack(code, value)


def _encode_opaque(code: int) -> Callable[[bytes], bytes]:
    return lambda value: bytes((code,)) + value


_UINT = struct.Struct(">I")
_ULONG = struct.Struct(">Q")
_DESCRIBED: Final = 0x00
_FIXED_SIZES: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
"""The bytes of values without a size, by the first half of their codes."""
_CONSTANTS: Final = {
    0x40: NULL, 0x41: TRUE, 0x42: FALSE, 0x43: Value("uint", 0), 0x44: Value("ulong", 0),
    0x45: Value("list", []),
}  # fmt: skip
_FIXED: Final = {
    code: (kind, struct.Struct(">" + form))
    for code, kind, form in (
        (0x50, "ubyte", "B"), (0x51, "byte", "b"), (0x52, "uint", "B"), (0x53, "ulong", "B"),
        (0x54, "int", "b"), (0x55, "long", "b"), (0x56, "boolean", "B"), (0x60, "ushort", "H"),
        (0x61, "short", "h"), (0x70, "uint", "I"), (0x71, "int", "i"), (0x72, "float", "f"),
        (0x73, "char", "I"), (0x80, "ulong", "Q"), (0x81, "long", "q"), (0x82, "double", "d"),
        (0x83, "timestamp", "q"),
    )
}  # fmt: skip
_OPAQUE: Final = {
    0x74: ("decimal32", 4), 0x84: ("decimal64", 8), 0x94: ("decimal128", 16), 0x98: ("uuid", 16),
}  # fmt: skip
_VARIABLE: Final = {
    0xA0: ("binary", 1), 0xA1: ("string", 1), 0xA3: ("symbol", 1),
    0xB0: ("binary", 4), 0xB1: ("string", 4), 0xB3: ("symbol", 4),
}  # fmt: skip
_COMPOUND: Final = {
    0xC0: ("list", 1), 0xC1: ("map", 1), 0xD0: ("list", 4), 0xD1: ("map", 4),
    0xE0: ("array", 1), 0xF0: ("array", 4),
}  # fmt: skip
_LONGEST: Final = {
    **{kind: code for code, (kind, _) in _FIXED.items()},
    **{kind: code for code, (kind, _) in _OPAQUE.items()},
    **{kind: code for code, (kind, _) in _VARIABLE.items()},
    **{kind: code for code, (kind, _) in _COMPOUND.items()},
}
_ENCODERS: Final[dict[str, Callable[[Any], bytes]]] = {
    "null": lambda _: b"\x40",
    "boolean": lambda value: b"\x41" if value else b"\x42",
    "uint": _encode_uint,
    "ulong": _encode_ulong,
    "int": _encode_int,
    "long": _encode_long,
    "binary": encode_binary,
    "string": encode_string,
    "symbol": encode_symbol,
    "list": lambda items: encode_list(map(encode, items)),
    "map": lambda pairs: encode_map((encode(key), encode(value)) for key, value in pairs),
    "array": _encode_array,
    "described": lambda pair: b"\x00" + encode(pair[0]) + encode(pair[1]),
    **{
        _FIXED[code][0]: _encode_fixed(code)
        for code in (0x50, 0x51, 0x60, 0x61, 0x72, 0x73, 0x82, 0x83)
    },
    **{kind: _encode_opaque(code) for code, (kind, _) in _OPAQUE.items()},
}

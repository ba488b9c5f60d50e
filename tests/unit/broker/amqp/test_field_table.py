"""Field tables: encoding and decoding of each type, and invalid tables."""

import struct

import pytest

from leveret.broker.amqp.field_table import (
    DEEP,
    NESTING_MAX,
    FieldTableError,
    decode_table,
    encode_long_string,
    encode_short_string,
    encode_table,
    text_of,
)
from leveret.broker.amqp.json_form import NOT_SHOWN, table_to_json

EVERY_TYPE = {
    "S": "a text, très long",
    "I": -(2**31), "s": -(2**15), "b": -128, "l": -(2**63), "L": 2**63 - 1,
    "i": 2**32 - 1, "u": 2**16 - 1, "B": 255, "T": 2**64 - 1,
    "f": 0.5, "d": 0.1,
    "t": True, "V": None, "x": b"\0\xff", "D": (2, 314),
    "A": [("I", 1), ("S", "two"), ("A", [])],
    "F": {"inner": ("F", {}), "other": ("t", False)},
}  # fmt: skip


def field_table(*encoded_fields: bytes) -> bytes:
    """Return a table with these encoded names and values."""
    body = b"".join(encoded_fields)
    return struct.pack(">I", len(body)) + body


@pytest.mark.parametrize("letter", EVERY_TYPE)
def test_a_value_of_each_type_comes_back_with_its_type(letter):
    table = {"name": (letter, EVERY_TYPE[letter])}
    encoded = encode_table(table)
    assert decode_table(encoded) == (table, len(encoded))


def test_the_order_of_a_table_is_kept():
    table = dict.fromkeys(("z", "a", "m", ""), ("V", None))
    assert list(decode_table(encode_table(table))[0]) == ["z", "a", "m", ""]


def test_the_bytes_are_those_of_rabbitmq():
    assert encode_table({}) == b"\0\0\0\0"
    assert encode_table({"a": ("t", True)}) == b"\0\0\0\4\1at\1"
    assert encode_table({"a": ("S", "b")}) == b"\0\0\0\10\1aS\0\0\0\1b"
    assert encode_table({"a": ("l", 1)}) == b"\0\0\0\x0b\1al\0\0\0\0\0\0\0\1"
    assert encode_table({"a": ("D", (2, 314))}) == b"\0\0\0\10\1aD\2\0\0\1\x3a"


def test_a_table_is_read_where_it_begins():
    encoded = encode_table({"a": ("B", 7)})
    assert decode_table(b"before" + encoded + b"after", 6) == ({"a": ("B", 7)}, 6 + len(encoded))


def test_any_octet_but_0_is_true():
    assert decode_table(field_table(b"\1a", b"t\x07"))[0] == {"a": ("t", True)}


def test_of_two_values_with_one_name_the_last_counts():
    assert decode_table(field_table(b"\1aB\1", b"\1aB\2"))[0] == {"a": ("B", 2)}


def test_bytes_that_are_not_utf_8_come_out_as_they_went_in():
    encoded = field_table(b"\2\xff\xfe", b"S\0\0\0\3\x80ab")
    (name, (_, value)) = next(iter(decode_table(encoded)[0].items()))
    assert (name, value) == ("\udcff\udcfe", "\udc80ab")
    assert encode_table({name: ("S", value)}) == encoded


@pytest.mark.parametrize("letter", EVERY_TYPE)
def test_a_table_that_ends_early_is_none(letter):
    encoded = encode_table({"name": (letter, EVERY_TYPE[letter])})
    for size in range(len(encoded)):
        with pytest.raises(FieldTableError):
            decode_table(encoded[:size])


@pytest.mark.parametrize("letter", sorted(set(EVERY_TYPE) - {"V"}))
def test_a_value_that_reaches_past_its_table_makes_it_none(letter):
    whole = encode_table({"n": (letter, EVERY_TYPE[letter])})
    short = struct.pack(">I", len(whole) - 4 - 1) + whole[4:]
    with pytest.raises(FieldTableError):
        decode_table(short + b"\0" * 8)


def test_an_array_ends_with_its_last_value():
    with pytest.raises(FieldTableError, match="past the end"):
        decode_table(field_table(b"\1a", b"A\0\0\0\1", b"B\1"))


@pytest.mark.parametrize("letter", [b"Z", b"\0", b"\xff", b"U"])
def test_a_type_that_does_not_exist_makes_it_none(letter):
    with pytest.raises(FieldTableError, match="no field has the type"):
        decode_table(field_table(b"\1a", letter, b"\0\0\0\0\0\0\0\0"))


def nested(depth: int) -> bytes:
    """Return tables nested to this depth."""
    encoded = field_table()
    for _ in range(depth):
        encoded = field_table(b"\1t", b"F", encoded)
    return encoded


def nested_arrays(depth: int) -> bytes:
    """Return a table with arrays nested to this depth."""
    encoded = field_table()
    for _ in range(depth):
        encoded = field_table(b"A" + encoded)
    return field_table(b"\1t", b"A" + encoded)


@pytest.mark.parametrize("made", [nested, nested_arrays])
@pytest.mark.parametrize("depth", [NESTING_MAX, NESTING_MAX + 1, NESTING_MAX + 2, 5000])
def test_tables_of_any_depth_are_encoded_as_they_came(made, depth):
    encoded = made(depth)
    table, end = decode_table(encoded)
    assert end == len(encoded)
    assert encode_table(table) == encoded


def test_a_value_that_is_nested_too_deeply_stays_encoded():
    value = ("F", decode_table(nested(NESTING_MAX + 1))[0])
    for _ in range(NESTING_MAX):
        value = value[1]["t"]
    assert value == ("F", {"t": (DEEP, b"F\0\0\0\0")})


def test_deep_tables_are_shown_in_part():
    shown = table_to_json(decode_table(nested(5000))[0])
    for _ in range(NESTING_MAX):
        shown = shown["t"]
    assert shown == {"t": NOT_SHOWN}


def test_strings_have_their_size_in_front():
    assert encode_short_string("é") == b"\2\xc3\xa9"
    assert encode_long_string("é") == b"\0\0\0\2\xc3\xa9"
    assert encode_short_string("a" * 255)[0] == 255
    assert text_of(b"\xc3\xa9\xff") == "é\udcff"


def test_a_short_string_has_at_most_255_bytes():
    with pytest.raises(ValueError):
        encode_short_string("a" * 256)

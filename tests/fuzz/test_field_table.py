"""Field tables of random bytes, and of random values."""

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.broker.amqp.field_table import (
    NESTING_MAX,
    FieldTableError,
    decode_table,
    encode_table,
)
from leveret.broker.amqp.table_scan import table_end

RUN = settings(max_examples=150, deadline=None, database=None, derandomize=True)

INTEGERS = {
    "I": (-(2**31), 2**31 - 1), "s": (-(2**15), 2**15 - 1), "b": (-128, 127),
    "l": (-(2**63), 2**63 - 1), "L": (-(2**63), 2**63 - 1), "i": (0, 2**32 - 1),
    "u": (0, 2**16 - 1), "B": (0, 255), "T": (0, 2**64 - 1),
}  # fmt: skip

TEXTS = st.binary(max_size=40).map(lambda data: data.decode("utf-8", "surrogateescape"))
NAMES = st.binary(max_size=255).map(lambda data: data.decode("utf-8", "surrogateescape"))
PLAIN_FIELDS = st.one_of(
    *(st.tuples(st.just(letter), st.integers(*span)) for letter, span in INTEGERS.items()),
    st.tuples(st.just("S"), TEXTS),
    st.tuples(st.just("x"), st.binary(max_size=40)),
    st.tuples(st.just("t"), st.booleans()),
    st.just(("V", None)),
    st.tuples(st.just("f"), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just("d"), st.floats(allow_nan=False)),
    st.tuples(st.just("D"), st.tuples(st.integers(0, 255), st.integers(0, 2**32 - 1))),
)
FIELDS = st.recursive(
    PLAIN_FIELDS,
    lambda fields: st.one_of(
        st.tuples(st.just("F"), st.dictionaries(NAMES, fields, max_size=4)),
        st.tuples(st.just("A"), st.lists(fields, max_size=4)),
    ),
    max_leaves=12,
)
TABLES = st.dictionaries(NAMES, FIELDS, max_size=6)


@RUN
@given(TABLES)
def test_a_table_comes_back_as_it_was(table):
    encoded = encode_table(table)
    assert decode_table(encoded) == (table, len(encoded))


@RUN
@given(TABLES, st.binary(max_size=20), st.binary(max_size=20))
def test_bytes_around_a_table_do_not_matter(table, before, after):
    encoded = encode_table(table)
    decoded = decode_table(before + encoded + after, len(before))
    assert decoded == (table, len(before) + len(encoded))


@RUN
@given(TABLES, st.data())
def test_a_table_that_is_cut_short_is_none(table, data):
    encoded = encode_table(table)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(FieldTableError):
        decode_table(encoded[:cut])


@RUN
@given(st.binary(max_size=200), st.integers(0, 10))
def test_any_bytes_are_a_table_or_an_error(data, start):
    try_to_decode(data, start)


@RUN
@given(st.binary(max_size=200))
def test_any_bytes_with_a_fitting_length_are_a_table_or_an_error(body):
    try_to_decode(len(body).to_bytes(4, "big") + body)


@RUN
@given(TABLES, st.data())
def test_a_table_with_some_bytes_changed_is_a_table_or_an_error(table, data):
    encoded = bytearray(encode_table(table))
    for _ in range(data.draw(st.integers(1, 4))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try_to_decode(bytes(encoded))


def try_to_decode(data, start=0):
    """What can be decoded is unchanged by encoding and decoding."""
    try:
        table, end = decode_table(data, start)
    except FieldTableError:
        assert end_of(data, start) is None
        return
    assert end_of(data, start) == end
    assert start + 4 <= end <= len(data)
    if not has_nan(("F", table)):
        assert decode_table(encode_table(table))[0] == table


def end_of(data, start):
    try:
        return table_end(data, start)
    except (FieldTableError, struct.error, IndexError):
        return None


def has_nan(field):
    letter, value = field
    if letter == "F":
        return any(has_nan(inner) for inner in value.values())
    if letter == "A":
        return any(has_nan(inner) for inner in value)
    return letter in "fd" and math.isnan(value)


@pytest.mark.parametrize("letter", ["F", "A"])
@pytest.mark.parametrize("depth", [NESTING_MAX, NESTING_MAX + 1, 20_000])
def test_nesting_has_no_end(letter, depth):
    assert nested(letter, depth)


def nested(letter, depth):
    """Decode nested tables or arrays."""
    start = (b"\1a" if letter == "F" else b"") + letter.encode()
    body = b""
    for level in range(depth):
        inner = len(body).to_bytes(4, "big") + body
        body = (start if level < depth - 1 else b"\1a" + letter.encode()) + inner
    encoded = len(body).to_bytes(4, "big") + body
    assert table_end(encoded, 0) == len(encoded)
    return decode_table(encoded)

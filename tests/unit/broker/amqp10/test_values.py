"""The types of AMQP 1.0: each value survives being encoded, and bad bytes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.broker.amqp10.values import (
    NESTING_MAX,
    NULL,
    Amqp10Error,
    Value,
    decode,
    encode,
    end_of_value,
)

EXAMPLES = {
    "40": NULL,
    "41": Value("boolean", True),
    "42": Value("boolean", False),
    "43": Value("uint", 0),
    "52ff": Value("uint", 255),
    "7000000100": Value("uint", 256),
    "44": Value("ulong", 0),
    "5301": Value("ulong", 1),
    "80ffffffffffffffff": Value("ulong", 2**64 - 1),
    "54ff": Value("int", -1),
    "71ffffff7f": Value("int", -129),
    "5580": Value("long", -128),
    "810000000000000080": Value("long", 128),
    "5007": Value("ubyte", 7),
    "51f9": Value("byte", -7),
    "60ffff": Value("ushort", 65_535),
    "61ffff": Value("short", -1),
    "723fc00000": Value("float", 1.5),
    "823ff8000000000000": Value("double", 1.5),
    "730001f407": Value("char", 0x1F407),
    "8300000000000003e8": Value("timestamp", 1000),
    "98" + "ab" * 16: Value("uuid", b"\xab" * 16),
    "7401020304": Value("decimal32", b"\1\2\3\4"),
    "a002ff00": Value("binary", b"\xff\0"),
    "a103686172": Value("string", "har"),
    "a302783a": Value("symbol", "x:"),
    "45": Value("list", []),
    "c0040240a100": Value("list", [NULL, Value("string", "")]),
    "c1070241a303787979": Value("map", [(Value("boolean", True), Value("symbol", "xyy"))]),
    "00530141": Value("described", (Value("ulong", 1), Value("boolean", True))),
    "f00000000f00000002b300000001610000000162": Value(
        "array", [Value("symbol", "a"), Value("symbol", "b")]
    ),
}


@pytest.mark.parametrize(("text", "value"), EXAMPLES.items())
def test_examples(text, value):
    data = bytes.fromhex(text)
    assert encode(value) == data
    assert decode(data) == (value, len(data))


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_end_of_a_value_is_found_without_decoding_it(text):
    data = bytes.fromhex(text)
    assert end_of_value(b"\x40" + data + b"\x40", 1) == 1 + len(data)


@pytest.mark.parametrize("data", [b"\0" * 100_000, b"\0\x53\1" * 100_000, b"\x3f"])
def test_the_end_of_no_value_is_not_found(data):
    with pytest.raises(Amqp10Error):
        end_of_value(data, 0)


def test_constants_in_their_longer_forms():
    assert decode(b"\x56\x01")[0] == Value("boolean", True)
    assert decode(b"\x70\0\0\0\0")[0] == Value("uint", 0)
    assert decode(b"\xd0\0\0\0\4\0\0\0\0")[0] == Value("list", [])


PLAIN = st.one_of(
    st.just(NULL),
    st.booleans().map(lambda value: Value("boolean", value)),
    st.integers(0, 2**32 - 1).map(lambda value: Value("uint", value)),
    st.integers(0, 2**64 - 1).map(lambda value: Value("ulong", value)),
    st.integers(-(2**31), 2**31 - 1).map(lambda value: Value("int", value)),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: Value("long", value)),
    st.binary(max_size=300).map(lambda value: Value("binary", value)),
    st.text(max_size=300).map(lambda value: Value("string", value)),
    st.text("abc-:", max_size=300).map(lambda value: Value("symbol", value)),
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).map(lambda items: Value("list", items)),
        st.lists(st.tuples(inner, inner), max_size=4).map(lambda pairs: Value("map", pairs)),
        st.tuples(inner, inner).map(lambda pair: Value("described", pair)),
    ),
    max_leaves=12,
)
ARRAYS = st.one_of(
    st.lists(st.integers(-(2**31), 2**31 - 1).map(lambda value: Value("int", value))),
    st.lists(st.text(max_size=9).map(lambda value: Value("symbol", value))),
    st.lists(st.lists(PLAIN, max_size=3).map(lambda items: Value("list", items)), max_size=3),
    st.lists(
        st.text(max_size=9).map(
            lambda text: Value("described", (Value("symbol", "a:b"), Value("string", text)))
        ),
        min_size=1,
        max_size=3,
    ),
)


@given(st.one_of(VALUES, ARRAYS.map(lambda items: Value("array", items))))
def test_a_value_is_what_was_encoded(value):
    data = encode(value)
    assert decode(data) == (value, len(data))
    for size in range(len(data)):
        with pytest.raises(Amqp10Error):
            decode(data[:size])


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused(data):
    try:
        decode(data)
    except Amqp10Error:
        return


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("3f", "no type with the code 0x3f"),
        ("c0020541", "cannot have 5 elements"),
        ("c0050141414141", "do not fill its size"),
        ("c1020141", "an odd number"),
        ("d0ffffffff00000001", "end in the middle"),
        ("e003ff4141", "cannot have 255 elements"),
    ],
)
def test_bytes_that_are_no_value(text, problem):
    with pytest.raises(Amqp10Error, match=problem):
        decode(bytes.fromhex(text))


def test_deep_nesting_is_refused():
    value = NULL
    for _ in range(NESTING_MAX):
        value = Value("list", [value])
    assert decode(encode(value))[0] == value
    with pytest.raises(Amqp10Error, match="nested more than 64 deep"):
        decode(encode(Value("list", [value])))
    with pytest.raises(Amqp10Error, match="nested more than 64 deep"):
        decode(b"\0" * 1000)


def test_an_array_has_values_of_one_type():
    with pytest.raises(Amqp10Error, match="more than one type"):
        encode(Value("array", [NULL, Value("boolean", True)]))

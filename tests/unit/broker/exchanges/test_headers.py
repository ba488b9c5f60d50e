"""The headers exchange, compared with RabbitMQ 3.10.8."""

import pytest

from leveret.broker.amqp.content_header import ContentHeader, read_header
from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.exchanges.headers import COMPARED_BYTES, Headers
from tests.routes import matched

ONE, TWO = ("S", "1"), ("S", "2")
ALL, ANY = ("S", "all"), ("S", "any")
ALL_WITH_X, ANY_WITH_X = ("S", "all-with-x"), ("S", "any-with-x")
VOID = ("V", None)
NUMBER: Field = ("I", 1)


def header_with(headers: Table | None) -> ContentHeader:
    return read_header(encode_properties({"headers": headers}))


def table(**entries: Field) -> Field:
    return ("F", entries)


def array(*items: Field) -> Field:
    return ("A", list(items))


MODES: list[tuple[Table, Table | None, bool]] = [
    ({"x-match": ANY, "a": ONE, "b": TWO}, {"a": ONE}, True),
    ({"x-match": ANY, "a": ONE, "b": TWO}, {"b": TWO, "c": ("S", "3")}, True),
    ({"x-match": ANY, "a": ONE, "b": TWO}, {"a": TWO, "b": ONE}, False),
    ({"x-match": ANY, "a": ONE, "b": TWO}, {}, False),
    ({"x-match": ANY, "a": ONE, "b": TWO}, None, False),
    ({"a": ONE, "b": TWO}, {"a": ONE, "b": TWO}, True),
    ({"a": ONE, "b": TWO}, {"a": ONE, "b": TWO, "c": ONE}, True),
    ({"a": ONE, "b": TWO}, {"a": ONE}, False),
    ({"a": ONE, "b": TWO}, None, False),
    # Bindings without conditions.
    ({}, {}, True),
    ({}, None, True),
    ({}, {"q": ONE}, True),
    ({"x-match": ALL}, None, True),
    ({"x-match": ALL_WITH_X}, {"q": ONE}, True),
    ({"x-match": ANY}, None, False),
    ({"x-match": ANY}, {"a": ONE}, False),
    ({"x-match": ANY_WITH_X}, {"x-match": ANY_WITH_X}, False),
    # Names that begin with x-.
    ({"x-match": ALL, "x-a": ONE, "b": TWO}, {"b": TWO}, True),
    ({"x-match": ALL, "x-a": ONE, "b": TWO}, {"x-a": ("S", "0"), "b": TWO}, True),
    ({"x-match": ALL, "x-a": ONE, "b": TWO}, {"x-a": ONE}, False),
    ({"x-match": ANY, "x-a": ONE}, {"x-a": ONE}, False),
    ({"x-match": ANY_WITH_X, "x-a": ONE, "b": TWO}, {"x-a": ONE}, True),
    ({"x-match": ANY_WITH_X, "x-a": ONE, "b": TWO}, {"b": TWO}, True),
    ({"x-match": ANY_WITH_X, "x-a": ONE, "b": TWO}, {"c": ONE}, False),
    ({"x-match": ALL_WITH_X, "x-a": ONE, "b": TWO}, {"x-a": ONE, "b": TWO}, True),
    ({"x-match": ALL_WITH_X, "x-a": ONE, "b": TWO}, {"b": TWO}, False),
    ({"x-match": ALL_WITH_X, "x-a": ONE, "b": TWO}, {"x-a": ONE}, False),
    ({"X-a": ONE}, {}, False),
    ({"x": ONE}, {}, False),
    # A void requires only that the header exists.
    ({"a": VOID}, {"a": ("S", "anything")}, True),
    ({"a": VOID}, {"a": VOID}, True),
    ({"a": VOID}, {"b": ONE}, False),
    ({"a": VOID, "b": ONE}, {"a": TWO, "b": ONE}, True),
    ({"a": VOID, "b": ONE}, {"b": ONE}, False),
    ({"x-match": ANY, "a": VOID}, {"a": ONE}, True),
    ({"x-match": ANY, "a": VOID}, None, False),
    ({"x-match": ANY_WITH_X, "x-a": VOID}, {"x-a": ONE}, True),
]

VALUES: list[tuple[Field, Field, bool]] = [
    (NUMBER, ("I", 1), True),
    (NUMBER, ("l", 1), True),
    (NUMBER, ("s", 1), True),
    (NUMBER, ("b", 1), True),
    (NUMBER, ("B", 1), True),
    (NUMBER, ("u", 1), True),
    (NUMBER, ("i", 1), True),
    (NUMBER, ("L", 1), True),
    (NUMBER, ("T", 1), True),
    (NUMBER, ("d", 1.0), True),
    (NUMBER, ("f", 1.0), True),
    (NUMBER, ("S", "1"), False),
    (NUMBER, ("t", True), False),
    (NUMBER, ("D", (0, 1)), False),
    (NUMBER, VOID, False),
    (("d", 0.0), ("d", -0.0), True),
    (("d", 0.0), ("I", 0), True),
    (("l", 2**53 + 1), ("d", float(2**53)), False),
    (("f", 0.5), ("d", 0.5), True),
    (("t", True), ("t", True), True),
    (("t", True), ("t", False), False),
    (("t", True), ("S", "true"), False),
    (("t", True), ("I", 1), False),
    (("D", (1, 5)), ("D", (1, 5)), True),
    (("D", (1, 5)), ("D", (2, 50)), False),
    (("D", (1, 5)), ("d", 0.5), False),
    (("S", "v"), ("x", b"v"), True),
    (("S", "v"), ("S", "V"), False),
    (table(k=NUMBER), table(k=NUMBER), True),
    (table(k=NUMBER), table(k=("I", 2)), False),
    (table(k=NUMBER), table(k=("l", 1)), False),
    (table(k=NUMBER, j=NUMBER), table(j=NUMBER, k=NUMBER), False),
    (array(NUMBER), array(NUMBER), True),
    (array(NUMBER), array(("l", 1)), False),
    (array(NUMBER), array(("d", 1.0)), False),
    (array(("d", 1.0)), array(("f", 1.0)), False),
    (array(("S", "v")), array(("x", b"v")), False),
    (array(("S", "x")), array(("S", "x"), ("S", "y")), False),
    (array(), array(), True),
    (array(), table(), True),
    (array(table(k=NUMBER)), array(table(k=NUMBER)), True),
]


def does_match(binding: Table, headers: Table | None) -> bool:
    exchange = Headers({})
    exchange.validate_binding("", binding)
    exchange.bind("queue", "", binding)
    return list(matched(exchange, "", header_with(headers))) == ["queue"]


@pytest.mark.parametrize(("binding", "headers", "expected"), MODES)
def test_match_modes(binding: Table, headers: Table | None, expected: bool) -> None:
    assert does_match(binding, headers) is expected


@pytest.mark.parametrize(("bound", "published", "expected"), VALUES)
def test_values(bound: Field, published: Field, expected: bool) -> None:
    for mode in (ALL, ANY):
        assert does_match({"x-match": mode, "a": bound}, {"a": published}) is expected


BAD_MODES = [
    (
        ("S", "some"),
        'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x',
    ),
    (("S", ""), "Invalid x-match field value <<>>; expected all, any, all-with-x, or any-with-x"),
    (("I", 5), "Invalid x-match field type signedint (value 5); expected longstr"),
    (("t", True), "Invalid x-match field type bool (value true); expected longstr"),
    (("x", b"all"), 'Invalid x-match field type binary (value <<"all">>); expected longstr'),
    (("V", None), "Invalid x-match field type void (value undefined); expected longstr"),
]


@pytest.mark.parametrize(("mode", "text"), BAD_MODES)
def test_an_unknown_match_mode_is_refused(mode: Field, text: str) -> None:
    with pytest.raises(ChannelFault) as refusal:
        Headers({}).validate_binding("", {"x-match": mode, "a": ONE})
    assert refusal.value.reply_text == f"PRECONDITION_FAILED - {text}"


def test_bindings_are_told_apart_by_key_and_arguments() -> None:
    exchange = Headers({})
    bound: list[tuple[str, Table]] = [
        ("", {"a": ONE}), ("key", {"a": ONE}), ("", {"x-match": ANY, "a": ONE, "b": TWO}),
    ]  # fmt: skip
    for key, arguments in bound:
        exchange.bind("queue", key, arguments)
    for key, arguments in bound:
        assert set(matched(exchange, "", header_with({"a": ONE}))) == {"queue"}
        exchange.unbind("queue", key, arguments)
    assert not matched(exchange, "", header_with({"a": ONE}))


def test_an_unbound_destination_leaves_the_others() -> None:
    exchange = Headers({})
    for destination in ("one", "two"):
        exchange.bind(destination, "", {})
        exchange.bind(destination, "", {"x-match": ANY, "a": ONE, "b": VOID})
    exchange.unbind("one", "", {})
    exchange.unbind("one", "", {"x-match": ANY, "a": ONE, "b": VOID})
    assert set(matched(exchange, "", header_with({"a": ONE, "b": TWO}))) == {"two"}


def test_a_matching_binding_is_found_among_many() -> None:
    exchange = Headers({})
    for number in range(500):
        exchange.bind(number, "", {"format": ("S", "pdf"), "number": ("I", number)})
        exchange.bind(-number, "", {"x-match": ANY, "number": ("I", number)})
    published = {"number": ("l", 7), "format": ("S", "pdf")}
    assert set(matched(exchange, "", header_with(published))) == {7, -7}


def test_the_key_does_not_decide() -> None:
    assert not Headers.routes_by_key
    assert not Headers.uses_every_key


def test_to_compare_a_binding_takes_steps_for_its_size() -> None:
    """So a turn ends in time when many bindings with large tables are compared."""
    criteria: Table = {f"k{number}": ONE for number in range(400)}

    def steps(arguments: Table) -> int:
        exchange = Headers({})
        exchange.bind("q", "", arguments)
        return len(list(exchange.route("", header_with(criteria))))

    one, many = steps({"k0": ONE}), steps(criteria)
    assert many > one + 400 * 5 // COMPARED_BYTES
    assert steps({"x-match": ANY, **criteria}) == one + 399, "one for each that it is found under"

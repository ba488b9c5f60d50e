"""Values as Erlang reads and prints them, with what RabbitMQ 3.10.8 printed."""

import pytest

from broker.amqp.field_table import Field
from broker.exchanges.erlang_values import format_value, read_integer

PRINTED: list[tuple[Field, str]] = [
    (("S", "abc"), '<<"abc">>'),
    (("S", ""), "<<>>"),
    (("S", "a\0b"), "<<97,0,98>>"),
    (("S", "\udcff"), "<<255>>"),
    (("x", b"ab"), '<<"ab">>'),
    (("I", -3), "-3"),
    (("T", 5), "5"),
    (("d", 1.5), "1.5"),
    (("f", 0.10000000149011612), "0.10000000149011612"),
    (("t", True), "true"),
    (("t", False), "false"),
    (("V", None), "undefined"),
    (("D", (2, 5)), "{2,5}"),
    (("A", []), "[]"),
    (("A", [("I", 1), ("S", "a")]), '[{signedint,1},{longstr,<<"a">>}]'),
    (("F", {}), "[]"),
    (("F", {"k": ("I", 1), "j": ("t", True)}), '[{<<"k">>,signedint,1},{<<"j">>,bool,true}]'),
]


@pytest.mark.parametrize(("field", "printed"), PRINTED)
def test_format_value(field: Field, printed: str) -> None:
    assert format_value(field) == printed


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1), ("+5", 5), ("-1", -1), ("007", 7), ("-0", 0), ("9" * 255, None)]
)
def test_integers_are_read(text: str, number: int | None) -> None:
    assert read_integer(text) == (int(text) if number is None else number)


@pytest.mark.parametrize("text", ["", " 5", "5 ", "abc", "1_0", "1.0", "\u0663", "-", "+", "5\n"])
def test_what_erlang_would_not_read_is_none(text: str) -> None:
    assert read_integer(text) is None


def test_longer_numbers_than_any_use_are_not_read() -> None:
    assert read_integer("1" * 100_000) is None

"""AMQP fields as Erlang terms, compared with the output of RabbitMQ 3.10.8."""

import pytest

from leveret.broker.amqp.field_table import DEEP, Field
from leveret.broker.amqp.field_terms import FIELD_TYPE_NAMES, format_value

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


def test_field_types_have_their_long_names() -> None:
    assert FIELD_TYPE_NAMES["S"] == "longstr"
    assert FIELD_TYPE_NAMES["I"] == "signedint"
    assert FIELD_TYPE_NAMES["t"] == "bool"
    assert set(FIELD_TYPE_NAMES) == {*"SIDTFAbBdflLstxViu", DEEP}

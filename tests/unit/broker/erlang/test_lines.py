"""Terms over several lines, compared with the output of RabbitMQ 3.10.8."""

import pytest

from leveret.broker.erlang.lines import format_lines
from leveret.broker.erlang.terms import Atom

LONGSTR = Atom("longstr")
KEYS = """[<<"key1">>,<<"key2">>,<<"key3">>,<<"key4">>,<<"key5">>,
               <<"key6">>,<<"key7">>,<<"key8">>,<<"key9">>,<<"key10">>,
               <<"key11">>,<<"key12">>]"""
NESTED = """[{<<"headers">>,table,
                [{<<"CC">>,array,
                  [{longstr,<<"qqqqqqqqqqqqqqqqqqqqqqqqqq2">>},
                   {longstr,<<"qqqqqqqqqqqqqqqqqqqqqqqqqq3">>},
                   {longstr,<<"qqqqqqqqqqqqqqqqqqqqqqqqqq4">>}]}]}]"""
LONG = """[{<<"f">>,double,2.5},
               {<<"e">>,float,1.0e20},
               {<<"l">>,longstr,
                <<"0123456789012345678901234567890123456789">>}]"""


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ([f"key{number}" for number in range(1, 13)], KEYS),
        (
            [("headers", Atom("table"),
              [("CC", Atom("array"), [(LONGSTR, "q" * 26 + one) for one in "234"])])],
            NESTED,
        ),
        (
            [
                ("f", Atom("double"), 2.5), ("e", Atom("float"), 1e20),
                ("l", LONGSTR, "0123456789" * 4),
            ],
            LONG,
        ),
        ([], "[]"),
        (["", "a\nb", "À"], '[<<>>,<<"a\\nb">>,<<195,128>>]'),
    ],
)  # fmt: skip
def test_terms_are_printed_as_erlang_prints_them(term, text):
    assert format_lines(term, 14) == text

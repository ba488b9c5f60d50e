"""Field tables out of Erlang terms."""

import pytest

from leveret.broker.amqp.field_table import decode_table, encode_table
from leveret.broker.amqp.tables_of_terms import terms_to_table
from leveret.broker.erlang.parser import parse_terms


def table(text):
    return terms_to_table(parse_terms(f"{text}.", 50)[0])


@pytest.mark.parametrize(
    ("field", "found"),
    [
        ('longstr, <<"text">>', ("S", "text")),
        ("binary, <<1, 255>>", ("x", b"\x01\xff")),
        ("signedint, -5", ("I", -5)),
        ("long, 5", ("l", 5)),
        ("short, 5", ("s", 5)),
        ("byte, -128", ("b", -128)),
        ("unsignedbyte, 255", ("B", 255)),
        ("unsignedshort, 65535", ("u", 65535)),
        ("unsignedint, 4294967295", ("i", 4294967295)),
        ("timestamp, 1700000000", ("T", 1700000000)),
        ("bool, true", ("t", True)),
        ("bool, false", ("t", False)),
        ("double, 1.5", ("d", 1.5)),
        ("float, 2", ("f", 2.0)),
        ("decimal, {2, 314}", ("D", (2, 314))),
        ("void, undefined", ("V", None)),
        ('table, [{<<"a">>, long, 1}]', ("F", {"a": ("l", 1)})),
        ('array, [{long, 1}, {longstr, <<"x">>}]', ("A", [("l", 1), ("S", "x")])),
    ],
)
def test_a_field_of_each_type_can_be_sent(field, found):
    made = table(f'[{{<<"name">>, {field}}}]')
    assert made == {"name": found}
    assert decode_table(encode_table(made))[0] == made


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("word", "a table should be a list, actually was word"),
        ("[word]", "a field should be {Name, Type, Value}"),
        ("[{name, long, 1}]", "a field should be {Name, Type, Value}"),
        ('[{<<"n">>, 1}]', "a field should be {Name, Type, Value}"),
        ('[{<<"n">>, number, 1}]', "a field cannot have the type number; known are longstr"),
        ('[{<<"n">>, long, <<"1">>}]', 'a field of the type long cannot be <<"1">>'),
        ('[{<<"n">>, longstr, "text"}]', 'a field of the type longstr cannot be "text"'),
        ('[{<<"n">>, byte, 128}]', "a field of the type byte cannot be 128"),
        ('[{<<"n">>, float, 1.0e300}]', "a field of the type float cannot be 1.0e300"),
        ('[{<<"n">>, bool, yes}]', "a field of the type bool cannot be yes"),
        ('[{<<"n">>, decimal, {999, 1}}]', "a field of the type decimal cannot be {999,1}"),
        ('[{<<"n">>, array, [1]}]', "a field of the type array cannot be [1]"),
        ('[{<<"n">>, array, [{byte, 999}]}]', "a field of the type byte cannot be 999"),
        (f'[{{<<"{"n" * 256}">>, long, 1}}]', "the name of a field may have 255 bytes"),
    ],
)
def test_terms_that_are_no_table(text, problem):
    with pytest.raises(ValueError) as caught:
        table(text)
    assert str(caught.value).startswith(problem)

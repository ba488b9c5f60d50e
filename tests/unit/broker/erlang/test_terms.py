"""The notation of RabbitMQ's texts."""

import pytest

from leveret.broker.erlang.terms import Atom, Charset, String, format_binary, format_term


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "<<>>"),
        (b"abc", '<<"abc">>'),
        (b"a b~", '<<"a b~">>'),
        (b'say "hi"\\', r'<<"say \"hi\"\\">>'),
        (b"\n\r\t\v\b\f\x1b", r'<<"\n\r\t\v\b\f\e">>'),
        (b"\0", "<<0>>"),
        (b"abc\0", "<<97,98,99,0>>"),
        (b"\x7f", "<<127>>"),
        (b"\xff\xfe", "<<255,254>>"),
    ],
)
def test_binaries(data: bytes, text: str) -> None:
    assert format_binary(data) == format_term(data) == text


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("queue", '<<"queue">>'),
        ("", "<<>>"),
        ("été", '<<"été"/utf8>>'),
        ('"é"', r'<<"\"é\""/utf8>>'),
        ("\0", "<<0>>"),
        ("\udcff", "<<255>>"),
        (String('a "b"\n'), r'"a \"b\"\n"'),
        (Atom("longstr"), "longstr"),
        (Atom("rabbit@h1"), "rabbit@h1"),
        (Atom("rabbit@a-b.example"), "'rabbit@a-b.example'"),
        (Atom("Up's"), "'Up\\'s'"),
        (True, "true"),
        (None, "null"),
        (-7, "-7"),
        (1.5, "1.5"),
        (1e20, "1.0e20"),
        (1e-7, "1.0e-7"),
        (("x", Atom("bool"), False), '{<<"x">>,bool,false}'),
        ([1, []], "[1,[]]"),
        ({"a": 1, "b": {"c": None}}, '#{<<"a">> => 1,<<"b">> => #{<<"c">> => null}}'),
    ],
)
def test_terms(term: object, text: str) -> None:
    assert format_term(term) == text


@pytest.mark.parametrize(
    ("term", "text"),
    [("é", '<<"é">>'), ("À", "<<195,128>>"), (b"\xe9", '<<"\udce9">>'), (["a"], '[<<"a">>]')],
)
def test_binaries_in_latin_1(term: object, text: str) -> None:
    assert format_term(term, Charset.LATIN_1) == text

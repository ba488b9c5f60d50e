"""Parsing texts into terms."""

import pytest

from leveret.broker.erlang.parser import TermError, parse_integer, parse_term
from leveret.broker.erlang.terms import Atom, String


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("true", "true"),
        ("{constant, true}", ("constant", "true")),
        ('"a string"', "a string"),
        (r'"say \"hello\" \\ there"', r'say "hello" \ there'),
        ('<<"a binary">>', "a binary"),
        ("'not'", "not"),
        ("[]", []),
        ("{}", ()),
        ('[{a, "b"}, c]', [("a", "b"), "c"]),
        ("{a,[b,{c}]}.", ("a", ["b", ("c",)])),
        (" \n{ a ,\tb } . ", ("a", "b")),
        ('"cn=${vhost},dc=example"', "cn=${vhost},dc=example"),
        ('"ends with a dot."', "ends with a dot."),
        ('"höhle"', "höhle"),
        ("<<>>", ""),
        ('<<"ü"/utf8>>', "ü"),
        ("<<109,45,195,188>>", "m-ü"),
        ("<<255,\n  97>>", "\ufffda"),
        ('<<"one "\n  "two">>', "one two"),
        ('<<"\\"q\\" \\\\ \\n\\e">>', '"q" \\ \n\x1b'),
        ('{<<"x">>,signedint,\n  -7}', ("x", "signedint", -7)),
        ("[1.5, 1.0e20, 1.0e-7]", [1.5, 1e20, 1e-7]),
        ('[{<<"]">>,<<"}">>}]', [("]", "}")]),
    ],
)
def test_a_text_and_its_term(text, term):
    assert parse_term(text) == term


def test_atoms_are_not_strings():
    assert [type(one) for one in parse_term("[word, 'Quoted', \"text\", <<1>>]")] == [
        Atom, Atom, String, str,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "ends too early, at character 1"),
        ("{a", "lacks a '}', at character 3"),
        ("[a, b", "lacks a ']', at character 6"),
        ("{a b}", "lacks a comma, at character 4"),
        ("{a,,b}", "has ',' where a term has to be, at character 4"),
        ("{a,}", "has '}' where a term has to be, at character 4"),
        ("{a]", "has ']' in the place of '}', at character 3"),
        ("]", "has ']' where a term has to be, at character 1"),
        ("a b", "has more after its end, at character 3"),
        ("{a}}", "has more after its end, at character 4"),
        ('"open', "cannot be read, at character 1"),
        ("{Variable}", "cannot be read, at character 2"),
        ("<<300>>", "has a byte above 255, at character 1"),
    ],
)
def test_a_text_that_is_none(text, problem):
    with pytest.raises(TermError) as caught:
        parse_term(text)
    assert str(caught.value) == f"the term {text} {problem}"


def test_nesting_may_be_limited():
    assert parse_term("[[a]]", depth_max=2) == [["a"]]
    with pytest.raises(TermError, match="is nested too deeply"):
        parse_term("[[[a]]]", depth_max=2)


def test_no_nesting_is_too_deep_for_the_parser():
    term = parse_term("[" * 100_000 + "]" * 100_000)
    for _ in range(99_999):
        (term,) = term
    assert term == []


def test_an_error_shows_the_beginning_of_a_long_text():
    with pytest.raises(TermError, match=r"^the term \[aaa.{496}\.\.\. lacks a '\]'"):
        parse_term("[" + "a" * 10_000)


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1), ("+5", 5), ("-1", -1), ("007", 7), ("-0", 0), ("9" * 255, None)]
)
def test_integers_are_read(text: str, number: int | None) -> None:
    assert parse_integer(text) == (int(text) if number is None else number)


@pytest.mark.parametrize("text", ["", " 5", "5 ", "abc", "1_0", "1.0", "\u0663", "-", "+", "5\n"])
def test_what_erlang_would_not_read_is_none(text: str) -> None:
    assert parse_integer(text) is None


def test_longer_numbers_than_any_use_are_not_read() -> None:
    assert parse_integer("1" * 100_000) is None

"""Erlang terms, as far as queries need them."""

import pytest

from broker.auth.backends.erlang_terms import DEPTH_MAX, Atom, TermError, parse_term


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
    ],
)
def test_a_text_and_its_term(text, term):
    assert parse_term(text) == term


def test_atoms_are_not_strings():
    assert [type(one) for one in parse_term("[word, 'Quoted', \"text\"]")] == [Atom, Atom, str]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "ends too early, at character 1"),
        ("{a", "lacks a '}', at character 3"),
        ("[a, b", "lacks a ']', at character 6"),
        ("{a b}", "lacks a comma, at character 4"),
        ("{a,,b}", "has ',' where a term has to be, at character 4"),
        ("{a,}", "has '}' where a term has to be, at character 4"),
        ("{a]", "lacks a comma, at character 3"),
        ("a b", "has more after its end, at character 3"),
        ("{a}}", "has more after its end, at character 4"),
        ('"open', "cannot be read, at character 1"),
        ("{Variable}", "cannot be read, at character 2"),
        ("{a, 1}", "cannot be read, at character 5"),
        ("[" * (DEPTH_MAX + 2), "is nested too deeply, at character 1"),
    ],
)
def test_a_text_that_is_none(text, problem):
    with pytest.raises(TermError) as caught:
        parse_term(text)
    assert str(caught.value) == f"the term {text} {problem}"

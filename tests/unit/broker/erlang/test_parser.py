"""Parsing texts into terms."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.broker.erlang.parser import TermError, parse_integer, parse_term, parse_terms
from leveret.broker.erlang.terms import Atom, String, format_term


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


def test_an_integer_that_is_too_long_is_no_term():
    with pytest.raises(TermError, match="has a number that is too large"):
        parse_term("9" * 5000)


# Files of terms


def parsed(text):
    return parse_terms(text, 50)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        (" % nothing\n", []),
        ("[].\n", [[]]),
        ("a. b.", ["a", "b"]),
        ("{a, % one }\n  [b] % two .\n}.% end", [("a", ["b"])]),
        ("[1, -2, +3, 1_000, 16#fF, -2#101, 36#z].", [[1, -2, 3, 1000, 255, -5, 35]]),
        ("[1.5, -2.0e3, 1.0E-2].", [[1.5, -2000.0, 0.01]]),
        (r"[$a, $\n, $\s, $ , $\x41, $\x{1F600}, $\101, $\^A, $%].",
         [[97, 10, 32, 32, 65, 0x1F600, 65, 1, 37]]),
        ('["one" "two"\n "three"].', [["onetwothree"]]),
        (r'["\x{e9}\101\d\^a\e\"\\"].', [["éA\x7f\x01\x1b\"\\"]]),
        ("#{a => 1, <<\"b\">> => [#{}]}.", [{"a": 1, "b": [{}]}]),
        ("['an atom', 'a\\'b'].", [["an atom", "a'b"]]),
        ('[<<"a", 98, "c" "d">>, << >>].', [["abcd", ""]]),
        ('[<<"é">>, <<"é"/utf8>>, <<"€"/utf8>>].', [["\udce9", "é", "€"]]),
        ("[<<255>>].", [["\udcff"]]),
        ("[{match_fun, public_key:match_fun(https)}, fun lists:map/2].",
         [[("match_fun", "public_key:match_fun(https)"), "fun lists:map/2"]]),
        ("[a.b].", None),
    ],
)  # fmt: skip
def test_a_file_of_terms(text, terms):
    if terms is None:
        with pytest.raises(TermError):
            parsed(text)
    else:
        assert parsed(text) == terms


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[{rabbit, [}].", "line 1, column 12: the text has '}' where a term has to be"),
        ("[\n {rabbit []}].", "line 2, column 10: the text lacks a comma"),
        ("[{a, b}\n", "line 2, column 1: the text lacks a ']'"),
        ("[]", "line 1, column 3: the text lacks a '.' after the last term"),
        ("[]\n[].", "line 2, column 1: the text lacks a '.' after a term"),
        (".", "line 1, column 1: the text has '.' where a term has to be"),
        ("[a\n.", "line 2, column 1: the text has '.' in the place of ']'"),
        ("#{a}.", "line 1, column 4: the text has '}' in the place of '=>'"),
        ("#{a b}.", "line 1, column 5: the text lacks an '=>'"),
        ("#{a =>}.", "line 1, column 7: the text has '}' where a term has to be"),
        ("#{a => b => c}.", "line 1, column 10: the text has '=>' in the place of '}'"),
        ("{a => b}.", "line 1, column 4: the text has '=>' in the place of '}'"),
        ("#{[] => b}.", "line 1, column 10: the text has a list or a map as the key of a map"),
        ("[a|b].", "line 1, column 3: the text cannot be read"),
        ("[Variable].", "line 1, column 2: the text cannot be read"),
        ('["open].', "line 1, column 2: the text cannot be read"),
        ("[7#9].", "line 1, column 2: the text has a number with digits that base 7 does not have"),
        ("[1#1].", "line 1, column 2: the text has a number whose base is not from 2 to 36"),
        ("[1.0e999].", "line 1, column 2: the text has a number that is too large"),
        (r'["\x{110000}"].',
         "line 1, column 2: the text has the escape \\x{110000}, which is no character"),
        (r'["\x4"].', "line 1, column 2: the text has the escape \\x without two digits"),
        ('[<<"€">>].', "line 1, column 2: the text has characters in a binary that are not one "
         'byte each: write <<"..."/utf8>>'),
        ("[" * 51, "line 1, column 51: the text is nested too deeply"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong(text, problem):
    with pytest.raises(TermError) as caught:
        parsed(text)
    assert str(caught.value) == problem


ATOMS = st.from_regex(r"[a-z][A-Za-z0-9_@]{0,8}", fullmatch=True).map(Atom)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
LEAVES = st.one_of(
    ATOMS, TEXTS.map(String), TEXTS, st.integers(), st.floats(allow_nan=False, allow_infinity=False)
)
TERMS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(TEXTS, inner),
)


@given(st.lists(TERMS))
def test_formatted_terms_are_parsed(terms):
    text = "".join(f"{format_term(term)}. % end\n" for term in terms)
    assert shaped(parsed(text)) == shaped(terms)


def shaped(term):
    """A term with the types of everything in it."""
    if isinstance(term, list | tuple):
        return type(term), [shaped(one) for one in term]
    if isinstance(term, dict):
        return dict, {key: shaped(value) for key, value in term.items()}
    return type(term), term


@given(
    st.text()
    | st.text("[]{}#=>,.%<>\"'\\$/utf8a1 \nx")
    | st.binary().map(lambda data: data.decode("latin-1"))
)
def test_any_text_is_terms_or_an_error(text):
    for parse in (parsed, parse_term):
        with suppress(TermError):
            parse(text)

"""Regular expressions for the texts of messages end in time, whatever the text is."""

import re

import pytest

from leveret.broker.runtime.patterns import OutOfTimeError
from leveret.mgmt.api.text_patterns import compile_text_pattern, expanded_size

SLOW = ("(a+)+$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$")
HUGE = (
    "a{1000000}", "(?:a{1000}){1000}", "(?:(?:(?:a{50}){50}){50}){50}", "(" * 1000 + ")" * 1000,
    "x" * 3000, "(?:[ab]{3,999}){2,999}", "(?:\\d{999}){999}",
)  # fmt: skip
"""Without bounds these take minutes, or all memory; with them, a tenth of a second."""


@pytest.mark.parametrize("expression", SLOW)
def test_what_takes_too_long_is_told(expression):
    with pytest.raises(OutOfTimeError):
        compile_text_pattern(expression).is_found_in("a" * 200_000 + "!")


@pytest.mark.parametrize("expression", [*HUGE, "a(", "[", "*", "(?P<n>a)(?P<n>b)", "\\", "(?R)"])
def test_a_huge_or_invalid_expression_is_refused(expression):
    with pytest.raises(re.error):
        compile_text_pattern(expression)


@pytest.mark.parametrize(
    ("expression", "size"),
    [("", 0), ("abc", 3), ("a{3}", 3), ("(?:ab){10}", 40), ("a{2,5}b", 6), (r"[(]{4}\){2}", 6),
     ("a{", 2), ("a{,3}", 3), ("((a{10}){10}){10}", 1000), ("a)b", 3)],
)  # fmt: skip
def test_the_size_is_that_of_all_repetitions_written_out(expression, size):
    assert expanded_size(expression) == size


@pytest.mark.parametrize(
    ("expression", "near", "exact"),
    [
        ("^(orders){e}$", "secret", "orders{e}"),
        ("^(orders){i}$", "ordersX", "orders{i}"),
        ("^(orders){s<=2}$", "orderXX", "orders{s<=2}"),
        ("^(orders){1<=e<=9}$", "order", "orders{1<=e<=9}"),
        ("^(orders){2i+2d<=4}$", "order", "orders{2i2d<=4}"),
        ("^[{]e}(a){e:[a-z]}$", "{e}b", "{e}a{e:b}"),
        (r"^\{a{e}$", "{b", "{a{e}"),
        ("^a{}$", "a", "a{}"),
    ],
)
def test_a_brace_that_repeats_nothing_means_itself(expression, near, exact):
    pattern = compile_text_pattern(expression)
    assert not pattern.is_found_in(near)
    assert pattern.is_found_in(exact)


@pytest.mark.parametrize(
    ("expression", "found", "missed"),
    [("^a{2}$", "aa", "a"), ("^a{1,2}$", "aa", "aaa"), ("^a{2,}$", "aaa", "a"),
     ("^a{,2}$", "", "aaa"), ("^[a{2}]+$", "{a2}", "b")],
)  # fmt: skip
def test_a_brace_that_repeats_something_does(expression, found, missed):
    pattern = compile_text_pattern(expression)
    assert pattern.is_found_in(found)
    assert not pattern.is_found_in(missed)

"""Regular expressions of users do not block the broker."""

import itertools
import re
import time

import pytest

from leveret.broker import patterns
from leveret.broker.patterns import OutOfTimeError, compile_pattern, expanded_size

SLOW = ("(a+)+$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(?:(?:a?){30})(?:a{30})b")
HUGE = (
    "a{1000000}", "(?:a{1000}){1000}", "(?:(?:(?:a{50}){50}){50}){50}", "(" * 1000 + ")" * 1000,
    "x" * 3000, "(?:[ab]{3,999}){2,999}", "(?:\\d{999}){999}",
)  # fmt: skip
"""Without bounds these take minutes, or all memory; with them, a tenth of a second."""


@pytest.fixture(autouse=True)
def fresh():
    compile_pattern.cache_clear()
    yield
    compile_pattern.cache_clear()


@pytest.mark.parametrize("expression", SLOW)
def test_what_takes_too_long_does_not_match(expression):
    name = "a" * 200 + "!"
    assert not compile_pattern(expression).matches(name)
    with pytest.raises(OutOfTimeError):
        compile_pattern(expression).is_found_in(name)


def test_very_many_names_cost_no_more_than_one():
    pattern = compile_pattern("(a+)+$")
    assert not any(pattern.matches("a" * 100 + f"!{number}") for number in range(10_000))


def test_what_was_slow_is_tried_again_later(monkeypatch):
    pattern = compile_pattern("(a+)+$")
    assert not any(pattern.matches("a" * 200 + "!") for _ in range(5))
    monkeypatch.setattr(patterns, "PAUSED_MATCH_SECONDS", 0)
    assert not pattern.matches("a")
    monkeypatch.setattr(patterns, "monotonic", lambda: time.monotonic() + 5)
    assert pattern.matches("a")


def test_names_that_somebody_makes_up_have_no_others_refused(monkeypatch):
    """Many users and queues share a pattern."""
    # Of processor time, of which five microseconds are too few while others use the caches.
    monkeypatch.setattr(patterns, "PAUSED_MATCH_SECONDS", 0.005)
    pattern = compile_pattern("(a+)+$")
    assert not any(pattern.matches("a" * 200 + "!") for _ in range(5))
    assert pattern.matches("aaa")


USUAL = (".*", "", "^$", "^app\\..*", "^(a|b|orders)$", r"^[a-z]{1,50}\.[a-z]+$", "amq\\.gen", "x?")


@pytest.mark.parametrize("expression", USUAL)
def test_what_cannot_be_slow_matches_on_a_machine_that_stands_still(monkeypatch, expression):
    ticks = itertools.count()
    monkeypatch.setattr(patterns, "MATCH_SECONDS", 0)
    monkeypatch.setattr(patterns, "thread_time", lambda: next(ticks))
    pattern, expected = compile_pattern(expression), re.compile(expression)
    for name in (*("orders", "app.eu", "a", "amq.gen-1", "eu.orders", "") * 5, "x" * 255):
        assert pattern.matches(name) == pattern.is_found_in(name) == bool(expected.search(name))


MAYBE_SLOW = (
    *SLOW, "(a|aa)" * 30 + "[cd]", ".*.*x", "^a*b*c*$", "a*|b*", r"(.)\1", "(?=a*)b*",
)  # fmt: skip


@pytest.mark.parametrize("expression", MAYBE_SLOW)
def test_what_may_be_slow_has_a_timeout(monkeypatch, expression):
    monkeypatch.setattr(patterns, "MATCH_SECONDS", 0)
    pattern = compile_pattern(expression)
    monkeypatch.setattr(patterns, "thread_time", itertools.count().__next__)
    assert not pattern.matches("aaaab")


def test_slow_matches_that_are_far_apart_pause_nothing(monkeypatch):
    pattern, now = compile_pattern("(a|b)*c"), itertools.count(step=2)
    monkeypatch.setattr(patterns, "monotonic", lambda: next(now))
    monkeypatch.setattr(patterns, "thread_time", itertools.count(step=0.005).__next__)
    assert all(pattern.matches("abc") for _ in range(50))


def test_what_is_slow_once_is_tried_at_once():
    pattern = compile_pattern("(a+)+$")
    assert not pattern.matches("a" * 200 + "!")
    assert pattern.matches("a")


@pytest.mark.parametrize("expression", HUGE)
def test_what_would_be_huge_is_refused(expression):
    with pytest.raises(re.error):
        compile_pattern(expression)


@pytest.mark.parametrize("expression", ["a(", "[", "*", "(?P<n>a)(?P<n>b)", "\\", "(?R)", b"[z-a]"])
def test_what_is_no_expression_is_refused(expression):
    with pytest.raises(re.error):
        compile_pattern(expression)


@pytest.mark.parametrize(
    ("expression", "matching", "other"),
    [
        (r"^(?!amq\.).*", "orders", "amq.direct"),
        (r"^(a|b)\1$", "aa", "ab"),
        ("", "anything", None),
        (r"^[a-z]{1,50}\.[a-z]{1,50}\.[a-z]{1,50}$", "eu.orders.new", "eu.orders"),
        (r"\Aq\d+\Z", "q12", "q12\n"),
        ("ö", "schön", "schon"),
    ],
)
def test_expressions_match_anywhere_as_re_does(expression, matching, other):
    pattern = compile_pattern(expression)
    assert pattern.matches(matching)
    assert other is None or not pattern.matches(other)


def test_letters_match_in_either_case_if_that_is_wanted():
    assert compile_pattern("ORDERS", re.IGNORECASE).matches("my-orders")


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
@pytest.mark.parametrize("encode", [str, str.encode], ids=["text", "bytes"])
def test_a_brace_that_repeats_nothing_means_itself(encode, expression, near, exact):
    pattern = compile_pattern(encode(expression))
    assert not pattern.matches(encode(near))
    assert pattern.matches(encode(exact))


@pytest.mark.parametrize(
    ("expression", "found", "missed"),
    [("^a{2}$", "aa", "a"), ("^a{1,2}$", "aa", "aaa"), ("^a{2,}$", "aaa", "a"),
     ("^a{,2}$", "", "aaa"), ("^[a{2}]+$", "{a2}", "b")],
)  # fmt: skip
def test_a_brace_that_repeats_something_does(expression, found, missed):
    pattern = compile_pattern(expression)
    assert pattern.matches(found)
    assert not pattern.matches(missed)

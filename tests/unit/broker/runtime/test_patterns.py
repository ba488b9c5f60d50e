"""Regular expressions of users mean what they mean in RabbitMQ, and do not block the broker."""

import itertools
import json
import re
import time
from pathlib import Path

import pytest

from leveret.broker.runtime import patterns
from leveret.broker.runtime.patterns import OutOfTimeError, compile_pattern
from leveret.broker.runtime.pcre2 import Expression

SLOW = ("(a+)+$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(?:(?:a?){30})(?:a{30})!$(?<!!)")
HUGE = (
    "(?:a{9999}){9999}", "(?:(?:(?:a{50}){50}){50}){50}", "(" * 1000 + ")" * 1000, "x" * 3000,
    "(?:(?:[ab]{3,999}){2,999}){99}", "(?:a|b|c|d){1000}" * 5,
)  # fmt: skip
NAME = "a" * 200 + "!"

ANSWERS = [
    json.loads(line)
    for line in Path(__file__).with_name("pcre_answers.jsonl").read_text("utf-8").splitlines()
]
"""Expression, name and the answer of RabbitMQ 3.10: `re:compile` and `re:run(Name, Expression,
[{capture, none}])` of Erlang 25. A fourth member is the answer of PCRE2 10.47 where that is another
one, as in RabbitMQ 4 with Erlang 28; earlier versions agree with the one or the other."""


@pytest.fixture(autouse=True)
def fresh():
    compile_pattern.cache_clear()
    yield
    compile_pattern.cache_clear()


def answer(expression, name):
    try:
        return "match" if compile_pattern(expression).matches(name) else "nomatch"
    except re.error:
        return "refused"


@pytest.mark.parametrize("recorded", ANSWERS, ids=lambda recorded: ascii(recorded[0]))
def test_an_expression_means_what_it_means_in_rabbitmq(recorded):
    expression, name, *answers = recorded
    assert answer(expression, name) in answers


def test_expressions_that_another_version_of_pcre_takes_otherwise_are_few():
    assert len([recorded for recorded in ANSWERS if len(recorded) == 4]) == 12


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("a(b", "missing ) at position 3"),
        ("a)", "unmatched parentheses at position 1"),
        ("a++*", "nothing to repeat at position 3"),
        (r"é\p{Foo}", "unknown property after \\P or \\p at position 8"),
        (r"\C", "using \\C is disabled by the application at position 2"),
        ("(*WRONG)a", "(*VERB) not recognized or malformed at position 7"),
    ],
)
def test_what_cannot_be_done_is_named(expression, reason):
    with pytest.raises(re.error, match=re.escape(reason)):
        compile_pattern(expression)


@pytest.mark.parametrize("expression", SLOW)
def test_what_takes_too_long_does_not_match(expression):
    assert not compile_pattern(expression).matches(NAME)


@pytest.mark.parametrize("expression", SLOW[:3])
def test_that_it_takes_too_long_can_be_told(expression):
    with pytest.raises(OutOfTimeError):
        compile_pattern(expression).is_found_in(NAME)


def test_an_expression_cannot_give_itself_more_steps():
    with pytest.raises(OutOfTimeError):
        compile_pattern("(*LIMIT_MATCH=1000000000)(a+)+$").is_found_in(NAME)


def test_a_text_that_is_longer_than_any_name_is_not_searched():
    with pytest.raises(OutOfTimeError):
        compile_pattern("a").is_found_in("a" * 8193)


@pytest.fixture
def tries(monkeypatch):
    """The number of each try of a match that was made, and where: None is the whole name."""
    tried = []

    class Noted(Expression):
        def is_found_in(self, text, limits):
            tried.append((patterns._TRIES.index(limits), None))
            return super().is_found_in(text, limits)

        def matches_at(self, start, text, limits):
            tried.append((patterns._TRIES.index(limits), start))
            return super().matches_at(start, text, limits)

    monkeypatch.setattr(patterns, "Expression", Noted)
    return tried


@pytest.fixture
def used(monkeypatch):
    """The processor time that each look at the clock finds used since the last one."""
    seconds = [0.0]
    clock = itertools.accumulate(iter(lambda: seconds[0], None))
    monkeypatch.setattr(patterns, "thread_time", lambda: next(clock))
    return seconds


def test_a_usual_expression_needs_few_steps(tries):
    for expression in (".*", "", r"^app\.", "^(a|b|orders)$", r"^[a-z]{1,50}\.[a-z]+$", "amq|x?"):
        compile_pattern(expression).matches("orders.eu." + "x" * 245)
    assert set(tries) == {(0, None)}


def test_one_that_needs_more_steps_has_them(tries, used):
    name = "x" * 254 + "y"
    assert not compile_pattern("^.*x.*z?$(?<!y)").matches(name)
    assert compile_pattern("^.*?x.*?x.*y$").matches(name)
    assert max(tries)[0] == 4


def test_a_match_ends_when_its_time_is_used_up(tries, used):
    """What a step takes differs by a factor of 1,000: steps alone are no limit."""
    used[0] = patterns.SECONDS_MAX / 10
    name = "a" * 253 + "!b"
    with pytest.raises(OutOfTimeError):
        compile_pattern("(?:a(?=[^!]*+!)|a){0,5}b").is_found_in(name)
    assert tries[0] == (0, None)
    assert len(tries) < 15


def test_what_ends_early_with_few_steps_is_not_tried_with_many(tries, used):
    used[0] = patterns.SECONDS_MAX / 9
    with pytest.raises(OutOfTimeError):
        compile_pattern("(a+)+$").is_found_in(NAME)
    assert tries == [(0, None), (1, 0)]


def test_a_text_that_is_longer_than_a_name_is_searched_from_one_position_after_the_other(
    tries, used
):
    pattern = compile_pattern("[b-d]y$")
    assert pattern.is_found_in("x" * 300 + "cy")
    assert tries == [(0, start) for start in range(301)]
    used[0] = patterns.SECONDS_MAX
    with pytest.raises(OutOfTimeError):
        pattern.is_found_in("x" * 8000 + "cy")
    assert len(tries) < 310


@pytest.mark.parametrize("expression", [r"\G(a+)+$", "(*COMMIT)(a+)+$"])
def test_what_depends_on_where_a_search_begins_is_not_tried_elsewhere(tries, expression):
    with pytest.raises(OutOfTimeError):
        compile_pattern(expression).is_found_in(NAME)
    assert tries == [(0, None)]


def test_very_many_names_do_not_cost_all_steps_each(monkeypatch, tries, used):
    now = itertools.count(step=0.0001)
    monkeypatch.setattr(patterns, "monotonic", lambda: next(now))
    used[0] = 0.006
    pattern = compile_pattern("(a+)+$")
    assert not any(pattern.matches("a" * 100 + f"!{number}") for number in range(1000))
    assert tries.count((1, 0)) == 2


def test_a_paused_expression_still_matches_texts_that_are_quick(used):
    """Many users and queues share a pattern: made-up names cause no refusal of others."""
    used[0] = 1.0
    pattern = compile_pattern("(a+)+$")
    assert not pattern.matches(NAME)
    assert pattern.matches("aaa")


def test_what_was_slow_has_more_tries_again_later(monkeypatch, tries, used):
    used[0] = 1.0
    pattern = compile_pattern("(a+)+$")
    pattern.matches(NAME)
    pattern.matches(NAME)
    assert tries[-1] == (0, None)
    monkeypatch.setattr(patterns, "monotonic", lambda: time.monotonic() + 5)
    pattern.matches(NAME)
    assert tries[-1] == (1, 0)


def test_slow_matches_that_are_far_apart_pause_nothing(monkeypatch, tries, used):
    now = itertools.count(step=2)
    monkeypatch.setattr(patterns, "monotonic", lambda: next(now))
    used[0] = 0.006
    pattern = compile_pattern("(a+)+$")
    for _ in range(50):
        pattern.matches(NAME)
    assert tries.count((1, 0)) == 50


@pytest.mark.parametrize("expression", HUGE)
def test_what_would_be_huge_is_refused(expression):
    with pytest.raises(re.error):
        compile_pattern(expression)


@pytest.mark.parametrize("expression", [r"[\Qa\E" * 250, "[" + r"\Qa\E" * 400, "[[:alpha:]" * 200])
def test_classes_without_an_end_are_read_in_one_way(expression):
    with pytest.raises(re.error, match="missing terminating ]"):
        compile_pattern(expression)


def test_letters_match_in_either_case_if_that_is_wanted():
    assert compile_pattern("ORDERS", is_caseless=True).matches("my-orders")
    assert not compile_pattern("ORDERS").matches("my-orders")


def test_names_need_not_be_utf_8():
    assert compile_pattern("^a.$").matches("a\udcff")
    assert compile_pattern("^a\udcff$").matches("a\udcff")
    assert not compile_pattern("(*UTF)a").matches("a\udcff")

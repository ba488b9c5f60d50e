"""Topic patterns, compared with RabbitMQ for special cases and with a regular expression."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.broker.exchanges.topic_trie import TopicTrie

RECORDED = {
    "*": {"": False, "a": True, "a.b": False, ".": False, "a.": False, ".a": False},
    "#.#": {"": True, "a": True, "a.b": True, ".": True, "a.b.c": True},
    "*.#": {"": False, "a": True, "a.b": True, ".": True, "a.b.c": True, ".a": True},
    "*.*": {"": False, "a": False, "a.b": True, ".": True, "a.": True, ".b": True, "a.b.c": False},
    "a.#.b": {
        "a.b": True, "a..b": True, "a.x.b": True, "a.x.y.b": True, "a.b.b": True,
        "a": False, "ab": False, "a.b.c": False,
    },
    "*.#.*": {"": False, "a": False, "a.b": True, "a.b.c": True, ".": True},
    "": {"": True, "a": False, ".": False},
    ".*": {".a": True, "a": False, "a.b": False, ".": True, "..": False},
    "a*.b#": {"a*.b#": True, "ab.bc": False, "a.b": False},
    "Über.a": {"Über.a": True, "über.a": False, "Über.A": False},
    "k" * 255: {"k" * 255: True, "k" * 254: False},
}  # fmt: skip
"""Pattern, key, and whether they match in RabbitMQ 3.10.8."""


def trie_of(*patterns: str) -> TopicTrie:
    """Return a trie in which each pattern leads to itself."""
    trie = TopicTrie()
    for pattern in patterns:
        trie.add(pattern, pattern)
    return trie


def matched(trie: TopicTrie, key: str) -> list[Any]:
    return [found for found in trie.match(key) if found is not None]


def matches(pattern: str, key: str) -> bool:
    return matched(trie_of(pattern), key) != []


def oracle(pattern: str, key: str) -> bool:
    """Match by a regular expression over words that each end with a dot."""
    forms = {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}
    words = pattern.split(".") if pattern else []
    expression = "".join(forms.get(word, re.escape(word) + r"\.") for word in words)
    return re.fullmatch(expression, f"{key}." if key else "", re.DOTALL) is not None


@pytest.mark.parametrize("pattern", RECORDED)
def test_matches_what_rabbitmq_matched(pattern: str) -> None:
    assert {key: matches(pattern, key) for key in RECORDED[pattern]} == RECORDED[pattern]


def test_the_words_star_and_hash_of_a_key_are_words() -> None:
    trie = trie_of("*.a", "#", "b.*")
    assert set(matched(trie, "*.a")) == {"*.a", "#"}
    assert set(matched(trie, "b.#")) == {"#", "b.*"}


def test_a_destination_comes_once_for_each_pattern_that_matches() -> None:
    trie = TopicTrie()
    for pattern in ("a.b", "a.*", "#", "x"):
        trie.add(pattern, "queue")
    assert matched(trie, "a.b") == ["queue"] * 3


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        (".".join(["#"] * 100 + ["a"]), ".".join(["a"] * 128), 1),
        (".".join(["#"] * 100 + ["a"]), ".".join(["a"] * 127 + ["b"]), 0),
        (".".join(["#", "a"] * 60), ".".join(["a"] * 128), 1),
        (".".join(["*"] * 128), ".".join(["*"] * 128), 1),
        (".".join(["#", "*"] * 60), ".".join(["#"] * 59), 0),
    ],
    ids=["hashes", "hashes, no match", "hashes and words", "stars for stars", "hashes and stars"],
)
def test_no_pattern_makes_the_walk_explode(pattern: str, key: str, expected: int) -> None:
    """These take forever with an algorithm that tries every way to match."""
    assert len(matched(trie_of(pattern), key)) == expected


def test_removal_leaves_the_other_patterns_on_the_same_path() -> None:
    trie = trie_of("a", "a.b", "a.b.c", "a.*", "a.#")
    trie.remove("a.b", "a.b")
    assert set(matched(trie, "a.b")) == {"a.*", "a.#"}
    assert set(matched(trie, "a.b.c")) == {"a.b.c", "a.#"}


def test_removal_prunes_what_nothing_needs() -> None:
    trie = trie_of("a.b.*.#.c", "a.b")
    trie.remove("a.b.*.#.c", "a.b.*.#.c")
    below_a_b = trie._root.words["a"].words["b"]
    assert not below_a_b.words
    assert below_a_b.star is None
    trie.remove("a.b", "a.b")
    assert trie._root.is_bare


def test_the_empty_pattern_can_be_removed() -> None:
    trie = trie_of("", "#")
    trie.remove("", "")
    assert matched(trie, "") == ["#"]


words = st.sampled_from(["a", "b", "", "*", "#", "a*"])
keys = st.lists(words, max_size=6).map(".".join)
bindings = st.lists(keys, max_size=8)


@settings(derandomize=True, database=None, deadline=None, max_examples=400)
@given(patterns=bindings, key=keys)
def test_agrees_with_the_oracle(patterns: list[str], key: str) -> None:
    expected = {pattern for pattern in patterns if oracle(pattern, key)}
    assert set(matched(trie_of(*patterns), key)) == expected


@settings(derandomize=True, database=None, deadline=None, max_examples=200)
@given(kept=bindings, removed=bindings, key=keys)
def test_agrees_with_the_oracle_after_removals(
    kept: list[str], removed: list[str], key: str
) -> None:
    trie = trie_of(*kept, *removed)
    for pattern in removed:
        trie.remove(pattern, pattern)
    assert set(matched(trie, key)) == {pattern for pattern in kept if oracle(pattern, key)}
    for pattern in kept:
        trie.remove(pattern, pattern)
    assert trie._root.is_bare

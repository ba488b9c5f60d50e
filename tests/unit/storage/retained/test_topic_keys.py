"""Filters walk through the keys of topics in their order."""

from itertools import product

import pytest

from leveret.broker.retained.retained_message import matches
from leveret.storage.retained.topic_keys import TopicFilter, key_of, topic_of

LEVELS = ("", "a", "a-b", "b", "$x")
TOPICS = sorted(
    (topic for depth in (1, 2, 3) for topic in map("/".join, product(LEVELS, repeat=depth))),
    key=key_of,
)[1:]
FILTERS = [
    "/".join(levels)
    for depth in (1, 2, 3)
    for levels in product(("", "a", "b", "+"), repeat=depth)
] + ["#", "a/#", "+/#", "a/+/#", "/#", "$x/#", "a/a-b/#", "+/+/b", "b/#"]  # fmt: skip


def walk(topic_filter: str) -> tuple[list[str], int]:
    """The topics that match, and the number of searches for the next key."""
    wanted = TopicFilter(topic_filter)
    found, searches = [], 0
    start: bytes | None = wanted.start
    while start is not None:
        searches += 1
        key = next((key for key in map(key_of, TOPICS) if key >= start), None)
        if key is None:
            break
        matching, following = wanted.next_key(key)
        assert following is None or following > key
        if matching:
            found.append(topic_of(key))
        start = following
    return found, searches


@pytest.mark.parametrize("topic_filter", FILTERS)
def test_a_walk_finds_all_topics_that_match(topic_filter: str) -> None:
    found, _ = walk(topic_filter)
    assert found == [topic for topic in TOPICS if matches(topic_filter, topic)]


def test_a_walk_skips_the_topics_that_cannot_match() -> None:
    assert walk("a/b/a")[1] == 1
    # A few searches in each first level, and none for the other topics in it.
    assert walk("+/a/a")[1] <= 4 * len(LEVELS) < len(TOPICS) / 5


def test_a_key_is_its_topic() -> None:
    assert topic_of(key_of("/a//b")) == "/a//b"

"""Topics and filters of MQTT."""

import pytest

from leveret.broker.retained.retained_message import has_wildcard, matches


@pytest.mark.parametrize(
    ("topic_filter", "topic"),
    [
        ("a/b", "a/b"),
        ("a/+", "a/b"),
        ("a/+", "a/"),
        ("+/+", "/b"),
        ("#", "a/b/c"),
        ("a/#", "a"),
        ("a/#", "a/b/c"),
        ("a/+/#", "a/b"),
        ("$SYS/#", "$SYS/uptime"),
    ],
)
def test_a_filter_matches_a_topic(topic_filter: str, topic: str) -> None:
    assert matches(topic_filter, topic)


@pytest.mark.parametrize(
    ("topic_filter", "topic"),
    [
        ("a/b", "a/c"),
        ("a/b", "a/b/c"),
        ("a/+", "a"),
        ("a/+", "a/b/c"),
        ("+", "/b"),
        ("a/+/#", "a"),
        ("#", "$SYS/uptime"),
        ("+/uptime", "$SYS/uptime"),
        ("A/b", "a/b"),
    ],
)
def test_a_filter_does_not_match_other_topics(topic_filter: str, topic: str) -> None:
    assert not matches(topic_filter, topic)


def test_a_wildcard_is_a_whole_level() -> None:
    assert has_wildcard("a/+/c")
    assert has_wildcard("#")
    assert not has_wildcard("a/b+/c#")

"""The topic exchange. What each pattern matches is in test_topic_trie.py."""

from leveret.broker.amqp.content_header import read_header
from leveret.broker.exchanges.topic import Topic
from tests.routes import matched

HEADER = read_header(b"\0\0")


def test_overlapping_bindings_of_one_destination_keep_each_other() -> None:
    topic = Topic({})
    for pattern in ("#", "a.*", "a.b", "*.b"):
        topic.bind("queue", pattern, {})
    assert set(matched(topic, "a.b", HEADER)) == {"queue"}
    topic.unbind("queue", "#", {})
    topic.unbind("queue", "a.*", {})
    assert set(matched(topic, "a.b", HEADER)) == {"queue"}
    topic.unbind("queue", "a.b", {})
    topic.unbind("queue", "*.b", {})
    assert not matched(topic, "a.b", HEADER)


def test_routes_among_a_thousand_bindings() -> None:
    """With this many bindings, checking each one would be noticeable; see topic_trie.py."""
    topic = Topic({})
    for number in range(1_000):
        topic.bind(f"host {number}", f"region.{number % 10}.host{number}.*", {})
    topic.bind("errors", "#.error", {})
    topic.bind("everything", "#", {})
    found = matched(topic, "region.5.host735.error", HEADER)
    assert sorted(map(str, found)) == ["errors", "everything", "host 735"]
    assert list(matched(topic, "region.5.host736.load", HEADER)) == ["everything"]


def test_only_the_key_decides() -> None:
    assert Topic.routes_by_key
    assert Topic.uses_every_key

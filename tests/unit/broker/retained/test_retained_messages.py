"""The retained messages of a node."""

from leveret.broker.retained.retained_message import RetainedMessage
from leveret.broker.retained.retained_messages import RetainedMessages

WARM, COLD = RetainedMessage(b"warm"), RetainedMessage(b"cold")


def found(retained: RetainedMessages, topic_filter: str, vhost: str = "/") -> dict[str, bytes]:
    """The payloads that a filter finds, by topic."""
    payloads: dict[str, bytes] = {}

    def note(topic: str, message: RetainedMessage) -> None:
        payloads[topic] = message.payload

    for _ in retained.find(vhost, topic_filter, note):
        pass
    return payloads


def test_the_last_message_of_a_topic_is_found() -> None:
    retained = RetainedMessages()
    retained.put("/", "a/b", WARM)
    retained.put("/", "a/b", COLD)
    assert found(retained, "a/b") == {"a/b": b"cold"}
    retained.remove("/", "a/b")
    assert found(retained, "a/b") == {}


def test_wildcards_find_messages_by_setting_only() -> None:
    retained = RetainedMessages()
    retained.put("/", "a/b", WARM)
    assert found(retained, "a/+") == {}
    retained.finds_wildcards = True
    assert found(retained, "a/+") == {"a/b": b"warm"}


def test_a_virtual_host_has_its_own_messages() -> None:
    retained = RetainedMessages()
    retained.put("one", "a", WARM)
    retained.put("two", "a", COLD)
    assert found(retained, "a", "one") == {"a": b"warm"}
    assert retained.counts("two") == (1, 4)
    retained.remove_vhost("one")
    assert found(retained, "a", "one") == {}


def test_an_expired_message_is_not_found() -> None:
    now_s = 100.0
    retained = RetainedMessages(lambda: now_s)
    retained.put("/", "a", WARM._replace(expires_at_ms=101_000))
    assert found(retained, "a")
    now_s = 101.0
    assert not found(retained, "a")

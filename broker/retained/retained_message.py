"""A retained message as a value, and how a topic is compared with a filter."""

from typing import NamedTuple

SINGLE_LEVEL, MULTI_LEVEL = "+", "#"


class RetainedMessage(NamedTuple):
    """The last message that was published with RETAIN to a topic.

    properties: those of MQTT 5.0 that subscribers get, encoded by the protocol; not read here.
    expires_at_ms: milliseconds since 1970; 0 if the message does not expire.
    """

    payload: bytes
    qos: int = 0
    properties: bytes = b""
    expires_at_ms: int = 0


def has_wildcard(topic_filter: str) -> bool:
    """Whether the filter can match more than one topic."""
    return any(level in (SINGLE_LEVEL, MULTI_LEVEL) for level in topic_filter.split("/"))


def matches(topic_filter: str, topic: str) -> bool:
    """Whether the topic matches the filter.

    A wildcard in the first level matches no topic that begins with `$` (MQTT 5.0, 4.7.2).
    """
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in (SINGLE_LEVEL, MULTI_LEVEL):
        return False
    if wanted[-1] == MULTI_LEVEL:
        # `a/#` matches `a`, too.
        wanted.pop()
        levels = levels[: len(wanted)]
    return len(levels) == len(wanted) and all(
        pattern in (SINGLE_LEVEL, level) for pattern, level in zip(wanted, levels, strict=True)
    )

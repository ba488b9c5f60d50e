"""Topics as routing keys, and back (pure).

As in RabbitMQ, a slash is a dot in a routing key, and in a filter a plus is a star. So an AMQP
client that publishes with the key `a.b` reaches subscribers of `a/b`, and a dot in a topic is a
slash for its subscribers. With
`mqtt.sparkplug` the namespaces of Sparkplug, such as `spBv1.0/`, keep their dot: it is `___` in a
routing key.
"""

import re
from typing import Final

from leveret.broker.amqp.field_table import text_of

ROUTING_KEY_BYTES_MAX: Final = 255
"""The longest routing key, in bytes."""
TOPICS_KEPT: Final = 4096
_TO_KEY: Final = bytes.maketrans(b"/", b".")
_FILTER_TO_KEY: Final = bytes.maketrans(b"/+", b".*")
_TO_TOPIC: Final = str.maketrans(".", "/")
_KEY_TO_FILTER: Final = str.maketrans(".*", "/+")
_SPARKPLUG_TOPIC: Final = re.compile(rb"sp[AB]v\d+\.\d+/")
_SPARKPLUG_KEY: Final = re.compile(r"sp[AB]v\d+___\d+\.")


class Topics:
    """Converts topics. keeps_sparkplug: whether the namespaces of Sparkplug keep their dot."""

    __slots__ = ("_encoded", "_keeps_sparkplug")

    def __init__(self, keeps_sparkplug: bool) -> None:
        self._keeps_sparkplug = keeps_sparkplug
        self._encoded: dict[str, bytes] = {}

    def routing_key(self, topic: bytes) -> str:
        """The routing key of a topic."""
        return text_of(self._with_sparkplug(topic).translate(_TO_KEY))

    def binding_key(self, topic_filter: bytes) -> str:
        """The routing key of a binding for a filter."""
        return text_of(self._with_sparkplug(topic_filter).translate(_FILTER_TO_KEY))

    def _with_sparkplug(self, topic: bytes) -> bytes:
        if self._keeps_sparkplug and (found := _SPARKPLUG_TOPIC.match(topic)):
            return topic[: found.end()].replace(b".", b"___", 1) + topic[found.end() :]
        return topic

    def topic(self, routing_key: str) -> str:
        """The topic of a routing key."""
        return self._without_sparkplug(routing_key, routing_key.translate(_TO_TOPIC))

    def topic_filter(self, binding_key: str) -> str:
        """The filter of a binding's routing key."""
        return self._without_sparkplug(binding_key, binding_key.translate(_KEY_TO_FILTER))

    def _without_sparkplug(self, key: str, topic: str) -> str:
        if self._keeps_sparkplug and _SPARKPLUG_KEY.match(key):
            return topic.replace("___", ".", 1)
        return topic

    def encoded(self, routing_key: str) -> bytes:
        """The topic of a routing key with its length before it, as PUBLISH has it."""
        encoded = self._encoded.get(routing_key)
        if encoded is None:
            if len(self._encoded) >= TOPICS_KEPT:
                self._encoded.clear()
            topic = self.topic(routing_key).encode("utf-8", "surrogateescape")
            encoded = self._encoded[routing_key] = len(topic).to_bytes(2, "big") + topic
        return encoded

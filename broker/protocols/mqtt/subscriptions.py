"""The subscriptions of one session: the options of its filters, by their binding keys (pure).

A queue gets one copy of a message, however many filters match. Which of them do is found when the
message is delivered, and only in a session of MQTT 5.0 that has subscription identifiers, or wants
the retain flag as it was published.

The options of a subscription of MQTT 5.0 are an argument of its binding, so that they survive with
the session.
"""

from typing import Final, NamedTuple

from mypy_extensions import mypyc_attr

from leveret.broker.amqp.field_table import Table
from leveret.broker.exchanges.topic_trie import TopicTrie
from leveret.broker.protocols.mqtt.names import BINDING_KEY_ARGUMENT, OPTIONS_ARGUMENT
from leveret.broker.protocols.mqtt.properties import SUBSCRIPTION_IDENTIFIER, encode_variable

NO_LOCAL: Final = 0x04
RETAIN_AS_PUBLISHED: Final = 0x08
RETAIN_HANDLING: Final = 0x30
SEND_IF_NEW: Final = 0x10
DO_NOT_SEND: Final = 0x20
OPTIONS: Final = NO_LOCAL | RETAIN_AS_PUBLISHED
"""The options that are stored with the subscription."""

KEYS_KEPT: Final = 1024


class Subscription(NamedTuple):
    """One filter. qos: 0 or 1. options: those above. identifier: 0 for none."""

    qos: int
    options: int = 0
    identifier: int = 0


class Wanted(NamedTuple):
    """The options of the matching filters together. identifiers: as properties of PUBLISH."""

    keeps_retain: bool
    identifiers: bytes


PLAIN: Final = Wanted(False, b"")


@mypyc_attr(allow_interpreted_subclasses=True)
class Subscriptions:
    """The subscriptions of one session.

    by_key: by binding keys. no_local_count: those that do not want the client's own messages.
    """

    __slots__ = ("_options_count", "_trie", "_wanted", "by_key", "no_local_count")

    def __init__(self) -> None:
        self.by_key: dict[str, Subscription] = {}
        self._options_count = 0
        self.no_local_count = 0
        self._trie: TopicTrie | None = None
        self._wanted: dict[tuple[str, int], Wanted] = {}

    def add(self, key: str, subscription: Subscription) -> None:
        """Add a subscription, or replace the one with this binding key."""
        self.remove(key)
        self.by_key[key] = subscription
        self._count(subscription, 1)

    def remove(self, key: str) -> Subscription | None:
        """Remove a subscription; returns it."""
        removed = self.by_key.pop(key, None)
        if removed is not None:
            self._count(removed, -1)
        return removed

    def _count(self, subscription: Subscription, count: int) -> None:
        if _has_options(subscription):
            self._options_count += count
        if subscription.options & NO_LOCAL:
            self.no_local_count += count
        self._trie = None
        self._wanted.clear()

    def matching(self, routing_key: str, qos: int) -> list[Subscription]:
        """The subscriptions of this QoS that match a routing key."""
        if self._trie is None:
            self._trie = TopicTrie()
            for key in self.by_key:
                self._trie.add(key, key)
        keys = dict.fromkeys([key for key in self._trie.match(routing_key) if key is not None])
        found = [self.by_key[str(key)] for key in keys]
        return [one for one in found if one.qos == qos]

    def wanted(self, routing_key: str, qos: int) -> Wanted:
        """The options of the filters of a queue that match a routing key."""
        if not self._options_count:
            return PLAIN
        wanted = self._wanted.get((routing_key, qos))
        if wanted is None:
            if len(self._wanted) >= KEYS_KEPT:
                self._wanted.clear()
            wanted = self._wanted[routing_key, qos] = self._find(routing_key, qos)
        return wanted

    def _find(self, routing_key: str, qos: int) -> Wanted:
        return wanted_by(self.matching(routing_key, qos))

    def refuses_local(self, routing_key: str, qos: int) -> bool:
        """Whether no matching filter of a queue wants the client's own messages."""
        matching = self.matching(routing_key, qos)
        return bool(matching) and all(one.options & NO_LOCAL != 0 for one in matching)


def wanted_by(matching: list[Subscription]) -> Wanted:
    """The options of filters that match the same message, together."""
    keeps_retain = any(one.options & RETAIN_AS_PUBLISHED != 0 for one in matching)
    start = bytes((SUBSCRIPTION_IDENTIFIER,))
    identifiers = sorted({one.identifier for one in matching if one.identifier})
    return Wanted(keeps_retain, b"".join([start + encode_variable(one) for one in identifiers]))


def _has_options(subscription: Subscription) -> bool:
    """Whether its deliveries differ from those without options."""
    return bool(subscription.identifier or subscription.options & RETAIN_AS_PUBLISHED)


def binding_arguments(key: str, subscription: Subscription) -> Table:
    """The arguments of the binding of an MQTT 5.0 subscription."""
    arguments: Table = {BINDING_KEY_ARGUMENT: ("S", key)}
    options = subscription.identifier << 8 | subscription.options
    if options:
        arguments[OPTIONS_ARGUMENT] = ("l", options)
    return arguments


def read_binding(qos: int, arguments: Table) -> Subscription:
    """The subscription of a binding to the queue of this QoS."""
    letter, value = arguments.get(OPTIONS_ARGUMENT, ("l", 0))
    options = value if letter == "l" and value > 0 else 0
    return Subscription(qos, options & OPTIONS, options >> 8)

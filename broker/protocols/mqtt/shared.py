"""Shared subscriptions: the clients of a group share the messages of a filter (pure).

With `mqtt.shared_subscriptions` a filter `$share/GROUP/FILTER` has a queue of its own, from which
the clients of the group consume. It is deleted with its last consumer or, if a persistent session
has declared it, after the session's expiry interval without a consumer. The session's own queue is
bound with the whole filter, as without the setting: the binding stores the subscription.
"""

from typing import Final, NamedTuple

from leveret.broker.amqp.field_table import text_of

PREFIX: Final = b"$share/"
QUEUE_PREFIX: Final = "mqtt-shared-"
QUEUE_NAME_BYTES_MAX: Final = 255


class SharedFilter(NamedTuple):
    """A filter of a group. queue: the name of the group's queue."""

    group: str
    topic_filter: bytes
    queue: str


class InvalidSharedFilter(Exception):
    """A filter begins with `$share/`, and is no shared filter."""


def read_shared(topic_filter: bytes) -> SharedFilter | None:
    """Parse a shared filter; None if it is another filter. Raises InvalidSharedFilter."""
    if not topic_filter.startswith(PREFIX):
        return None
    group, slash, rest = topic_filter[len(PREFIX) :].partition(b"/")
    queue = f"{QUEUE_PREFIX}{text_of(group)}/{text_of(rest)}"
    is_short = len(QUEUE_PREFIX) + len(group) + 1 + len(rest) <= QUEUE_NAME_BYTES_MAX
    if not (group and slash and rest and is_short) or b"+" in group or b"#" in group:
        raise InvalidSharedFilter(text_of(topic_filter))
    return SharedFilter(text_of(group), rest, queue)

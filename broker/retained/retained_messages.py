"""The retained messages of a node, in memory."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from leveret.broker.retained.retained_message import RetainedMessage, has_wildcard, matches
from leveret.broker.runtime.pending import Answer, given

FIND_WORK = 4
"""The units of work (broker/runtime/turns.py) to compare one topic with a filter."""

Found: TypeAlias = Callable[[str, RetainedMessage], Answer[None] | None]
"""Called with each topic and its message. The search waits for the answer if it returns one."""


class RetainedLimitReached(Exception):
    """A message is not retained, because its virtual host has as many as the settings allow."""


class RetainedMessages:
    """The retained messages of all virtual hosts.

    finds_wildcards: filters with wildcards find messages, too; RabbitMQ answers only exact topics.
    """

    def __init__(
        self, wall_time_s: Callable[[], float] = lambda: 0.0, *, finds_wildcards: bool = False
    ) -> None:
        self.finds_wildcards = finds_wildcards
        self._wall_time_s = wall_time_s
        self._vhosts: dict[str, dict[str, RetainedMessage]] = {}

    @property
    def is_behind(self) -> bool:
        """Whether much waits to be written: publishers that await no answer should wait now."""
        return False

    def put(self, vhost: str, topic: str, message: RetainedMessage) -> Answer[None]:
        """Retain a message in place of the topic's last one.

        The answer is given when it survives a power cut, or refused with RetainedLimitReached.
        `find` finds it at once.
        """
        self._vhosts.setdefault(vhost, {})[topic] = message
        return given(None)

    def remove(self, vhost: str, topic: str) -> Answer[None]:
        """Remove the topic's message, if there is one. The answer is given as for `put`."""
        self._vhosts.get(vhost, {}).pop(topic, None)
        return given(None)

    def find(self, vhost: str, topic_filter: str, found: Found) -> Iterator[int | Answer[None]]:
        """Find the messages whose topics match a filter, in the steps of long_work.py.

        Messages that have expired are left out. The topics come in no promised order; those that
        are put or removed during the search may be found or not.
        """
        messages = self._vhosts.get(vhost, {})
        is_exact = not has_wildcard(topic_filter)
        if not is_exact and not self.finds_wildcards:
            return
        for topic in (topic_filter,) if is_exact else tuple(messages):
            message = messages.get(topic)
            if (
                message is not None
                and not self._is_expired(message)
                and (is_exact or matches(topic_filter, topic))
            ):
                answer = found(topic, message)
                if answer is not None:
                    yield answer
            yield FIND_WORK

    def _is_expired(self, message: RetainedMessage) -> bool:
        return 0 < message.expires_at_ms <= self._wall_time_s() * 1000

    def remove_vhost(self, vhost: str) -> None:
        """A virtual host is deleted."""
        self._vhosts.pop(vhost, None)

    def counts(self, vhost: str) -> tuple[int, int]:
        """The number of messages of a virtual host, and the bytes of their payloads."""
        messages = self._vhosts.get(vhost, {}).values()
        return len(messages), sum(len(message.payload) for message in messages)

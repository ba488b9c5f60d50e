"""Whether a queue wants messages of other brokers, for the federation links that bring them.

A queue wants messages while it is empty and one of its consumers has room. Only consumers of
priority 0 or more count. Links of other brokers consume with priority -1: if they counted, two
brokers that federate each other's queue would pass messages to and fro.

The queue checks whenever this may have changed. It need not check when messages are published or
dropped: while a consumer has room, the queue's next turn gives it the messages. A consumer that
turns out to be full is marked as waiting, so that it reports when it has room again.

Source: RabbitMQ's `rabbit_federation_queue`; there a consumer counts as full only after it could
not be given a message.
"""

from collections.abc import Callable
from typing import Final, Protocol

PRIORITY_MIN: Final = 0
"""The lowest priority of a consumer for which links fetch messages from other brokers."""


class ConsumersWithRoom(Protocol):
    """The consumers of the queue (dispatch.py)."""

    def has_room(self, priority_min: int) -> bool:
        """Whether a consumer of at least this priority has room now."""


class Demand:
    """The demand of one queue.

    is_there: the queue wants messages. A queue that lives on another node does not. listeners:
    called when `is_there` has changed. The queue calls them in the middle of its work, so they must
    act later.
    """

    __slots__ = ("is_there", "listeners")

    def __init__(self) -> None:
        self.is_there = False
        self.listeners: list[Callable[[], object]] = []

    def look(self, ready_count: int, ring: ConsumersWithRoom) -> None:
        """Messages or consumers have come or gone. ready_count: how many messages are ready."""
        is_there = not ready_count and ring.has_room(PRIORITY_MIN)
        if is_there is not self.is_there:
            self._set(is_there)

    def end(self) -> None:
        """The queue no longer lives here."""
        if self.is_there:
            self._set(False)

    def _set(self, is_there: bool) -> None:
        self.is_there = is_there
        for listener in self.listeners:
            listener()

"""Messages that wait for their next delivery, as operators list, send and discard them.

A queue names a waiting message by its position: a number that is unique in the queue. `next` is the
number of milliseconds since 1970 at which the message is delivered again.
"""

from collections.abc import Collection
from typing import NamedTuple

from leveret.storage.messages.message import Message

LISTED_MAX = 1000
"""The most messages that one request lists."""


class WaitingRetry(NamedTuple):
    """A message that waits. returns: how often it was returned. due_ms: of the wall clock."""

    position: int
    returns: int
    due_ms: int
    message: Message


class ChosenRetries(NamedTuple):
    """The messages that a request is for: those at positions, those with an id, or all.

    positions, message_id: None if messages are not chosen by these.
    """

    positions: Collection[int] | None = None
    message_id: str | None = None

    @property
    def are_all(self) -> bool:
        """Whether the request is for every message that waits."""
        return self.positions is None and self.message_id is None

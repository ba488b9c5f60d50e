"""Messages that wait for their next delivery, as operators list, send and discard them.

A queue names a waiting message by its position: a number that is unique in the queue. `next` is the
number of milliseconds since 1970 at which the message is delivered again.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple, Protocol

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.runtime.pending import Answer
from leveret.storage.messages.message import Message

LISTED_MAX = 1000
"""The most messages that one request lists."""


def message_id(message: Message) -> str | None:
    """The message id of a message; None if it has none."""
    header = message.header
    assert isinstance(header, ContentHeader), "messages have content headers"
    found = header.properties.get("message_id")
    return found if isinstance(found, str) else None


class WaitingRetry(NamedTuple):
    """A message that waits. returns: how often it was returned. due_ms: of the wall clock."""

    position: int
    returns: int
    due_ms: int
    message: Message


class ChosenRetries(NamedTuple):
    """The messages that a request is for: those at positions, those with an id, or all.

    positions, message_id: None if messages are not chosen by these. first_ms, last_ms: when the
    messages at positions are due, so that they are found among very many; 0 if this is not known.
    """

    positions: Collection[int] | None = None
    message_id: str | None = None
    first_ms: int = 0
    last_ms: int = 0

    @property
    def are_all(self) -> bool:
        """Whether the request is for every message that waits."""
        return self.positions is None and self.message_id is None


class WaitingRetries(Protocol):
    """The messages of one queue that wait."""

    @property
    def count(self) -> int:
        """How many there are."""

    def first(self, count_max: int, answer: Answer[list[WaitingRetry]]) -> None:
        """Answer with the first ones by their times. Refused if they cannot be read."""

    def end(self, chosen: ChosenRetries, is_discarded: bool, answer: Answer[int]) -> None:
        """Have messages delivered now, or drop them; answer with their number.

        Refused with 406 if a node of an earlier release cannot do this.
        """


class WaitingInGroup(WaitingRetries, Protocol):
    """The messages of a replicated queue that wait, on the node that leads it."""

    @property
    def next_due_ms(self) -> int:
        """When the first one is due, of the wall clock; 0 if there is none."""

    def pages(self, bytes_max: int) -> Iterator[Answer[list[WaitingRetry]]]:
        """Read all of them by their times, a page at a time. Refused if they cannot be read.

        bytes_max: about as many bytes are in a page, or one message. Messages that leave the queue
        meanwhile may be in it, or not.
        """

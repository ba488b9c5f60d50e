"""A publication: messages handed to queues together, and the publisher that gets the confirms.

All queues that the messages are routed to get the same object, so none changes it; a queue that
keeps other properties, or a part, makes a publication of its own. The publisher sets `publisher`
and `first` before the first queue gets the object.
"""

from typing import Final, Protocol

from mypy_extensions import i64

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.properties import ttl_ms_of
from leveret.storage.messages.message import Message
from leveret.storage.messages.message_run import MessageRun, body_bytes_of

OWN_TTL: Final = -2
"""Each message of a publication has its own time to live."""


class Publisher(Protocol):
    """A channel that publishes with confirms or in a transaction, as its queues see it.

    A run is identified by the number of its first message. A `holder` of a run is the log, a queue
    on another node, or a mirror. A holder confirms or refuses what it holds, or dies.
    """

    def hold(self, first: int, count: int, holder: object) -> None:
        """The holder will confirm this run later. It holds a run at most once."""

    def confirm(self, first: int, holder: object) -> None:
        """The holder has stored the run safely."""

    def refuse(self, number: int) -> None:
        """A queue refuses the message with this number."""

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The holder is gone, and confirms nothing after this.

        is_settled: its runs count as confirmed (for example, its queue was deleted), not refused.
        """


class Publication(MessageRun):
    """Messages that are published to queues at once.

    ttl_ms: the messages' own time to live, in milliseconds; OWN_TTL if these differ, which a queue
    takes only with `publish_each`. publisher: receives the confirms; `first` is its number of the
    first message, and the others are numbered consecutively.
    """

    __slots__ = ("first", "publisher", "ttl_ms")

    def __init__(
        self,
        messages: list[Message],
        body_bytes: int,
        ttl_ms: int | None = None,
        publisher: Publisher | None = None,
        first: int = 0,
        sender: int = 0,
        number: int = 0,
    ) -> None:
        super().__init__(messages, body_bytes, sender, number)
        self.ttl_ms = ttl_ms
        self.publisher = publisher
        self.first = first

    def of(self, messages: list[Message]) -> "Publication":
        """The same publication with other message objects, whose bodies are the same."""
        return Publication(messages, self.body_bytes, self.ttl_ms, self.publisher, self.first)

    def by(self, publisher: Publisher) -> "Publication":
        """The same publication by another publisher, which has given the messages equal numbers."""
        return Publication(self.messages, self.body_bytes, self.ttl_ms, publisher, self.first)

    def sent(self, sender: int, number: int) -> "Publication":
        """The same publication as a node sends it to all members of a queue.

        It has no publisher: the sending node knows that one.
        """
        return Publication(self.messages, self.body_bytes, self.ttl_ms, None, 0, sender, number)

    def numbered(self, start: int, end: int) -> "Publication":
        """The messages to which the sender gave numbers from `start` up to, not including, `end`;
        this publication itself if those are all of its messages.
        """
        first = self.number
        if start <= first and end >= self.end:
            return self
        return self._part(max(0, start - first), end - first, self.ttl_ms)

    def split(self, count: int) -> tuple["Publication", "Publication"]:
        """Two publications: the first messages, up to this count, and the remaining ones."""
        return self._part(0, count, self.ttl_ms), self._part(count, len(self.messages), self.ttl_ms)

    def has_one_time_to_live(self) -> bool:
        """Whether the messages, all of which expire, have the same time to live. It becomes that of
        the publication, or OWN_TTL does.
        """
        first_ms = _ttl_ms(self.messages[0])
        for message in self.messages:
            if _ttl_ms(message) != first_ms:
                self.ttl_ms = OWN_TTL
                return False
        self.ttl_ms = first_ms
        return True

    def expiry_times(self, now_ms: i64, ttl_ms_max: i64) -> list[int]:
        """When the messages expire, all of which do, if they are published now. ttl_ms_max: the
        longest time to live, in milliseconds.
        """
        times: list[int] = []
        for message in self.messages:
            ttl_ms = _ttl_ms(message)
            times.append(now_ms + (ttl_ms if ttl_ms < ttl_ms_max else ttl_ms_max))
        return times

    def by_time_to_live(self) -> list["Publication"]:
        """The messages, all of which expire, in parts: runs with the same time to live."""
        parts: list[Publication] = []
        start = place = 0
        ttl_ms: i64 = 0
        for message in self.messages:
            own_ms = _ttl_ms(message)
            if own_ms != ttl_ms and place:
                parts.append(self._part(start, place, ttl_ms))
                start = place
            ttl_ms = own_ms
            place += 1
        parts.append(self._part(start, place, ttl_ms))
        return parts

    def _part(self, start: int, end: int, ttl_ms: int | None) -> "Publication":
        messages = self.messages[start:end]
        return Publication(
            messages, body_bytes_of(messages), ttl_ms, self.publisher, self.first + start,
            self.sender, self.number + start,
        )  # fmt: skip


def first_of(times: list[int]) -> i64:
    """The lowest of these times."""
    # A loop: for `min` compiled code calls the interpreter.
    first: i64 = times[0]
    for one in times:
        time: i64 = one
        first = min(first, time)
    return first


def _ttl_ms(message: Message) -> i64:
    """The time to live of a message that expires."""
    header = message.header
    assert isinstance(header, ContentHeader), "messages have content headers"
    return ttl_ms_of(header.kind)


def publication_of(
    messages: list[Message],
    ttl_ms: int | None = None,
    publisher: Publisher | None = None,
    first: int = 0,
) -> Publication:
    """The publication of these messages."""
    return Publication(messages, body_bytes_of(messages), ttl_ms, publisher, first)

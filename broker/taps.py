"""What a traced vhost tells of its messages, and of whom it may ask how they are numbered.

Channels, queues and vhosts tell what happens where it happens: at a *tap*. A vhost to which nobody
listens has no tracer (`VirtualHost.tracer` is None), so a tap costs it one test, and that for a run
of messages where the code goes by runs. What a tracer is told it passes on to its sinks
(tracing/tracer.py): the firehose, trace files.

A tap is called in the middle of what happens. A sink takes what it is given and returns; what takes
time it does later, elsewhere. Messages, entries and queues are the broker's own: a sink reads them
at once and keeps of them only what nobody changes (messages, names).
"""

from collections.abc import Sequence
from typing import Protocol

from broker.auth.identity import Identity
from storage.message import Entry, Message

TRACE_EXCHANGE = "amq.rabbitmq.trace"
"""Where the firehose publishes. What was published to it is never traced."""

MAXLEN, PURGE, QUEUE_DELETED = "maxlen", "purge", "queue_deleted"
"""Why messages are dropped."""


class TracedConnection(Protocol):
    """A connection in a vhost. name: such as `127.0.0.1:4711 -> 127.0.0.1:5672`."""

    @property
    def name(self) -> str:
        """What operators know it by."""

    @property
    def user(self) -> Identity:
        """Who is logged in."""


class TracedChannel(Protocol):
    """A channel. number: the one that the client gave it."""

    number: int

    @property
    def connection(self) -> TracedConnection:
        """What it is on."""


class TracedQueue(Protocol):
    """A queue."""

    name: str


class Delivery(Protocol):
    """A message that a client was given and has to settle."""

    entry: Entry

    @property
    def queue(self) -> TracedQueue:
        """Where it is from."""


Settled = Sequence[tuple[int, Delivery]]
"""Deliveries with their delivery tags."""


class Sink:
    """Takes what happens in a traced vhost. A sink overrides what it wants to know of.

    What it does not override is not called. Where `messages` come in one call, they were published
    one after the other and have the same address and header. A message's number is 0 if it was
    published while nobody listened.
    """

    @property
    def is_listening(self) -> bool:
        """Something may come of what it is told.

        Asked when a sink is attached or detached, the firehose is switched, or bindings change.
        """
        return True

    def published(
        self,
        channel: TracedChannel | None,
        messages: Sequence[Message],
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
    ) -> None:
        """Messages were published, and go to these queues, which do not have them yet.

        channel: None if no client did it: a message that goes on when its delay is over, say.
        routing_keys: the address's, and those of CC and BCC.
        """

    def delivered(
        self,
        channel: TracedChannel,
        queue: TracedQueue,
        consumer_tag: str | None,
        entries: Sequence[Entry],
        first_tag: int,
        no_ack: bool,
    ) -> None:
        """A client was given messages, with delivery tags that count up from `first_tag`.

        consumer_tag: None if it took them with basic.get.
        """

    def acked(self, channel: TracedChannel, settled: Settled) -> None:
        """A client acknowledged deliveries."""

    def rejected(self, channel: TracedChannel, settled: Settled, requeue: bool) -> None:
        """A client refused deliveries: they go back to their queues, or are dead-lettered."""

    def requeued(self, settled: Settled) -> None:
        """Deliveries go back to their queues: their channel ended, or recovers."""

    def expired(self, queue: TracedQueue, message: Message) -> None:
        """A message's time was over. `dead_lettered` follows if it went on."""

    def dropped(self, queue: TracedQueue, message: Message, reason: str) -> None:
        """A message is gone, and `dead_lettered` may follow.

        reason: MAXLEN, if a full queue dropped it or did not take it; QUEUE_DELETED, if it comes
        back to a queue that is no more.
        """

    def emptied(self, queue: TracedQueue, reason: str, count: int) -> None:
        """Ready messages went all at once. reason: PURGE or QUEUE_DELETED."""

    def dead_lettered(
        self,
        queue: TracedQueue,
        message: Message,
        reason: str,
        letter: Message,
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
    ) -> None:
        """A message that died in a queue goes on, as another message, the letter.

        queues: where the letter goes; it is not published otherwise.
        """

    def returned(
        self, channel: TracedChannel, messages: Sequence[Message], code: int, text: str
    ) -> None:
        """Mandatory messages go back to their publisher, with this reply code and text."""

    def connection_opened(self, connection: TracedConnection) -> None:
        """A client opened the vhost."""

    def connection_closed(self, connection: TracedConnection) -> None:
        """A client that had opened the vhost is gone."""

    def detached(self) -> None:
        """The sink is told no more: somebody said so, it failed, its vhost or the node ends."""


class Taps(Sink):
    """What those who tell are given: where they tell it, and numbers for their messages."""

    def take_numbers(self, count: int) -> int:
        """The first of so many numbers that follow each other, and that no message has."""
        raise NotImplementedError

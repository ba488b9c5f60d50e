"""Taps: the points at which a traced virtual host reports the events of its messages.

Channels, queues and virtual hosts call the tracer at these points. A vhost without sinks has no
tracer (`VirtualHost.tracer` is None), so a tap costs one test, once for a run of messages where the
code works in runs. A tracer passes each report on to its sinks (tracing/tracer.py): the
firehose, trace files.

A tap is called during the operation. A sink must take the data it needs and return, and do slow
work later. Messages, entries and queues belong to the broker: a sink reads them at once, and keeps
only objects that never change (messages, names).
"""

from collections.abc import Sequence
from typing import Protocol

from mypy_extensions import mypyc_attr

from leveret.broker.events.stream_events import StreamEvent
from leveret.broker.events.traced import TracedChannel, TracedConnection, TracedQueue
from leveret.storage.messages.message import Entry, Message

TRACE_EXCHANGE = "amq.rabbitmq.trace"
"""The exchange of the firehose. Messages published to it are never traced."""

MAXLEN, PURGE, QUEUE_DELETED = "maxlen", "purge", "queue_deleted"
DISCARDED, DUPLICATE = "discarded", "duplicate"
"""The reasons for which messages are dropped."""


class UnsettledDelivery(Protocol):
    """A message that was delivered to a client and needs to be settled."""

    entry: Entry

    @property
    def queue(self) -> TracedQueue:
        """The queue that it was delivered from."""


Settled = Sequence[tuple[int, UnsettledDelivery]]
"""Deliveries with their delivery tags."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Sink:
    """Receives the reports of a traced vhost. A sink overrides the methods that it needs.

    Methods that it does not override are not called. `messages` of one call were published one
    after the other and have the same address and header. A message's number is 0 if it was
    published while there was no sink.
    """

    @property
    def is_listening(self) -> bool:
        """Whether the sink may use reports.

        Read when a sink is attached or detached, the firehose is switched, or bindings change.
        """
        return True

    def published(
        self,
        channel: TracedChannel | None,
        messages: Sequence[Message],
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
        reason: str = "",
    ) -> None:
        """Messages were published, and are about to be put into these queues.

        channel: None if no client published them, as when a delayed message's delay is over.
        routing_keys: the address's, and those of CC and BCC. reason: DUPLICATE if an exchange on
        the route has refused the message, as it knows its identifier; otherwise empty.
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
        """Messages were delivered to a client, with delivery tags that count up from `first_tag`.

        consumer_tag: None for basic.get.
        """

    def acked(self, channel: TracedChannel, settled: Settled) -> None:
        """A client acknowledged deliveries."""

    def rejected(self, channel: TracedChannel, settled: Settled, requeue: bool) -> None:
        """A client rejected deliveries: they are requeued or dead-lettered."""

    def requeued(self, settled: Settled) -> None:
        """Deliveries are requeued, because their channel ended or by basic.recover."""

    def expired(self, queue: TracedQueue, message: Message) -> None:
        """A message expired. `dead_lettered` follows if its queue has a dead-letter exchange."""

    def delayed(self, queue: TracedQueue, message: Message, until_ms: int) -> None:
        """A returned message waits for its retry. until_ms: of the wall clock."""

    def dropped(self, queue: TracedQueue, message: Message, reason: str) -> None:
        """A message was dropped, and `dead_lettered` may follow.

        reason: MAXLEN if a full queue dropped or refused it; QUEUE_DELETED if it was requeued to a
        queue that has been deleted; DISCARDED if an operator dropped it while it waited for its
        retry; DUPLICATE if the queue had a message with its identifier.
        """

    def emptied(self, queue: TracedQueue, reason: str, count: int) -> None:
        """All ready messages of a queue were dropped. reason: PURGE or QUEUE_DELETED."""

    def dead_lettered(
        self,
        queue: TracedQueue,
        message: Message,
        reason: str,
        letter: Message,
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
    ) -> None:
        """A message that died in a queue is published again, as another message, the letter.

        queues: where the letter goes. `published` is not called for it.
        """

    def returned(
        self,
        channel: TracedChannel,
        messages: Sequence[Message],
        code: int,
        text: str,
        reason: str = "",
    ) -> None:
        """Mandatory messages are returned to their publisher, with this reply code and text.

        reason: as in `published`.
        """

    def connection_opened(self, connection: TracedConnection) -> None:
        """A client opened the vhost."""

    def connection_closed(self, connection: TracedConnection) -> None:
        """A connection that had opened the vhost has ended."""

    def stream_changed(self, event: StreamEvent) -> None:
        """Something happened in a stream (stream_events.py)."""

    def detached(self) -> None:
        """No more reports follow: the sink was removed or raised, or its vhost or node ended."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Taps(Sink):
    """A tracer, as its reporters see it: a sink, and the source of message numbers."""

    @property
    def hears_acks(self) -> bool:
        """Whether `acked` has any effect; otherwise acks need not be reported."""
        return True

    def take_numbers(self, count: int) -> int:
        """The first of `count` consecutive numbers that no message has."""
        raise NotImplementedError

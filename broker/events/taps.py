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
from typing import NamedTuple, Protocol

from mypy_extensions import mypyc_attr

from leveret.broker.events.subjects import Named
from leveret.storage.messages.message import Entry, Message

TRACE_EXCHANGE = "amq.rabbitmq.trace"
"""The exchange of the firehose. Messages published to it are never traced."""

MAXLEN, PURGE, QUEUE_DELETED = "maxlen", "purge", "queue_deleted"
"""The reasons for which messages are dropped."""


class TracedConnection(Protocol):
    """A connection in a vhost. name: such as `127.0.0.1:4711 -> 127.0.0.1:5672`."""

    @property
    def name(self) -> str:
        """Its name for operators."""

    @property
    def user(self) -> Named:
        """The user that is logged in."""


class TracedChannel(Protocol):
    """A channel. number: given by the client."""

    number: int

    @property
    def connection(self) -> TracedConnection:
        """The connection that it belongs to."""


class TracedKind(Protocol):
    """The kind of a queue. removes_messages: an ack removes a message; False for streams."""

    @property
    def removes_messages(self) -> bool:
        """Whether its messages leave it."""


class TracedQueue(Protocol):
    """A queue, or a stream."""

    name: str

    @property
    def kind(self) -> TracedKind:
        """Its kind."""


class StreamChunk(NamedTuple):
    """Messages of a stream that follow each other.

    offset: of the first one. messages: how many. size: bytes of their entries. time_ms: when their
    leader got them.
    """

    offset: int
    messages: int
    size: int
    time_ms: int


class StreamLimits(NamedTuple):
    """What a stream keeps. first_offset: of the oldest message. Limits: None if there is none."""

    first_offset: int
    age_max_ms: int | None
    bytes_max: int | None
    segment_bytes: int


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
    ) -> None:
        """Messages were published, and are about to be put into these queues.

        channel: None if no client published them, as when a delayed message's delay is over.
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

    def dropped(self, queue: TracedQueue, message: Message, reason: str) -> None:
        """A message was dropped, and `dead_lettered` may follow.

        reason: MAXLEN if a full queue dropped or refused it; QUEUE_DELETED if it was requeued to a
        queue that has been deleted.
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
        self, channel: TracedChannel, messages: Sequence[Message], code: int, text: str
    ) -> None:
        """Mandatory messages are returned to their publisher, with this reply code and text."""

    def connection_opened(self, connection: TracedConnection) -> None:
        """A client opened the vhost."""

    def connection_closed(self, connection: TracedConnection) -> None:
        """A connection that had opened the vhost has ended."""

    # Streams. Their messages stay, so reports are about chunks, not about single messages.

    def stream_published(
        self, channel: TracedChannel, stream: TracedQueue, publisher: str, count: int, size: int
    ) -> None:
        """A client of the stream protocol published messages with entries of this size.

        publisher: its name; empty if it has none.
        """

    def messages_placed(self, stream: TracedQueue, numbers: Sequence[int], offset: int) -> None:
        """Messages that AMQP 0-9-1 published are in the stream, the first one at this offset.

        Reported on the node of their client. numbers: of the messages.
        """

    def chunk_committed(
        self, stream: TracedQueue, chunk: StreamChunk, limits: StreamLimits
    ) -> None:
        """A chunk is on the disks of a majority. Reported on the node of the leader."""

    def chunk_read(
        self,
        channel: TracedChannel,
        stream: TracedQueue,
        consumer_tag: str,
        chunk: StreamChunk,
        lag: int,
        is_filtered: bool,
    ) -> None:
        """Messages of a chunk were sent to a consumer of either protocol.

        lag: how many messages are behind them. is_filtered: the consumer does not get all chunks.
        """

    def reading_ended(self, channel: TracedChannel, stream: TracedQueue, consumer_tag: str) -> None:
        """A consumer of a stream was cancelled, or its connection has ended."""

    def offset_stored(
        self, channel: TracedChannel, stream: TracedQueue, name: str, offset: int
    ) -> None:
        """A client stores the offset of a consumer under a name."""

    def retention_moved(self, stream: TracedQueue, limits: StreamLimits) -> None:
        """Retention has removed the first messages. Reported on the node of the leader."""

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

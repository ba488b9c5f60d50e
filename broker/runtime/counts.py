"""Counts of messages for statistics: plain integers on the objects that they describe.

The message path only updates these sums, once per run or batch. Acks are not counted: a delivery
that is neither unsettled nor given back was acked.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

NAMES = (
    "published", "routed", "confirmed", "returned", "dropped", "delivered", "delivered_no_ack",
    "got", "got_no_ack", "got_empty", "redelivered", "acked",
)  # fmt: skip
GIVEN = (
    "delivered", "delivered_no_ack", "got", "got_no_ack", "got_empty", "redelivered", "acked",
)  # fmt: skip
"""The counts of messages given to clients."""
NOTHING_GIVEN = (0,) * len(GIVEN)


class MessageCounts:
    """The messages of one channel, or of several channels together.

    published: by clients. routed: copies of them that queues got. returned, dropped: unroutable,
    mandatory or not. delivered, got: with acks; with `_no_ack`: without. given_back: deliveries
    that were requeued or rejected. refused: messages that a queue refused.
    """

    __slots__ = (*NAMES, "given_back", "refused")

    def __init__(self) -> None:
        self.published = self.routed = self.confirmed = self.returned = self.dropped = 0
        self.delivered = self.delivered_no_ack = self.got = self.got_no_ack = self.got_empty = 0
        self.redelivered = self.acked = self.given_back = self.refused = 0

    def add(self, other: "MessageCounts") -> None:
        """Add the counts of another object."""
        for name in NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def copy(self) -> "MessageCounts":
        """Return a copy of the present counts."""
        made = MessageCounts()
        made.add(self)
        return made

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return ((name, getattr(self, name)) for name in NAMES)


class StreamProtocolCounts:
    """What clients of the stream protocol have done on this node, also those that have ended.

    published: messages, or batches of them, as clients count them; routed: those that a stream was
    given. delivered: messages. publishers, consumers: how many there are now.
    """

    __slots__ = ("confirmed", "consumers", "delivered", "published", "publishers", "routed")

    def __init__(self) -> None:
        self.published = self.routed = self.confirmed = self.delivered = 0
        self.publishers = self.consumers = 0


AMQP091: Final = "amqp091"
"""The protocol of channels; sessions of STOMP count as such, too."""
AMQP10: Final = "amqp10"
"""The protocol of AMQP 1.0, which metrics and the counts of logins name so."""


class ProtocolCounts:
    """The messages of the closed sessions of one protocol. with_confirms: as of `NodeCounts`."""

    def __init__(self) -> None:
        self.messages = MessageCounts()
        self.with_confirms = 0


class NodeCounts:
    """Counts of the node since it started.

    closed_channels: the messages of closed channels. published_with_confirms: those published on
    closed channels in confirm mode. bytes_in, bytes_out, reads, writes: of closed connections.
    dead_lettered, discarded: messages that died, by the kind of their queue and the reason, with
    and without a dead-letter exchange. kept: dead letters that their queue keeps until they are
    confirmed (at-least-once); kept_confirmed: the confirmed ones. given_by_quorum_queues,
    given_by_streams: to clients of this node; channels count these deliveries, too.
    given_in_amqp10: those to clients of AMQP 1.0, by the module of the queue's kind.
    consumer_timeout_warnings, consumer_timeouts: consumers that held a delivery for most of their
    timeout, and for longer.
    by_protocol: those of closed channels that are sessions of a protocol beside AMQP 0-9-1.
    stream_protocol: its publishers and consumers. stream_errors: what its clients were refused
    with, by the code's name.
    """

    def __init__(self) -> None:
        self.closed_channels = MessageCounts()
        self.published_with_confirms = 0
        self.connections_opened = self.connections_closed = 0
        self.channels_opened = self.channels_closed = 0
        self.consumer_timeout_warnings = self.consumer_timeouts = 0
        self.queues_declared = self.queues_created = self.queues_deleted = 0
        self.bytes_in = self.bytes_out = self.reads = self.writes = 0
        self.dead_lettered: Counter[tuple[str, str]] = Counter()
        self.discarded: Counter[tuple[str, str]] = Counter()
        self.kept: Counter[tuple[str, str]] = Counter()
        self.kept_confirmed: Counter[str] = Counter()
        self.given_by_quorum_queues = MessageCounts()
        self.given_by_streams = MessageCounts()
        self.given_in_amqp10: defaultdict[str, MessageCounts] = defaultdict(MessageCounts)
        self.by_protocol: dict[str, ProtocolCounts] = {}
        self.stream_protocol = StreamProtocolCounts()
        self.stream_errors: Counter[str] = Counter()

    def add_connection(self, bytes_in: int, bytes_out: int, reads: int, writes: int) -> None:
        """Keep the counts of a closed connection, so that the node's totals do not shrink."""
        self.connections_closed += 1
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out
        self.reads += reads
        self.writes += writes

"""The events of streams in a traced virtual host.

The messages of a stream stay, so events are about chunks, not about single messages.
"""

from collections.abc import Sequence
from typing import NamedTuple

from leveret.broker.events.traced import TracedChannel, TracedQueue


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
    """The limits of a stream, and the offset of its oldest message. None: without a limit."""

    first_offset: int
    age_max_ms: int | None
    bytes_max: int | None
    segment_bytes: int


class StreamPublished(NamedTuple):
    """A client of the stream protocol published messages with entries of this size.

    publisher: its name; empty if it has none. messages: how many.
    """

    channel: TracedChannel
    stream: TracedQueue
    publisher: str
    messages: int
    size: int


class MessagesPlaced(NamedTuple):
    """Messages that AMQP 0-9-1 published are in the stream, the first one at this offset.

    Reported on the node of their client. numbers: of the messages.
    """

    stream: TracedQueue
    numbers: Sequence[int]
    offset: int


class ChunkCommitted(NamedTuple):
    """A chunk is on the disks of a majority. Reported on the node of the leader."""

    stream: TracedQueue
    chunk: StreamChunk
    limits: StreamLimits


class ChunkRead(NamedTuple):
    """Messages of a chunk were sent to a consumer of either protocol.

    lag: how many messages are behind them. is_filtered: the consumer does not get all chunks.
    """

    channel: TracedChannel
    stream: TracedQueue
    consumer_tag: str
    chunk: StreamChunk
    lag: int
    is_filtered: bool


class ReadingEnded(NamedTuple):
    """A consumer of a stream was cancelled, or its connection has ended."""

    channel: TracedChannel
    stream: TracedQueue
    consumer_tag: str


class OffsetStored(NamedTuple):
    """A client stores the offset of a consumer under a name."""

    channel: TracedChannel
    stream: TracedQueue
    name: str
    offset: int


class RetentionMoved(NamedTuple):
    """Retention has removed the first messages. Reported on the node of the leader."""

    stream: TracedQueue
    limits: StreamLimits


StreamEvent = (
    StreamPublished
    | MessagesPlaced
    | ChunkCommitted
    | ChunkRead
    | ReadingEnded
    | OffsetStored
    | RetentionMoved
)

"""A consumer of AMQP 0-9-1 of a stream: reads chunks, and is given messages while it has room.

Acknowledgements give room only. A chunk of which a consumer has taken a part stays in memory until
it has room for the rest; it begins another one only then.
"""

import logging
import struct
from typing import Final, Protocol

from msgspec import structs

from leveret.broker.amqp.errors import Fault
from leveret.broker.queues.contract.queue_client import Consumer
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.status import UP, ConsumerFigures
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Turns
from leveret.cluster.replicated_queues.client.timed_request import TimedRequest
from leveret.cluster.streams.client.chunk_reader import ChunkReader
from leveret.cluster.streams.client.entry_reading import ChunkEntries, StoredMessageReader
from leveret.cluster.streams.client.stream_readers import StreamReaders
from leveret.storage.messages.message import Entry

MESSAGES_AT_ONCE: Final = 512
"""The limit of messages that are given to a consumer at a time."""
MESSAGE_WORK: Final = 8
"""The work of a message that is converted and delivered (broker/runtime/turns.py)."""
DECODED_WORK: Final = 200
"""The additional work of a message that has to be decoded."""

logger = logging.getLogger("leveret.cluster")


class ConsumedStream(Protocol):
    """The stream that is consumed. owner: its vhost. entry_reader: decodes its messages."""

    owner: QueueOwner
    readers: StreamReaders
    entry_reader: StoredMessageReader

    def delivered(self, count: int) -> None:
        """Messages were given to a consumer."""

    def hand_over_later(self, consumer: "StreamConsumer") -> None:
        """Call `hand_over` in the next turn."""

    def consumer_failed(self, consumer: "StreamConsumer", error: Exception) -> None:
        """A consumer cannot go on: its stream cannot be read."""


class StreamConsumer:
    """A consumer on this node. request: answered when it has subscribed."""

    __slots__ = ("_chunk", "_first", "_has_ended", "_reader", "_request", "_stream", "consumer")

    def __init__(self, stream: ConsumedStream, consumer: Consumer, request: TimedRequest) -> None:
        self.consumer = consumer
        self._stream = stream
        self._request = request
        self._reader: ChunkReader | None = None
        self._chunk: ChunkEntries | None = None
        self._first = 0
        self._has_ended = False

    def __repr__(self) -> str:
        return f"<StreamConsumer {self.consumer!r}>"

    def subscribe(self) -> None:
        """Find where it begins."""
        found: Answer[int] = Answer()
        self._stream.readers.resolve(self.consumer.start, found)
        found.when_given(lambda: self._found(found))

    def _found(self, found: Answer[int]) -> None:
        if self._has_ended:
            return
        try:
            self._first = found.result()
        except Fault as error:
            self._has_ended = True
            self._request.refuse(error)
            return
        self._reader = self._stream.readers.open(self._first, self.consumer.wanted, self)
        self._request.give(None)
        self._stream.hand_over_later(self)

    def ready(self) -> None:
        """There are chunks to read."""
        self._stream.hand_over_later(self)

    def failed(self, error: Exception) -> None:
        """The stream cannot be read, or has ended."""
        if not self._has_ended:
            self._stream.consumer_failed(self, error)

    def hand_over(self, turns: Turns) -> None:
        """Give it messages while it has room, and while there is work left in this turn."""
        consumer, reader = self.consumer, self._reader
        while reader is not None and not self._has_ended:
            room = consumer.room()
            consumer.is_waiting = room <= 0
            if consumer.is_waiting:
                return
            chunk = self._chunk
            if chunk is None or chunk.is_empty:
                chunks = reader.take_stored(1)
                if not chunks:
                    if not reader.lag:
                        consumer.caught_up()
                    return
                chunk = self._chunk = ChunkEntries(
                    self._stream.entry_reader, chunks[0], self._first, consumer.message_filter,
                    consumer.wants_entries,
                )  # fmt: skip
            count = min(room, MESSAGES_AT_ONCE)
            decoded = self._stream.entry_reader.decoded
            self._give(chunk, count)
            decoded = self._stream.entry_reader.decoded - decoded
            turns.work_left -= MESSAGE_WORK * count + DECODED_WORK * decoded
            if turns.work_left <= 0:
                self._stream.hand_over_later(self)
                return

    def _give(self, chunk: ChunkEntries, count: int) -> None:
        try:
            entries = chunk.take(count)
        except (ValueError, IndexError, struct.error) as error:
            logger.error("messages of a stream from offset %d on: %s", chunk.next_offset, error)
            self._chunk = None
            return
        if entries:
            self._stream.delivered(len(entries))
            self.consumer.deliver(entries)
            if self._stream.owner.tracer is not None:
                self._trace(chunk, entries)

    def _trace(self, chunk: ChunkEntries, entries: list[Entry]) -> None:
        """Report messages that were given. The position of an entry is its offset."""
        first, end = entries[0].position, chunk.next_offset
        size = sum([len(entry.message.body) for entry in entries])
        lag = max(0, self._stream.readers.end_offset - end)
        self.consumer.trace_chunk(first, end - first, size, chunk.time_ms, lag)

    def end(self, error: Exception | None = None) -> None:
        """It gets no more messages. error: for a client that waits for its subscription."""
        self._has_ended = True
        self.consumer.is_waiting = False
        self._chunk = None
        # The reader refers to its user: without the cycle both are freed at once.
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
            if self._stream.owner.tracer is not None:
                self.consumer.trace_end()
        elif error is not None:
            self._request.refuse(error)

    @property
    def next_offset(self) -> int:
        """The offset of the next message that it gets."""
        if self._chunk is not None and not self._chunk.is_empty:
            return max(self._first, self._chunk.next_offset)
        return self._first if self._reader is None else self._reader.next_offset

    def figures(self, wall_ms: int) -> ConsumerFigures:
        """Its figures. wall_ms: the wall-clock time."""
        figures: ConsumerFigures = self.consumer.figures(UP)
        offset = self.next_offset
        lag = max(0, self._stream.readers.end_offset - offset)
        behind_ms = 0
        if lag and self._chunk is not None:
            behind_ms = max(0, wall_ms - self._chunk.time_ms)
        return structs.replace(figures, offset=offset, lag=lag, lag_ms=behind_ms)

"""The figures of a stream for management, from what this node knows."""

from typing import Any, Protocol

from leveret.broker.queues.contract.status import (
    RUNNING,
    AgeFigures,
    CoarseCounts,
    ConsumerFigures,
    QueueStatus,
    StreamStatus,
)
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.counts import MessageCounts
from leveret.broker.runtime.pending import Answer
from leveret.cluster.remote_queues.remote_figures import DOWN
from leveret.cluster.streams.client.member_questions import Offsets, Stats
from leveret.cluster.streams.client.stream_consumer import StreamConsumer
from leveret.cluster.streams.client.stream_readers import StreamReaders
from leveret.storage.contract.queue_status import StorageCounts


class FiguredStream(Protocol):
    """The stream. counts: of messages from clients of this node, and to them."""

    counts: MessageCounts
    readers: StreamReaders

    @property
    def offsets(self) -> Offsets:
        """The offsets of the stream that are known here."""

    @property
    def has_member(self) -> bool:
        """Whether this node has a member: then no other node is asked."""

    @property
    def has_leader(self) -> bool:
        """Whether a leader is known."""

    @property
    def own_consumers(self) -> list[StreamConsumer]:
        """The consumers on this node."""

    def ask_stats(self, answer: Answer[Stats]) -> None:
        """Ask for all offsets, for a limited time."""


class StreamFigures:
    """The `QueueFigures` of a stream."""

    __slots__ = ("_clock", "_declared_at_s", "_stream")

    def __init__(self, stream: FiguredStream, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._declared_at_s = clock.wall_time_s()

    def refresh(self, answer: Answer[None]) -> None:
        """Ask a member, if there is none on this node."""
        if self._stream.has_member:
            answer.give(None)
            return
        asked: Answer[Stats] = Answer()
        self._stream.ask_stats(asked)
        asked.when_given(lambda: answer.give(None))

    def counts(self) -> CoarseCounts:
        """The counts. All messages are ready: they stay when they are read."""
        stream = self._stream
        offsets, counts = stream.offsets, stream.counts
        return CoarseCounts(
            ready=offsets.count, consumers=len(stream.own_consumers),
            published=counts.published, delivered=counts.delivered, acked=counts.acked,
        )  # fmt: skip

    def ages(self) -> AgeFigures:
        """Nothing: the messages of a stream do not wait to be taken."""
        return AgeFigures(None, [], 0)

    def consumers(self) -> list[ConsumerFigures]:
        """The consumers on this node."""
        wall_ms = int(self._clock.wall_time_s() * 1000)
        return [consumer.figures(wall_ms) for consumer in self._stream.own_consumers]

    def status(self) -> QueueStatus:
        """The status."""
        consumers = self._stream.own_consumers
        with_room = sum(not one.consumer.is_waiting for one in consumers)
        return QueueStatus(
            counts=self.counts(), storage=StorageCounts(), declared_at_s=self._declared_at_s,
            state=RUNNING if self._stream.has_leader else DOWN,
            consumer_capacity=with_room / len(consumers) if consumers else 0,
            stream=self._stream_status(),
        )  # fmt: skip

    def _stream_status(self) -> StreamStatus:
        readers = self._stream.readers
        own, offsets = readers.own_log, readers.offsets
        return StreamStatus(
            first_offset=offsets.first, next_offset=offsets.end,
            segments=0 if own is None else len(own.log.segments),
            size_bytes=0 if own is None else own.log.size_bytes, readers=readers.count,
        )  # fmt: skip

    def backing_queue_status(self) -> dict[str, Any]:
        """A stream has no backing queue."""
        return {}

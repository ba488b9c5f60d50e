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
from leveret.cluster.remote_queues.remote_figures import DOWN, NO_AGES
from leveret.cluster.streams.client.member_questions import Offsets, Stats
from leveret.cluster.streams.client.stream_consumer import StreamConsumer
from leveret.cluster.streams.client.stream_readers import StreamReaders
from leveret.cluster.streams.client.told_uses import ToldUses
from leveret.storage.contract.queue_status import StorageCounts


class FiguredStream(Protocol):
    """The stream. counts: of messages from clients of this node, and to them.

    uses: what other nodes have told, if this one leads.
    """

    counts: MessageCounts
    readers: StreamReaders
    uses: ToldUses

    @property
    def node_name(self) -> str:
        """The name of this node."""

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
        published, delivered, acked = stream.uses.counts
        return CoarseCounts(
            ready=offsets.count, consumers=self._consumer_count(),
            published=counts.published + published, delivered=counts.delivered + delivered,
            acked=counts.acked + acked,
        )  # fmt: skip

    def _consumer_count(self) -> int:
        """The consumers of both protocols, without those that wait to become the active one.

        A consumer of AMQP 0-9-1 reads as soon as its first offset is found.
        """
        stream, uses = self._stream, self._stream.uses
        here = max(stream.readers.count, len(stream.own_consumers))
        return here + max(sum(uses.readers.values()), len(uses.consumers))

    def ages(self) -> AgeFigures:
        """Nothing: the messages of a stream do not wait to be taken."""
        return NO_AGES

    def consumers(self) -> list[ConsumerFigures]:
        """The consumers on this node, and those that other nodes have reported."""
        wall_ms = int(self._clock.wall_time_s() * 1000)
        own = [consumer.figures(wall_ms) for consumer in self._stream.own_consumers]
        return own + self._stream.uses.consumers

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
        here = {self._stream.node_name: readers.count} if readers.count else {}
        return StreamStatus(
            first_offset=offsets.first, next_offset=offsets.end,
            segments=0 if own is None else len(own.log.segments),
            size_bytes=0 if own is None else own.log.size_bytes,
            readers=here | self._stream.uses.readers,
        )  # fmt: skip

    def backing_queue_status(self) -> dict[str, Any]:
        """A stream has no backing queue."""
        return {}

"""The figures of a classic queue (status.py), computed from its parts when they are asked for.

The message path does no work for them: the queue counts (counting.py), its backing queue knows the
messages and their places, and its ring knows the consumers.
"""

from typing import Any

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.json_form import text
from leveret.broker.queues.classic.features import QueueFeatures
from leveret.broker.queues.contract.queue_client import ExclusiveOwner
from leveret.broker.queues.contract.status import (
    CRASHED,
    RUNNING,
    SINGLE_ACTIVE,
    UP,
    WAITING,
    AgeFigures,
    CoarseCounts,
    ConnectionFigures,
    ConsumerFigures,
    QueueStatus,
)
from leveret.broker.queues.delivery.age import QueueAges
from leveret.broker.queues.delivery.counting import QueueCounts
from leveret.broker.queues.delivery.dispatch import ConsumerRing
from leveret.broker.queues.delivery.failed_reads import FailedReads
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.pending import Answer
from leveret.storage.contract.backing_queue import BackingQueue, FirstReady
from leveret.storage.messages.message import Entry

QUEUE_BYTES = 2_500
MESSAGE_BYTES = 120
"""The approximate memory of a queue, and of a message besides its body."""


class ClassicFigures:
    """The figures of one classic queue. owner: the owner of an exclusive queue.

    features: those of the queue. expires_on_time: whether messages expire wherever they are in it.
    """

    __slots__ = (
        "_ages", "_backing", "_clock", "_counts", "_owner", "_reads", "_ring", "expires_on_time",
        "features",
    )  # fmt: skip

    def __init__(
        self,
        counts: QueueCounts,
        ages: QueueAges,
        backing: BackingQueue,
        ring: ConsumerRing,
        owner: ExclusiveOwner | None,
        clock: Clock,
        reads: FailedReads,
    ) -> None:
        self._counts = counts
        self._ages = ages
        self._backing = backing
        self._ring = ring
        self._owner = owner
        self._clock = clock
        self._reads = reads
        self.features: QueueFeatures | None = None
        self.expires_on_time = False

    def refresh(self, answer: Answer[None]) -> None:
        """Answer at once: all figures are computed on demand."""
        answer.give(None)

    def counts(self) -> CoarseCounts:
        """The queue's counts; takes about a microsecond."""
        counts, backing = self._counts, self._backing
        retries = None if self.features is None else self.features.retries
        waiting = 0 if retries is None else len(retries.waiting)
        return CoarseCounts(
            backing.ready_count, backing.unacked_count - waiting, len(self._ring.consumers),
            counts.published, counts.delivered, counts.delivered_no_ack, counts.got,
            counts.got_no_ack, counts.got_empty, counts.redelivered, counts.acked, 0, waiting,
            counts.duplicates, counts.expired_on_time,
        )  # fmt: skip

    def ages(self) -> AgeFigures:
        """The ages of its messages."""
        oldest_ms = self._ages.oldest_ms(self._heads(), self._clock.now_ms())
        every = tuple(self._ages)
        counts = map(sum, zip(*(ages.counts for ages in every), strict=True))
        return AgeFigures(oldest_ms, list(counts), sum(ages.sum_ms for ages in every))

    def _heads(self) -> list[FirstReady]:
        return self._backing.heads() if self._backing.ready_count else []

    def consumers(self) -> list[ConsumerFigures]:
        """All consumers, in the order in which they subscribed."""
        ring = self._ring
        others = WAITING if ring.is_single_active else UP
        return [
            consumer.figures(SINGLE_ACTIVE if consumer is ring.active else others)
            for consumer in ring.consumers
        ]

    def status(self) -> QueueStatus:
        """The status, without ages and the list of consumers."""
        active, owner, heads = self._ring.active, self._owner, self._heads()
        storage, features = self._backing.counts(), self.features
        retries = None if features is None else features.retries
        duplicates = None if features is None else features.duplicates
        return QueueStatus(
            counts=self.counts(),
            storage=storage,
            state=CRASHED if self._reads.has_crashed else RUNNING,
            declared_at_s=self._counts.declared_at_s,
            consumer_capacity=self._capacity(),
            exclusive_consumer_tag=self._exclusive_tag(),
            single_active_consumer_tag=None if active is None else text(active.tag),
            owner=None if owner is None else _connection_figures(owner),
            memory_bytes=QUEUE_BYTES + MESSAGE_BYTES * storage.ram + storage.ram_bytes,
            head_timestamp_s=_timestamp_s(heads[0].entry) if heads else None,
            retries=None if retries is None else retries.status(),
            deduplication=None if duplicates is None else duplicates.known.status(),
            expires_on_time=self.expires_on_time,
        )

    def backing_queue_status(self) -> dict[str, Any]:
        """Where its messages are: RabbitMQ's field of this name, as JSON."""
        return self._backing.status()

    def _capacity(self) -> int | float:
        consumers = self._ring.consumers
        if not consumers:
            return 0
        return sum(consumer.room() > 0 for consumer in consumers) / len(consumers)

    def _exclusive_tag(self) -> str | None:
        for consumer in self._ring.consumers:
            if consumer.is_exclusive:
                return text(consumer.tag)
        return None


def _connection_figures(owner: ExclusiveOwner) -> ConnectionFigures:
    return ConnectionFigures(owner.name, owner.peer_host, owner.peer_port)


def _timestamp_s(entry: Entry | None) -> int | None:
    """The timestamp of a message, if it has one and is in memory."""
    if entry is None:
        return None
    header = entry.message.header
    assert isinstance(header, ContentHeader)
    stamp = header.properties.get("timestamp")
    return stamp if isinstance(stamp, int) else None

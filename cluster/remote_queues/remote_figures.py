"""The figures of a queue on another node: the last received ones, refreshed when they are read.

The `counts` of many queues are requested together, once a round; `status` and its details are
requested queue by queue. Reading figures older than `FRESH_MS` requests new ones, and returns the
old ones. `refresh` waits for new ones.
"""

from typing import Any, Protocol

import msgspec

from leveret.broker.queues.contract.status import (
    AgeFigures,
    CoarseCounts,
    ConsumerFigures,
    QueueStatus,
)
from leveret.broker.queues.delivery.age import BOUNDS_MS
from leveret.broker.runtime.pending import Answer
from leveret.cluster.remote_queues.queue_frames import FullFigures
from leveret.storage.contract.queue_status import StorageCounts

FRESH_MS = 1000
DOWN = "down"
"""The state of a queue whose node cannot be reached, as RabbitMQ's management shows it."""
NO_AGES = AgeFigures(None, [0] * (len(BOUNDS_MS) + 1), 0)
NOTHING_KNOWN = FullFigures(
    QueueStatus(counts=CoarseCounts(), storage=StorageCounts(), declared_at_s=0.0), NO_AGES, [], {}
)


class FiguredQueue(Protocol):
    """The queue (remote_queue.py)."""

    @property
    def is_away(self) -> bool:
        """Whether it cannot be asked: there is no link to its node, or no leader."""

    def now_ms(self) -> int:
        """The broker's time."""

    def want_counts(self) -> None:
        """Request the counts, which are given to `take_counts`."""

    def ask_status(self, answer: Answer[FullFigures]) -> None:
        """Request all figures."""


class RemoteFigures:
    """The `QueueFigures` of a queue on another node, which are requested when they are read."""

    __slots__ = ("_counts", "_counts_at_ms", "_full", "_full_at_ms", "_queue")

    def __init__(self, queue: FiguredQueue) -> None:
        self._queue = queue
        self._counts = CoarseCounts()
        self._full = NOTHING_KNOWN
        self._counts_at_ms = self._full_at_ms = -FRESH_MS

    def counts(self) -> CoarseCounts:
        """The last counts from the queue's node."""
        now_ms = self._queue.now_ms()
        if now_ms - self._counts_at_ms >= FRESH_MS:
            self._counts_at_ms = now_ms
            self._queue.want_counts()
        return self._counts

    def take_counts(self, counts: CoarseCounts) -> None:
        """Keep counts from the home node."""
        self._counts = counts

    def _look(self) -> FullFigures:
        now_ms = self._queue.now_ms()
        if now_ms - self._full_at_ms >= FRESH_MS and not self._queue.is_away:
            self._full_at_ms = now_ms
            self.refresh(Answer())
        return self._full

    def refresh(self, answer: Answer[None]) -> None:
        """Request all figures; the answer is given when they have arrived."""
        full: Answer[FullFigures] = Answer()
        self._queue.ask_status(full)
        full.when_given(lambda: self._take(full, answer))

    def _take(self, full: Answer[FullFigures], answer: Answer[None]) -> None:
        try:
            self._full = full.result()
        except Exception as error:
            answer.refuse(error)
            return
        self._counts = self._full.status.counts
        answer.give(None)

    def status(self) -> QueueStatus:
        """The last status from the queue's node."""
        status = self._look().status
        return msgspec.structs.replace(status, state=DOWN) if self._queue.is_away else status

    def ages(self) -> AgeFigures:
        """The last ages of messages from the queue's node."""
        return self._look().ages

    def consumers(self) -> list[ConsumerFigures]:
        """The figures of the queue's consumers."""
        return self._look().consumers

    def backing_queue_status(self) -> dict[str, Any]:
        """The figures of the backing queue."""
        return self._look().backing

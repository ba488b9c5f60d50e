"""The figures of a quorum queue on any node: those of its machine, if this node leads the queue.

Otherwise they are the last ones that the leader has sent.
"""

from typing import Protocol

from leveret.broker.queues.contract.status import CoarseCounts
from leveret.broker.runtime.pending import Answer
from leveret.cluster.remote_queues.queue_frames import FullFigures
from leveret.cluster.remote_queues.remote_figures import FiguredQueue, RemoteFigures


class LocallyLedQueue(FiguredQueue, Protocol):
    """The queue."""

    def own_counts(self) -> CoarseCounts | None:
        """The counts, if this node leads."""

    def own_status(self) -> FullFigures | None:
        """All figures, if this node leads."""


class LedFigures(RemoteFigures):
    """The `QueueFigures` of a quorum queue."""

    __slots__ = ("_led",)

    def __init__(self, queue: LocallyLedQueue) -> None:
        super().__init__(queue)
        self._led = queue

    def counts(self) -> CoarseCounts:
        """The counts as of now, or the last ones."""
        return self._led.own_counts() or super().counts()

    def _look(self) -> FullFigures:
        return self._led.own_status() or super()._look()

    def refresh(self, answer: Answer[None]) -> None:
        """Ask the leader, unless it is this node."""
        if self._led.own_counts() is not None:
            answer.give(None)
        else:
            super().refresh(answer)

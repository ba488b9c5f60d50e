"""The figures of a queue without a leader: no counts, and the state `down`."""

from typing import Any

import msgspec

from leveret.broker.queues.contract.status import (
    AgeFigures,
    CoarseCounts,
    ConsumerFigures,
    QueueStatus,
)
from leveret.broker.runtime.pending import Answer
from leveret.cluster.remote_queues.remote_figures import DOWN, NO_AGES, NOTHING_KNOWN

NO_COUNTS = CoarseCounts()
NO_STATUS = msgspec.structs.replace(NOTHING_KNOWN.status, state=DOWN)


class NoFigures:
    """The `QueueFigures` of a queue without a leader."""

    def refresh(self, answer: Answer[None]) -> None:
        """There is nothing newer."""
        answer.give(None)

    def counts(self) -> CoarseCounts:
        """No messages are known."""
        return NO_COUNTS

    def ages(self) -> AgeFigures:
        """No messages are known."""
        return NO_AGES

    def consumers(self) -> list[ConsumerFigures]:
        """Consumers wait for the next leader."""
        return []

    def status(self) -> QueueStatus:
        """The queue is down."""
        return NO_STATUS

    def backing_queue_status(self) -> dict[str, Any]:
        """No messages are known."""
        return {}


NO_FIGURES = NoFigures()

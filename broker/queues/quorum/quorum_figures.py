"""The figures of a quorum queue: of its messages, and of the dead letters that it keeps."""

from typing import Any

from msgspec.structs import replace

from leveret.broker.queues.contract.status import (
    AgeFigures,
    CoarseCounts,
    ConsumerFigures,
    QueueFigures,
    QueueStatus,
)
from leveret.broker.queues.dead_letters.retained import RetainedDeadLetters
from leveret.broker.runtime.pending import Answer


class QuorumFigures:
    """The figures of one quorum queue. messages: the figures without letters."""

    __slots__ = ("_letters", "_messages")

    def __init__(self, messages: QueueFigures, letters: RetainedDeadLetters) -> None:
        self._messages = messages
        self._letters = letters

    def refresh(self, answer: Answer[None]) -> None:
        """Answer at once: all figures are computed on demand."""
        self._messages.refresh(answer)

    def counts(self) -> CoarseCounts:
        """The queue's counts, with those of its letters."""
        counts, dlx = self._messages.counts(), self._letters.count
        return replace(counts, dlx=dlx) if dlx else counts

    def ages(self) -> AgeFigures:
        """The ages of its messages."""
        return self._messages.ages()

    def consumers(self) -> list[ConsumerFigures]:
        """All consumers, in the order in which they subscribed."""
        return self._messages.consumers()

    def status(self) -> QueueStatus:
        """The status, without ages and the list of consumers."""
        return replace(
            self._messages.status(), counts=self.counts(), dlx_bytes=self._letters.body_bytes
        )

    def backing_queue_status(self) -> dict[str, Any]:
        """Where its messages are: RabbitMQ's field of this name, as JSON."""
        return self._messages.backing_queue_status()

"""The figures of a quorum queue: of its messages, and of the dead letters that it keeps."""

from typing import Any

from msgspec.structs import replace

from leveret.broker.pending import Answer
from leveret.broker.queues.kept_letters import KeptLetters
from leveret.broker.queues.status import (
    AgeFigures,
    CoarseCounts,
    ConsumerFigures,
    QueueFigures,
    QueueStatus,
)


class QuorumFigures:
    """The figures of one quorum queue. messages: the figures without letters."""

    __slots__ = ("_letters", "_messages")

    def __init__(self, messages: QueueFigures, letters: KeptLetters) -> None:
        self._messages = messages
        self._letters = letters

    def refresh(self, answer: Answer[None]) -> None:
        """Answer at once: all figures are computed on demand."""
        self._messages.refresh(answer)

    def counts(self) -> CoarseCounts:
        """See `QueueFigures.counts`."""
        counts, dlx = self._messages.counts(), self._letters.count
        return replace(counts, dlx=dlx) if dlx else counts

    def ages(self) -> AgeFigures:
        """See `QueueFigures.ages`."""
        return self._messages.ages()

    def consumers(self) -> list[ConsumerFigures]:
        """See `QueueFigures.consumers`."""
        return self._messages.consumers()

    def status(self) -> QueueStatus:
        """See `QueueFigures.status`."""
        return replace(
            self._messages.status(), counts=self.counts(), dlx_bytes=self._letters.body_bytes
        )

    def backing_queue_status(self) -> dict[str, Any]:
        """See `QueueFigures.backing_queue_status`."""
        return self._messages.backing_queue_status()

"""The figures of a queue that has ended, so that they do not refer to the queue.

Otherwise, only a full garbage collection would free a queue and its figures.
"""

from typing import Final

from leveret.broker.amqp.errors import internal_error
from leveret.broker.runtime.pending import Answer
from leveret.cluster.remote_queues.queue_frames import FullFigures
from leveret.cluster.remote_queues.remote_figures import RemoteFigures

GONE: Final = "the queue is deleted, or its node stops"


class EndedFiguredQueue:
    """A `FiguredQueue` (remote_figures.py) that has ended."""

    is_away = True

    def now_ms(self) -> int:
        """A time; it does not advance."""
        return 0

    def want_counts(self) -> None:
        """Do nothing."""

    def ask_status(self, answer: Answer[FullFigures]) -> None:
        """Refuse the request: the queue is gone."""
        answer.refuse(internal_error(GONE))


ENDED_FIGURES: Final = RemoteFigures(EndedFiguredQueue())

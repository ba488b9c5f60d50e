"""What a queue that has ended has in the place of its group and of its figures.

Without it the queue, its service and its figures would refer to each other, and be freed by a full
collection of garbage only.
"""

from collections.abc import Mapping
from typing import Final

from leveret.broker.amqp.errors import internal_error
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.queue_client import QueueLength
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.client.group_service import TakesCounts
from leveret.cluster.remote_queues.queue_frames import FullFigures
from leveret.cluster.remote_queues.remote_figures import RemoteFigures

_GONE: Final = "the queue is deleted, or its node stops"


class EndedGroup:
    """A `GroupService`, and a `FiguredQueue` (remote_figures.py), of a queue that has ended."""

    is_away = True

    def now_ms(self) -> int:
        """No time passes."""
        return 0

    def attach(self, session: int, sender: int, seen: int, received: Mapping[int, int]) -> None:
        """There is no leader."""

    def send(self, session: int, commands: list[bytes]) -> None:
        """There is no leader."""

    def ask_length(self, answer: Answer[QueueLength]) -> None:
        """There is no group to ask."""
        answer.refuse(internal_error(_GONE))

    def ask_status(self, answer: Answer[FullFigures]) -> None:
        """There is no group to ask."""
        answer.refuse(internal_error(_GONE))

    def want_counts(self, figures: TakesCounts | None = None) -> None:
        """There is no group to ask."""

    def watch(self, demand: Demand | None) -> None:
        """There is no queue."""

    def configure(self, options: QueueOptions) -> None:
        """There is no queue."""

    def close(self, is_deleted: bool) -> None:
        """It has ended."""


ENDED_GROUP: Final = EndedGroup()
ENDED_FIGURES: Final = RemoteFigures(ENDED_GROUP)

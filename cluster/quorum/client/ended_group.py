"""Takes the place of the group of a queue that has ended.

Without it, the queue and its service would refer to each other, and only a full garbage collection
would free them.
"""

from collections.abc import Mapping
from typing import Final

from leveret.broker.amqp.errors import internal_error
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.queue_client import QueueLength
from leveret.broker.queues.contract.status import CoarseCounts
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.client.group_service import TakesCounts
from leveret.cluster.remote_queues.queue_frames import FullFigures
from leveret.cluster.replicated_queues.client.ended_figures import GONE


class EndedGroup:
    """A `GroupService` of a queue that has ended."""

    is_new = False

    def attach(self, session: int, sender: int, seen: int, received: Mapping[int, int]) -> None:
        """Do nothing."""

    def send(self, session: int, commands: list[bytes]) -> None:
        """Do nothing."""

    def took(self, session: int, consumer: int, octets: int) -> None:
        """There is no leader."""

    def ask_length(self, answer: Answer[QueueLength]) -> None:
        """Refuse the request: the group is gone."""
        answer.refuse(internal_error(GONE))

    def ask_status(self, answer: Answer[FullFigures]) -> None:
        """Refuse the request: the group is gone."""
        answer.refuse(internal_error(GONE))

    def want_counts(self, figures: TakesCounts) -> None:
        """Do nothing."""

    def own_counts(self) -> CoarseCounts | None:
        """There is no leader."""
        return None

    def own_status(self) -> FullFigures | None:
        """There is no leader."""
        return None

    def watch(self, demand: Demand | None) -> None:
        """Do nothing."""

    def configure(self, options: QueueOptions) -> None:
        """Do nothing."""

    def close(self, is_deleted: bool) -> None:
        """Do nothing."""


ENDED_GROUP: Final = EndedGroup()

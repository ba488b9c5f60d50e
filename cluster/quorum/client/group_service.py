"""What a quorum queue asks of the service that knows its group (cluster/quorum/groups).

The service finds the leader, on this node or another one, carries commands to it, and brings back
what it does. It calls `leader_found`, `leader_lost` and `told` of `QuorumQueueClient`.
"""

from collections.abc import Mapping
from typing import Protocol

from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.queue_client import QueueLength
from leveret.broker.queues.contract.status import CoarseCounts
from leveret.broker.runtime.pending import Answer
from leveret.cluster.remote_queues.queue_frames import FullFigures


class TakesCounts(Protocol):
    """The figures of the queue (remote_figures.py)."""

    def take_counts(self, counts: CoarseCounts) -> None:
        """Counts come from the leader."""


class GroupService(Protocol):
    """The group of one queue. Without a leader, questions are refused."""

    def attach(self, session: int, sender: int, seen: int, received: Mapping[int, int]) -> None:
        """Begin a session with the leader (group_client.py)."""

    def send(self, session: int, commands: list[bytes]) -> None:
        """Send commands to the leader, which proposes them in this order."""

    def ask_length(self, answer: Answer[QueueLength]) -> None:
        """Ask the leader for the numbers of messages and consumers."""

    def ask_status(self, answer: Answer[FullFigures]) -> None:
        """Ask the leader for all figures."""

    def want_counts(self, figures: TakesCounts) -> None:
        """Ask the leader for the counts, together with those of other queues."""

    def watch(self, demand: Demand | None) -> None:
        """Keep this demand up to date while this node leads; None: none."""

    def configure(self, options: QueueOptions) -> None:
        """Policies have changed the options: the leader proposes them."""

    def close(self, is_deleted: bool) -> None:
        """The queue is deleted, or the node stops."""

"""The interface of the service that connects a quorum queue to its group (cluster/groups).

The service finds the leader, on this node or another one, sends it commands, and receives its
effects. It calls `leader_found`, `leader_lost` and `told` of `QuorumQueueClient`.
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
        """Take counts from the leader."""


class GroupService(Protocol):
    """The group of one queue. Without a leader, requests for figures are refused.

    is_new: the queue was not found by a restart: it has no messages yet.
    """

    is_new: bool

    def attach(self, session: int, sender: int, seen: int, received: Mapping[int, int]) -> None:
        """Start a session with the leader (group_client.py)."""

    def send(self, session: int, commands: list[bytes]) -> None:
        """Send commands to the leader, which proposes them in this order."""

    def took(self, session: int, consumer: int, octets: int) -> None:
        """Tell the leader how many bytes a consumer was handed: it sends more."""

    def ask_length(self, answer: Answer[QueueLength]) -> None:
        """Ask the leader for the numbers of messages and consumers."""

    def ask_status(self, answer: Answer[FullFigures]) -> None:
        """Ask the leader for all figures."""

    def want_counts(self, figures: TakesCounts) -> None:
        """Ask the leader for the counts, in one request with those of other queues."""

    def own_counts(self) -> CoarseCounts | None:
        """The counts, if this node leads."""

    def own_status(self) -> FullFigures | None:
        """All figures, if this node leads."""

    def watch(self, demand: Demand | None) -> None:
        """Keep this demand up to date while the leader is on this node. None: no demand."""

    def configure(self, options: QueueOptions) -> None:
        """Have the leader propose the options, which policies have changed."""

    def close(self, is_deleted: bool) -> None:
        """End: the queue is deleted, or the node stops."""

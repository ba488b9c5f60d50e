"""Connections that own exclusive queues and whose clients are gone.

When a client's machine crashes or loses its network, its connection stays open until the heartbeats
time out. Until then the old connection locks the client's exclusive queue, and RabbitMQ refuses it
to the client's new connection with 405. With `exclusive_queue_takeover`, the node probes the old
connection when another one of the same user asks for the queue, and ends it if the client's machine
does not acknowledge the probe for a second.

Not promised: that a client that is only slow keeps its connection. A machine that does not
acknowledge sent data for a second counts as gone.
"""

from typing import Protocol, runtime_checkable

from leveret.broker.queues.contract.queue_client import ExclusiveOwner
from leveret.broker.queues.contract.remote_owner import RemoteOwner
from leveret.broker.runtime.pending import Answer


@runtime_checkable
class ProbedOwner(Protocol):
    """A connection that can be probed."""

    def end_if_gone(self, user: str, answer: Answer[bool]) -> None:
        """End the connection if its client is gone and it is this user's; answer whether it did."""


class OwnersOfOtherNodes(Protocol):
    """The other nodes of the cluster (cluster/rpc/absent_owners.py)."""

    def end_if_gone(self, node: str, owner: str, user: str, answer: Answer[bool]) -> None:
        """Ask a node to do this for the connection with this name."""


class AbsentOwners:
    """Ends connections that own exclusive queues and whose clients are gone.

    others: None without a cluster.
    """

    def __init__(self) -> None:
        self.others: OwnersOfOtherNodes | None = None

    def end_if_gone(self, owner: ExclusiveOwner, user: str) -> Answer[bool]:
        """End the owner of a queue if it is this user's and its client is gone.

        The answer, whether it ended, takes a second. It is False at once if the owner belongs to
        another user.
        """
        answer: Answer[bool] = Answer()
        if isinstance(owner, RemoteOwner):
            if self.others is None:
                answer.give(False)
            else:
                self.others.end_if_gone(owner.node, owner.name, user, answer)
        elif isinstance(owner, ProbedOwner):
            owner.end_if_gone(user, answer)
        else:
            answer.give(False)
        return answer

"""Connections that own exclusive queues and whose clients are gone.

A client whose machine died, or was cut off, leaves its connection open until the heartbeats time
out. When it comes back, it finds its exclusive queue locked by itself (RabbitMQ answers 405 until
then). With `exclusive_queue_takeover` a connection of the same user has the old one probed: it is
ended if the machine at its other end acknowledges nothing for a second.

Not promised: that a client that is only slow keeps its connection. A machine that acknowledges
nothing for a second, after data was sent to it, counts as gone.
"""

from typing import Protocol, runtime_checkable

from leveret.broker.queues.contract.queue_client import ExclusiveOwner
from leveret.broker.queues.contract.remote_owner import RemoteOwner
from leveret.broker.runtime.pending import Answer


@runtime_checkable
class ProbedOwner(Protocol):
    """A connection that can be probed."""

    def end_if_gone(self, user: str, answer: Answer[bool]) -> None:
        """End if this user's client is gone; the answer says whether it ended."""


class OtherNodes(Protocol):
    """The other nodes of the cluster (cluster/rpc/absent_owners.py)."""

    def end_if_gone(self, node: str, owner: str, user: str, answer: Answer[bool]) -> None:
        """Have a node end the connection of this name, as above."""


class AbsentOwners:
    """Ends the owners of exclusive queues whose clients are gone.

    others: None without a cluster.
    """

    def __init__(self) -> None:
        self.others: OtherNodes | None = None

    def end_if_gone(self, owner: ExclusiveOwner, user: str) -> Answer[bool]:
        """End the owner of a queue if it is this user's and its client is gone.

        The answer, whether it ended, takes a second; it is False at once if the owner is another
        user's.
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

"""Demotion: a leader ends while its node lives, because it hands over or was declared dead.

The record names another leader, in the next version of the ring. The leading member that applies it
broadcasts its last decisions, and only then passes the version to its ring. The next leader's mark
has that version, so it reaches this member after that, and all members after the last decisions
(MQ8). All entries that await settlement become ready again, as on the other mirrors when they learn
of the next leader. If the record still names this member, it mirrors the queue that it has led
(`MirrorMember.has_led`).

The next leader confirms messages that are published and not confirmed, as after a death. Other
nodes ask it, and this one no longer reports to them. For this node's own publishers the queue has
held the runs; from now on the next leader owes them.
"""

from typing import cast

from leveret.broker.queues.contract.publication import Publisher
from leveret.cluster.mirrors.kept_turns import WaitingRun
from leveret.cluster.mirrors.leader_session import LeaderSession, Refusals
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.mirrors.publishing import MirroredPublishing
from leveret.cluster.mirrors.sending_node import SendingNode
from leveret.cluster.remote_queues.hosted_consumer import HostedConsumer
from leveret.cluster.remote_queues.hosted_publisher import HostedPublisher


def end_leading(
    leading: LeaderSession, queue: MirroredQueue, publishing: MirroredPublishing
) -> None:
    """Stop leading: consumers and publishers of the leader wait for the next one."""
    # Consumers of other nodes are subscribed at the next leader by their own nodes.
    consumers = [one for one in leading.end() if not isinstance(one, HostedConsumer)]
    for run in leading.kept.release():
        if _is_own(run):
            publishing.owe(run.number, OfEndedQueue(run), run.first, run.count)
    queue.leader_lost(consumers)


def _is_own(run: WaitingRun) -> bool:
    """Whether a publisher of this node waits for a run, and no other leader was asked about it."""
    return not isinstance(run.waiter, SendingNode | HostedPublisher | Refusals)


class OfEndedQueue:
    """A `Publisher` for a run that is held by the queue that led here."""

    __slots__ = ("_holder", "_publisher")

    def __init__(self, run: WaitingRun) -> None:
        self._publisher = cast("Publisher", run.waiter)
        self._holder = run.holder

    def hold(self, first: int, count: int, holder: object) -> None:
        """Do nothing: the ended queue still holds the run."""

    def confirm(self, first: int, holder: object) -> None:
        """All members have kept the run."""
        self._publisher.confirm(first, self._holder)

    def refuse(self, number: int) -> None:
        """The next leader does not have a message."""
        self._publisher.refuse(number)

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The run will not be confirmed."""
        self._publisher.holder_died(self._holder, is_settled)

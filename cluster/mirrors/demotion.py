"""How a leader ends while its node lives: it hands over, or was declared dead.

The record names another leader, in the next version of the ring. A member that leads and applies it
broadcasts its last decisions, and only then has its ring know the version. The next leader's mark
has that version, so it comes here after this was done, and to everybody after the last decisions
(MQ8). Everything that awaits settlement is ready again, as the other mirrors have it when they hear
of the next leader. If the record names this member still, it mirrors what it has led
(`MirrorMember.has_led`).

What was published and is not confirmed is the next leader's to confirm, as after a death. Other
nodes ask it, and are not told by this one any more. For this node's own publishers the queue has
held the runs; these are owed by the next leader from here on.
"""

from typing import cast

from leveret.broker.queues.publication import Publisher
from leveret.cluster.mirrors.kept import WaitingRun
from leveret.cluster.mirrors.leading import Leading
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.mirrors.publishing import MirroredPublishing
from leveret.cluster.mirrors.refusals import Refusals
from leveret.cluster.mirrors.sending_node import SendingNode
from leveret.cluster.queues.hosted_consumer import HostedConsumer
from leveret.cluster.queues.hosted_publisher import HostedPublisher


def end_leading(leading: Leading, queue: MirroredQueue, publishing: MirroredPublishing) -> None:
    """Lead no more: those who wait for the leader wait for the next one."""
    is_open = queue.leader is leading.queue
    # Those of other nodes are subscribed there by their nodes.
    consumers = [one for one in leading.end() if not isinstance(one, HostedConsumer)]
    for run in leading.kept.release():
        if _is_own(run):
            publishing.owe(run.number, OfEndedQueue(run), run.first, run.count)
    if is_open:
        queue.leader_lost(consumers)


def _is_own(run: WaitingRun) -> bool:
    """Whether a publisher of this node waits for a run, for which no other leader was asked."""
    return not isinstance(run.waiter, SendingNode | HostedPublisher | Refusals)


class OfEndedQueue:
    """The publisher of a run, which is held by the queue that led here. See `Publisher`."""

    __slots__ = ("_holder", "_publisher")

    def __init__(self, run: WaitingRun) -> None:
        self._publisher = cast("Publisher", run.waiter)
        self._holder = run.holder

    def hold(self, first: int, count: int, holder: object) -> None:
        """Do nothing: the ended queue goes on holding it."""

    def confirm(self, first: int, holder: object) -> None:
        """All members have kept the run."""
        self._publisher.confirm(first, self._holder)

    def refuse(self, number: int) -> None:
        """The next leader does not have a message."""
        self._publisher.refuse(number)

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """Nobody will confirm the run."""
        self._publisher.holder_died(self._holder, is_settled)

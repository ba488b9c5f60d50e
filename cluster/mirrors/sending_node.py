"""A linked node that publishes to a mirrored queue, from the view of the member on this node.

If this node leads, it publishes the contents of the other one, and reports their outcome; otherwise
it keeps them for the leader's decisions. In both cases it reports the bytes that it has taken, so
that publishers wait for the slowest member.
"""

from collections.abc import Callable

from leveret.broker.queues.contract.queue_client import Hold
from leveret.cluster.links.services import MULTICAST_SERVICE, Peer
from leveret.cluster.mirrors import frames
from leveret.cluster.mirrors.decisions import Range
from leveret.cluster.mirrors.leader_session import sender_number
from leveret.cluster.mirrors.own_member import OwnMember
from leveret.cluster.mirrors.replica_host import ReplicaHost
from leveret.cluster.remote_queues.hosted_publisher import HostedPublisher
from leveret.cluster.remote_queues.hosted_publishes import HostedPublishes, Pairs

ReportLater = Callable[[HostedPublishes, int], object]


class SendingNode:
    """One such node. sender: its number in decisions. next_number: that of its next message."""

    __slots__ = (
        "_addresses", "_host", "_identity", "_own", "_peer", "_publishes", "_report_later",
        "next_number", "sender",
    )  # fmt: skip

    def __init__(
        self,
        peer: Peer,
        identity: int,
        own: OwnMember,
        host: ReplicaHost,
        report_later: ReportLater,
    ) -> None:
        """identity: that of the queue's ring. report_later: has a report made at the end of the
        round, given the bytes that came.
        """
        self._peer = peer
        self._identity = identity
        self._own = own
        self._host = host
        self._addresses = host.addresses
        self._report_later = report_later
        self._publishes = HostedPublishes(self, lambda: report_later(self._publishes, 0))
        self.sender = sender_number(peer.name, peer.incarnation)
        self.next_number = 1

    @property
    def is_held(self) -> bool:
        """Whether publishers of this node wait for its store."""
        return self._host.is_held

    @property
    def publisher_hold(self) -> Hold | None:
        """The hold for publishers to the queue; only the leader has consumers."""
        leading = self._own.leading
        return None if leading is None else leading.queue.publisher_hold

    def contents(self, payload: bytes) -> None:
        """A run of messages. Raises ValueError."""
        sender = self.sender
        publication, settled, is_owed = frames.read_contents(payload, sender, self._addresses)
        self.next_number = publication.end
        self._publishes.taken(len(payload))
        self._report_later(self._publishes, len(payload))
        leading = self._own.leading
        if leading is None:
            mirror = self._own.mirror
            if mirror is not None:
                mirror.contents(publication, settled)
            return
        leading.told(sender, settled)
        if not is_owed:
            leading.publish(publication)
            return
        number = publication.number
        publication.publisher, publication.first = self, number
        publisher = self._publishes.publisher
        publisher.begin(number, len(publication.messages))
        leading.publish(publication)
        publisher.end(number)

    def owed(self, runs: list[Range]) -> None:
        """The node asks for the outcome of runs: this one leads.

        It asks again when it has waited for long. Runs that are held here are reported later.
        """
        leading = self._own.leading
        assert leading is not None, "a leader is asked"
        publisher = self._publishes.publisher
        for number, count in runs:
            if publisher.holds(number):
                continue
            publisher.begin(number, count)
            leading.settle(self.sender, number, count, self)
            publisher.end(number)

    def leader_ended(self) -> None:
        """Another node leads: it answers for unconfirmed runs."""
        self._publishes.publisher = HostedPublisher(lambda: self._report_later(self._publishes, 0))

    # Publisher

    def hold(self, first: int, count: int, holder: object) -> None:
        """The holder will confirm this run later."""
        self._publishes.publisher.hold(first, count, holder)

    def confirm(self, first: int, holder: object) -> None:
        """The holder has stored the run safely."""
        self._publishes.publisher.confirm(first, holder)

    def refuse(self, number: int) -> None:
        """A message is refused. This is kept until the node knows: the report may be lost."""
        leading = self._own.leading
        assert leading is not None, "a leader refuses"
        leading.refuse(self.sender, number)
        self._publishes.publisher.refuse(number)

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The holder is gone. is_settled: its runs count as confirmed, otherwise as refused."""
        self._publishes.publisher.holder_died(holder, is_settled)

    def tell(self, taken_bytes: int, safe: Pairs, refused: Pairs) -> None:
        """Send a report."""
        self._peer.send(MULTICAST_SERVICE, frames.taken(self._identity, taken_bytes))
        if safe or refused:
            pieces = frames.confirmed(self._identity, safe, refused)
            self._peer.send(MULTICAST_SERVICE, *pieces)

"""Publishing from this node to a mirrored queue: the leader and every mirror get the same contents.

Messages are numbered for each queue, counting up from 1 in each run of this node. All members get
them at the same time and in this order; for members on other nodes, they are encoded once. The
leader reports the runs that are safe on all members, and the messages that it has refused
(owed_confirms.py). The next leader learns the owed runs, and answers for them.

Publishers of many messages are held while a member has a large backlog, or its link is congested,
so that they are not faster than the slowest member.

If this node leads, the queue holds runs for publishers itself, and nothing is owed here. When it
hands over, the next leader owes them (leaders.py).

Invariants:
PB1. A run is confirmed or refused, once (Q2). A leader that hands over may have answered when the
     next one is asked: answers for runs that are no longer owed are ignored.
PB2. Each member gets the contents in the order of their numbers. It can have gaps, after a link to
     it was down.
"""

from collections.abc import Callable, Iterable, Mapping

from leveret.broker.queues.contract.publication import Publication, Publisher
from leveret.broker.queues.contract.queue_client import Hold
from leveret.cluster.links.services import MULTICAST_SERVICE, Peer
from leveret.cluster.mirrors import frames
from leveret.cluster.mirrors.ring import OwnMember
from leveret.cluster.remote_queues.owed_confirms import OwedConfirms
from leveret.cluster.remote_queues.queue_frames import OWN_TIMES_FEATURE
from leveret.cluster.remote_queues.remote_hold import RemoteHold, UntakenBytes


class MemberNode:
    """A linked node, as this one sends contents to its members."""

    __slots__ = ("_holds", "peer")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._holds: dict[RemoteHold, None] = {}

    @property
    def is_congested(self) -> bool:
        """Whether the link has too much data to send."""
        return self.peer.is_congested

    @property
    def takes_times(self) -> bool:
        """Whether it takes messages with times to live of their own in one frame."""
        return OWN_TIMES_FEATURE in self.peer.features

    def await_drain(self, hold: RemoteHold) -> None:
        """Call `look` when the link has room again."""
        self._holds[hold] = None

    def send(self, *pieces: bytes) -> None:
        """Send a frame."""
        self.peer.send(MULTICAST_SERVICE, *pieces)

    def drained(self) -> None:
        """The link has room again."""
        holds, self._holds = self._holds, {}
        for hold in holds:
            hold.look()


class MembersHold:
    """The `Hold` of publishers while one of the members has a large backlog."""

    __slots__ = ("_own", "others")

    def __init__(self, own: OwnMember) -> None:
        self._own = own
        self.others: dict[str, RemoteHold] = {}

    @property
    def _leader(self) -> Hold | None:
        """The hold of the leader on this node: only a leader has consumers to wait for."""
        leading = self._own.leading
        return None if leading is None else leading.queue.publisher_hold

    @property
    def is_wanted(self) -> bool:
        """Whether publishers of many messages at a time have to wait."""
        leader = self._leader
        if leader is not None and leader.is_wanted:
            return True
        return any(hold.is_wanted for hold in self.others.values())

    def begin(self, resume: Callable[[], object]) -> None:
        """A publisher waits for one of the members that are behind, and then checks again."""
        for hold in self.others.values():
            if hold.is_wanted:
                hold.begin(resume)
                return
        leader = self._leader
        assert leader is not None, "one of the members is behind"
        leader.begin(resume)


class MirroredPublishing:
    """Publishes to one queue. sender: this node's number."""

    __slots__ = (
        "_hold", "_holds", "_identity", "_members", "_owed", "_own", "_refused", "_untaken",
        "sender",
    )  # fmt: skip

    def __init__(
        self, name: str, identity: int, sender: int, own: OwnMember, untaken: UntakenBytes
    ) -> None:
        """name: the queue's, for texts. identity: that of its ring. untaken: the bytes that all
        other nodes have not taken.
        """
        self.sender = sender
        self._own = own
        self._identity = identity
        self._untaken = untaken
        self._owed = OwedConfirms(name)
        self._members: dict[str, MemberNode] = {}
        # Refused messages of owed runs: leaders report them again after their link was down.
        self._refused: set[int] = set()
        self._hold = MembersHold(own)
        # By link: a node that is a member again continues its count of taken bytes.
        self._holds: dict[str, RemoteHold] = {}

    @property
    def hold(self) -> Hold:
        """The hold for publishers of many messages at a time."""
        return self._hold

    @property
    def next_number(self) -> int:
        """The number of the next message."""
        return self._owed.next

    def set_members(
        self, nodes: Iterable[str], linked: Mapping[str, MemberNode], version: int
    ) -> None:
        """Send contents to the members on those of these nodes that are linked.

        linked: all linked nodes. version: that of the ring's record.
        """
        wanted = linked.keys() & set(nodes)
        for node in self._members.keys() - wanted:
            self.remove_member(node)
        for node in wanted - self._members.keys():
            self.add_member(node, linked[node], version)

    def add_member(self, node: str, member: MemberNode, version: int) -> None:
        """A member on another node joins, or is linked: it gets contents from now on."""
        self._members[node] = member
        hold = self._holds.get(node)
        if hold is None:
            hold = self._holds[node] = RemoteHold(member, self._untaken)
        self._hold.others[node] = hold
        self.tell_begin(node, version)

    def tell_begin(self, node: str, version: int) -> None:
        """Tell a member the number with which its contents begin now."""
        member = self._members.get(node)
        if member is not None:
            number = self._owed.next
            member.send(frames.begins(self._identity, number, version))

    def remove_member(self, node: str) -> None:
        """A member on another node has ended. Its node still reports sent contents as taken."""
        if self._members.pop(node, None) is not None:
            self._hold.others.pop(node).release()

    def link_down(self, node: str) -> None:
        """The link to another node is down."""
        self.remove_member(node)
        hold = self._holds.pop(node, None)
        if hold is not None:
            hold.reset()

    # Sending

    def publish(self, publication: Publication) -> None:
        """Send messages to all members."""
        leading, mirror = self._own.leading, self._own.mirror
        publisher, count = publication.publisher, len(publication.messages)
        if publisher is not None and leading is None:
            number = self._owed.hold(publisher, publication.first, count)
        else:
            number = self._owed.skip(count)
        if self._members:
            self._send(number, publication)
        if leading is not None:
            sent = publication.sent(self.sender, number)
            sent.publisher, sent.first = publisher, publication.first
            leading.publish(sent)
        elif mirror is not None:
            mirror.contents(publication.sent(self.sender, number), self._owed.settled)

    def publish_each(self, publication: Publication) -> None:
        """Send messages, each with its own time to live, to all members."""
        if all(member.takes_times for member in self._members.values()):
            self.publish(publication)
            return
        for part in publication.by_time_to_live():
            self.publish(part)

    def _send(self, number: int, publication: Publication) -> None:
        pieces = frames.contents(self._identity, number, self._owed.settled, publication)
        for node, member in self._members.items():
            self._hold.others[node].sent(pieces)
            member.send(*pieces)

    def owe(self, number: int, publisher: Publisher, first: int, count: int) -> None:
        """The next leader has to confirm a run that this node has published while it led."""
        self._owed.take_over(number, publisher, first, count)

    # Outcomes

    @property
    def settled(self) -> int:
        """The outcome of all messages below this number is known here."""
        return self._owed.settled

    @property
    def is_owed(self) -> bool:
        """Whether a run waits for the leader's confirm."""
        return bool(self._owed)

    @property
    def owed_runs(self) -> list[tuple[int, int]]:
        """The number and the length of each run that waits for a confirm, for the next leader."""
        return self._owed.runs

    def taken(self, node: str, taken_bytes: int) -> None:
        """A member has taken this number of bytes since it was linked. Raises ValueError."""
        hold = self._holds.get(node)
        if hold is not None:
            hold.taken(taken_bytes)

    def confirmed(
        self, safe: Iterable[tuple[int, int]], refused: Iterable[tuple[int, int]]
    ) -> None:
        """The leader reports outcomes: ranges of numbers that all members have, and pairs of the
        number of a run and that of a refused message in it. Raises ValueError.
        """
        owed, known = self._owed, self._refused
        told = dict.fromkeys(refused)
        fresh = [pair for pair in told if pair[1] not in known and owed.owes(pair[0])]
        self._owed.refuse(fresh)
        self._refused.update([number for _, number in fresh])
        for start, end in safe:
            self._owed.confirm_owed(start, end)
        if self._refused:
            settled = self._owed.settled
            self._refused = {number for number in self._refused if number >= settled}

    def fail(self) -> None:
        """The queue is down: owed runs are refused."""
        self._owed.die(is_settled=False)

    def end(self, is_deleted: bool) -> None:
        """Settle owed runs. If the queue is deleted, they count as confirmed; if the node stops,
        they are refused, since a member may not have them.
        """
        for node in tuple(self._holds):
            self.link_down(node)
        self._owed.die(is_settled=is_deleted)

"""Frames of other nodes about a mirrored queue, besides its ring's messages (frames.py).

Contents, reports and requests are passed to the member of this node. Requests to a leader that
arrive before the queue is led here wait until it is opened.

If this node leads, it publishes the contents of a linked node, and reports their outcome; otherwise
it keeps them for the leader's decisions. In both cases it reports the bytes that it has taken, so
that publishers wait for the slowest member.
"""

from collections.abc import Callable
from functools import partial

from leveret.broker.queues.contract.queue_client import Hold
from leveret.cluster.gm.group import Member
from leveret.cluster.links.services import MULTICAST_SERVICE, Peer
from leveret.cluster.mirrors import frames
from leveret.cluster.mirrors.batches import Batch
from leveret.cluster.mirrors.decisions import Range
from leveret.cluster.mirrors.leader_session import LeaderSession, sender_number
from leveret.cluster.mirrors.mirror_record import MirrorRecord, RecordedReplica
from leveret.cluster.mirrors.publishing import MirroredPublishing
from leveret.cluster.mirrors.replica_host import ReplicaHost
from leveret.cluster.mirrors.ring import OwnMember
from leveret.cluster.mirrors.synchronisation import when_readable
from leveret.cluster.remote_queues.hosted_publisher import HostedPublisher
from leveret.cluster.remote_queues.hosted_publishes import HostedPublishes, Pairs
from leveret.cluster.remote_queues.queue_frames import QueueFrameError
from leveret.storage.contract.backing_queue import Unreadable

ReportLater = Callable[[HostedPublishes, int], object]


class SendingNode:
    """A linked node that publishes to the queue. sender: its number in decisions. next_number: that
    of its next message.
    """

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


class ReplicaFrames:
    """The frames of one queue. record: the one that is applied; None before the first."""

    __slots__ = ("_host", "_identity", "_own", "_publishing", "_sending", "_waiting", "record")

    def __init__(
        self, identity: int, own: OwnMember, publishing: MirroredPublishing, host: ReplicaHost
    ) -> None:
        """identity: that of the queue's ring."""
        self._identity = identity
        self._own = own
        self._publishing = publishing
        self._host = host
        self.record: MirrorRecord | None = None
        self._sending: dict[str, SendingNode] = {}
        # The last request of each kind from each node.
        self._waiting: dict[tuple[str, int], Callable[[], object]] = {}

    def tell_owed(self, node: str) -> None:
        """Tell the leader's node the runs that wait for its confirm."""
        runs = self._publishing.owed_runs
        if runs:
            self._host.send(node, frames.owed(self._identity, runs))

    def opened(self) -> None:
        """The queue is led here now: answer waiting requests, and ask which runs are owed."""
        for node in self._host.peers:
            self._host.send(node, (frames.about(frames.LEADS, self._identity),))
        waiting, self._waiting = self._waiting, {}
        for ask in waiting.values():
            ask()

    def leader_ended(self) -> None:
        """The queue is no longer led here: a mirror in its place starts with the next frames."""
        mirror = self._own.mirror
        for sending in self._sending.values():
            sending.leader_ended()
            if mirror is not None:
                mirror.sender_begins(sending.sender, sending.next_number)

    def ask_where_to_begin(self) -> None:
        """A mirror begins: ask all nodes for the numbers with which their contents begin."""
        for node in self._host.peers:
            self._host.send(node, (frames.about(frames.BEGINS_WANTED, self._identity),))

    def peer_down(self, node: str) -> None:
        """The link to a node is down."""
        self._sending.pop(node, None)

    def send_batch(self, mirror: Member, kind: int, batch: Batch) -> None:
        """Send messages to a mirror."""
        place = None if self.record is None else self.record.group.place_of(mirror)
        if place is not None:
            pieces = batch.encode(self._host.wall_offset_ms)
            self._host.send(mirror.node, frames.batch(kind, self._identity, place.place_id, pieces))

    def received(self, peer: Peer, kind: int, payload: bytes) -> None:
        """A frame about the queue. Raises ValueError."""
        if kind == frames.CONTENTS:
            self._sending_node(peer).contents(payload)
        elif kind == frames.TAKEN:
            self._publishing.taken(peer.name, frames.read_taken(payload))
        elif kind == frames.KEPT:
            self._kept(peer, payload)
        elif kind == frames.CONFIRMED:
            self._confirmed(peer, payload)
        elif kind in (frames.BATCH, frames.MESSAGES):
            self._batch(kind, payload)
        elif kind == frames.LACKS:
            self._lacks(peer, payload)
        elif kind == frames.WANTED:
            self._when_open(peer, kind, partial(self._wanted, peer, *frames.read_wanted(payload)))
        elif kind == frames.OWED:
            runs = frames.read_owed(payload)
            self._when_open(peer, kind, partial(self._sending_node(peer).owed, runs))
        elif kind == frames.LEADS:
            self.tell_owed(peer.name)
        elif kind == frames.BEGINS:
            self._begins(peer, payload)
        elif kind == frames.BEGINS_WANTED:
            version = 0 if self.record is None else self.record.group.version
            self._publishing.tell_begin(peer.name, version)
        else:
            raise QueueFrameError(f"a frame of the unknown kind {kind}")

    # Nodes that publish

    def _sending_node(self, peer: Peer) -> SendingNode:
        sending = self._sending.get(peer.name)
        if sending is None:
            report_later = partial(self._host.report_later, peer)
            sending = SendingNode(peer, self._identity, self._own, self._host, report_later)
            self._sending[peer.name] = sending
        return sending

    def _begins(self, peer: Peer, payload: bytes) -> None:
        """A node is about to send contents."""
        number, _ = frames.read_begins(payload)
        self._sending_node(peer).next_number = number
        mirror = self._own.mirror
        if mirror is not None:
            mirror.sender_begins(sender_number(peer.name, peer.incarnation), number)

    def _confirmed(self, peer: Peer, payload: bytes) -> None:
        """The leader confirms runs. A former leader's confirm is ignored: the next one is asked."""
        record = self.record
        if record is not None and record.leader is not None and record.leader.node == peer.name:
            self._publishing.confirmed(*frames.read_confirmed(payload))

    # Mirrors

    def _member(self, peer: Peer, place_id: int) -> RecordedReplica | None:
        """The living member of a node; None if a frame is from an earlier one."""
        record = self.record
        member = None if record is None else record.on(peer.name)
        if record is None or member is None:
            return None
        place = record.group.place_of(member.id)
        return member if place is not None and place.place_id == place_id else None

    def _kept(self, peer: Peer, payload: bytes) -> None:
        place_id, turn, batch = frames.read_kept(payload)
        leading, member = self._own.leading, self._member(peer, place_id)
        if leading is not None and member is not None:
            leading.mirror_kept(member.id, turn, batch)

    def _lacks(self, peer: Peer, payload: bytes) -> None:
        place_id, term, ranges = frames.read_lacks(payload)
        leading, member = self._own.leading, self._member(peer, place_id)
        if leading is not None and member is not None and not member.is_synchronised:
            leading.mirror_lacks(member.id, term, ranges)

    def _batch(self, kind: int, payload: bytes) -> None:
        place_id, data = frames.read_batch(payload)
        mirror = self._own.mirror
        if mirror is not None and mirror.place_id == place_id:
            mirror.batch(kind, data)

    # Requests to the leader

    def _when_open(self, peer: Peer, kind: int, answer: Callable[[], object]) -> None:
        """Answer a node's request to the leader now, or when this node has opened the queue."""
        if self._own.leading is None:
            self._waiting[peer.name, kind] = answer
        else:
            answer()

    def _wanted(self, peer: Peer, place_id: int, start: int, end: int) -> None:
        leading, member = self._own.leading, self._member(peer, place_id)
        assert leading is not None, "a leader is asked"
        if member is None:
            return
        self._own.broadcast()
        try:
            batch = leading.messages(start, end)
        except Unreadable as error:
            again = partial(self._wanted_again, leading, peer, place_id, start, end)
            when_readable(error, self._host.call_later_ms, again)
            return
        self.send_batch(member.id, frames.MESSAGES, batch)

    def _wanted_again(
        self, asked: LeaderSession, peer: Peer, place_id: int, start: int, end: int
    ) -> None:
        # The mirror asks again when another member leads, and when it is linked again.
        is_linked = self._host.peers.get(peer.name) is peer
        if is_linked and self._own.leading is asked:
            self._wanted(peer, place_id, start, end)

"""One mirrored queue on this node: its client, and the member that this node has in its ring.

The record names the members and the leader (mirror_record.py). The actions of this node follow from
it, each time a newer one is applied:

    this node has a new member      it begins in the ring, as a mirror, or leads with its messages
    it no longer has one            the messages here are kept as a copy, if the record says so
    it leads, and has not so far    its mirror is promoted (promotion.py)
    it no longer leads, but lives   it mirrors the queue that it has led (demotion.py)
    another node leads              the client turns to that one
    there is no record any longer   the queue lives on the leader's node alone

A new mirror has no messages. The copy that this node had before is given up (retained_copy.py).

Invariants:
RP1. This node has a ring exactly while the record names a living member of this life of the node
     that has begun here. A member that cannot begin, because its first entry was skipped, is
     reported dead.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.turns import Flushable
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.gm.group import Change, Died, Member
from leveret.cluster.links.services import Peer
from leveret.cluster.mirrors import demotion, frames, late_confirms, promotion
from leveret.cluster.mirrors.decisions import Range
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.mirrors.leader_backing_queue import LeaderBackingQueue
from leveret.cluster.mirrors.leader_session import LeaderSession, sender_number
from leveret.cluster.mirrors.mirror_member import MirrorMember
from leveret.cluster.mirrors.mirror_record import MirrorRecord, log_lines
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.mirrors.own_member import OwnMember
from leveret.cluster.mirrors.publishing import MirroredPublishing
from leveret.cluster.mirrors.remote_leader import RemoteLeader
from leveret.cluster.mirrors.replica_frames import ReplicaFrames
from leveret.cluster.mirrors.replica_host import ReplicaHost
from leveret.cluster.mirrors.retained_copy import RetainedCopy
from leveret.cluster.mirrors.ring import Ring
from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.storage.contract.backing_queue import BackingQueue

logger = logging.getLogger("leveret.cluster")


class ReplicaRequests(NamedTuple):
    """What replicas ask of the service of their node. ended: the queue is deleted, or the node
    stops. submit, synchronised: see `Replicas`.
    """

    submit: Callable[["Replica", Change], object]
    synchronised: Callable[["Replica", Member], object]
    ended: Callable[["Replica"], object]


class Replica(Flushable):
    """See the module. identity: that of the ring. queue: the client. publishing: the client's part.

    own: the member of this node. copy: what the node has without one. is_dirty: `flush` is due at
    the end of the round. is_over: the queue is deleted, or no longer mirrored.
    """

    __slots__ = (
        "_frames", "_host", "_promotion", "_remote_leader", "_requests", "copy", "identity",
        "is_over", "late", "own", "publishing", "queue", "record", "vhost",
    )  # fmt: skip

    def __init__(
        self,
        host: ReplicaHost,
        requests: ReplicaRequests,
        identity: int,
        specification: QueueSpecification,
    ) -> None:
        super().__init__()
        self._host = host
        self._requests = requests
        self.vhost: VirtualHost = host.vhosts[specification.vhost]
        self.identity = identity
        self.own = own = OwnMember()
        untaken = host.remote_queues.untaken
        self.publishing = MirroredPublishing(
            specification.name, identity, host.sender, own, untaken
        )
        self.queue = MirroredQueue(specification, self.publishing)
        self.record: MirrorRecord | None = None
        self._remote_leader = RemoteLeader(self.queue, host.make_remote)
        self._promotion = promotion.Promotion()
        self.copy = RetainedCopy(host.when_stable, self.work)
        self._frames = ReplicaFrames(identity, own, self.publishing, host)
        self.late = late_confirms.LateConfirms()
        self.is_over = False
        self.queue.ended = self._queue_ended

    def __repr__(self) -> str:
        return f"<Replica of {self.queue!r}>"

    @property
    def member(self) -> Member | None:
        """The member on this node; None if there is none."""
        return self.own.id

    @property
    def leading(self) -> LeaderSession | None:
        """The leader on this node; None if it does not lead."""
        return self.own.leading

    @property
    def mirror(self) -> MirrorMember | None:
        """The mirror on this node; None if it does not mirror."""
        return self.own.mirror

    @property
    def own_ring(self) -> Ring | None:
        """The ring of the member on this node; None if there is none."""
        return self.own.ring

    # The record

    def lead_first(self, queue: ClassicQueue, backing: LeaderBackingQueue, kept: KeptTurns) -> None:
        """Mirroring of the queue on this node begins: it leads, as the record will say."""
        self.own.leading = promotion.begun(self._leader_parts(), queue, backing, kept)

    def follow_first(self, remote: RemoteQueue, leader: Member) -> None:
        """Mirroring of a queue on another node begins: that node leads."""
        self._remote_leader.begin_with(remote, leader)

    def apply(self, record: MirrorRecord, storage_id: int = 0) -> None:
        """A newer record is applied on this node. storage_id: see `Listener`."""
        host = self._host
        for line in log_lines(self.record, record, host.node, host.incarnation):
            self._log(logging.INFO, line)
        self.record = self._frames.record = record
        own = record.on(host.node)
        is_here = own is not None and own.id.incarnation == host.incarnation
        if self.own.ring is not None and (own is None or own.id != self.member):
            for node, message in self.own.ring.early:
                # They are for the next member of this node.
                host.keep_early(node, self.identity, message)
            self.expelled()
        if self.own.leading is not None and own is not None and record.leader != own.id and is_here:
            self._hand_over(self.own.leading, own.id, record)
        if own is not None and is_here and self.own.ring is None:
            self._begin(own.id, record, storage_id)
        elif storage_id:
            # A restart has found messages under this storage id.
            self.queue.storage_id = storage_id
            self.copy.messages = host.open_copy(self.vhost, self.queue)
        if self.own.ring is not None:
            self.own.ring.group_changed(record.group)
        self.copy.discard_unless_named(record, host.node)
        self._set_members(record)
        self._follow(record)

    def _log(self, level: int, text: str) -> None:
        queue = resource(QUEUE, self.queue.name, self.vhost.name)
        logger.log(level, "mirrored %s: %s", queue, text)

    def _begin(self, member: Member, record: MirrorRecord, storage_id: int) -> None:
        """A new member of this node begins in the ring (RP1)."""
        host = self._host
        place = record.group.place_of(member)
        assert place is not None, "MQ9: a member of the record is in its ring"
        returns = record.leader == member and self.own.leading is None
        has_room = storage_id != 0 or not self.queue.durable
        copy = self.copy.take() if returns else None
        if copy is not None:
            # The queue has waited for this node: it leads again, with its copy.
            self.own.leading = promotion.returned(self._leader_parts(), copy, record)
        elif record.leader != member and not place.has_joined and has_room:
            self.copy.discard()
            self.queue.storage_id = storage_id
            self.own.mirror = MirrorMember(
                place.place_id, self, host.addresses, host.wall_offset_ms
            )
        elif self.own.leading is None:
            self.submit(Died((member,), member))
            return
        self.own.ring = Ring(member, host, self)
        for peer in host.peers.values():
            self.own.ring.link_up(peer.name, peer.incarnation)
        if self.own.mirror is not None:
            self.own.mirror.sender_begins(self.publishing.sender, self.publishing.next_number)
            self._frames.ask_where_to_begin()

    def expelled(self) -> None:
        """The record no longer has the member of this node."""
        self.own.ring = None
        mirror, self.own.mirror = self.own.mirror, None
        self._promotion.end()
        if mirror is not None:
            self.copy.messages = mirror.give_up()
        leading = self.own.leading
        if leading is not None:
            self._end_leading(leading)
            self._frames.leader_ended()
            self.copy.messages = leading.backing.inner

    def _hand_over(self, leading: LeaderSession, member: Member, record: MirrorRecord) -> None:
        """Another member leads: the one of this node mirrors the queue that it has led so far."""
        host, place = self._host, record.group.place_of(member)
        assert place is not None, "MQ9: a member of the record is in its ring"
        self.own.broadcast()
        self._promotion.end()
        self._end_leading(leading)
        self.own.mirror = MirrorMember(place.place_id, self, host.addresses, host.wall_offset_ms)
        self.own.mirror.has_led(leading)
        self.own.mirror.sender_begins(self.publishing.sender, self.publishing.next_number)
        self._frames.leader_ended()

    def _end_leading(self, leading: LeaderSession) -> None:
        self.own.leading = None
        self._host.left(self.queue)
        demotion.end_leading(leading, self.queue, self.publishing)

    def _queue_ended(self, is_deleted: bool) -> None:
        """The queue is deleted, with all copies; or the node stops. The leader has ended itself."""
        self.own.ring = self.own.leading = None
        self.is_over = True
        mirror, self.own.mirror = self.own.mirror, None
        if is_deleted:
            if mirror is not None:
                self.copy.messages = mirror.give_up()
            self.copy.delete()
        self._requests.ended(self)

    def end_mirroring(self) -> QueueClient:
        """The queue is no longer mirrored: returns its client from now on.

        Contents that other nodes sent before they knew it are still published and confirmed.
        """
        self.is_over = True
        leading = self.own.leading
        if leading is not None and self.queue.placement.node == self._host.node:
            self.own.ring = None
            self._host.when_stable(leading.end_mirroring)
            return leading.queue
        self.expelled()
        self.copy.discard()
        return self._remote_leader.go_on_alone()

    def _set_members(self, record: MirrorRecord) -> None:
        """Send contents to the members of all other nodes that are linked."""
        nodes = [one.id.node for one in record.members]
        self.publishing.set_members(nodes, self._host.member_nodes, record.group.version)

    # The leader

    def _follow(self, record: MirrorRecord) -> None:
        """Turn to the leader that the record names."""
        leader = record.leader
        if self._remote_leader.member not in (None, leader):
            self._remote_leader.leave()
        if leader != self.member:
            self._promotion.end()
        if leader is None:
            if not self.queue.is_down:
                self.queue.awaits()
                self.publishing.fail()
        elif leader == self.member:
            self._lead()
        elif self._remote_leader.member is None:
            peer = self._host.peers.get(leader.node)
            if peer is not None and peer.incarnation == leader.incarnation:
                self._turn_to(leader)

    def _turn_to(self, leader: Member) -> None:
        """The leader is on another node."""
        self._remote_leader.turn_to(leader)
        self._frames.tell_owed(self.queue.placement.node)
        if self.own.mirror is not None:
            self.own.mirror.leader_changed()

    def _lead(self) -> None:
        """Lead on this node: at once if it has the queue, otherwise when its mirror is promoted."""
        if self.own.leading is None:
            assert self.own.ring is not None, "RP1"
            self._promotion.begin(self.own.ring)
        elif self.queue.leader is None:
            self.queue.led_by(self.own.leading.queue, is_here=True)
            self._frames.opened()

    def _leader_parts(self) -> promotion.LeaderParts:
        host, vhost, queue = self._host, self.vhost, self.queue
        return promotion.LeaderParts(
            partial(host.mirroring_of, vhost.name, queue),
            partial(self._requests.synchronised, self),
            partial(host.make_leader, vhost, queue), host.when_stable, self.flush,
            self.flush_later, host.call_later_ms, host.wall_offset_ms,
        )  # fmt: skip

    def _promote(self) -> None:
        """Lead when all decisions that have come are applied (MQ8), at once if they are."""
        mirror, record = self.own.mirror, self.record
        if mirror is None or record is None or not self._promotion.may_lead(record, self.member):
            return
        promoted = mirror.promote()
        if promoted is None:
            return
        if promoted.void:
            lacked = sum([end - start for start, end in promoted.void])
            text = "the new leader lacks messages that the leader before it had"
            self._log(logging.WARNING, f"{text}, {lacked} at most")
        leading = promotion.promoted(self._leader_parts(), promoted, record, self.member)
        self.own.mirror, self.own.leading = None, leading
        self.queue.led_by(leading.queue, is_here=True)
        self._host.opened(self.queue)
        promotion.settle_owed(leading, self.publishing)
        self._frames.opened()

    # The ring (RingUser)

    def confirmed(self, through: int) -> None:
        """All members have delivered this member's broadcasts through a number."""
        if self.own.mirror is not None:
            self._promotion.confirmed(through)
            self._promote()

    def delivered(self, sender: Member, payloads: list[bytes]) -> None:
        """Decisions of a leader, or the mark of a new one."""
        for payload in payloads:
            if payload and self.own.mirror is not None:
                self.own.mirror.decided(payload)

    def members_changed(self, added: tuple[Member, ...], died: tuple[Member, ...]) -> None:
        """The ring has other members."""
        leading, record = self.own.leading, self.record
        if leading is None or record is None:
            return
        for member in added:
            place = record.group.place_of(member)
            assert place is not None, "an added member is in the ring"
            leading.mirror_joined(member, place.place_id)
        for member in died:
            leading.synchronising.died(member)
            self._host.when_stable(partial(leading.mirror_gone, member))

    def submit(self, change: Change) -> None:
        """Have a change made in the record; repeat it until it is made or refused."""
        self._requests.submit(self, change)

    # The mirror (MirrorUser)

    def tell_leader(self, *pieces: bytes) -> None:
        """Send a frame to the leader, if it is linked."""
        record = self.record
        if record is not None and record.leader is not None:
            self._host.send(record.leader.node, pieces)

    def is_linked(self, sender: int) -> bool:
        """Whether this sender is a linked node, or this one."""
        return sender in self._host.senders

    def flush_later(self) -> None:
        """Call `flush` at the end of the round."""
        self._host.flush_later(self)

    def leave(self, error: Exception) -> None:
        """The mirror's messages are not the leader's: it dies, and the node gets another one."""
        member = self.member
        assert member is not None, "RP1"
        logger.error("the mirror of %r on this node is given up: %s", self.queue, error)
        self.submit(Died((member,), member))

    def after_ms(self, delay_ms: int, callback: Callable[[], object]) -> None:
        """Call back after a time, if the member lives then."""
        member = self.member
        self._host.call_later_ms(delay_ms, lambda: callback() if self.member is member else None)

    def make_backing(self, lacked: list[Range]) -> BackingQueue:
        """A new backing queue for a mirror that lacks these positions."""
        return self._host.make_mirror_backing(self.vhost, self.queue, lacked)

    def work(self, steps: Iterator[int]) -> None:
        """Take the steps of freeing messages in turns of the event loop."""
        self._host.work(f"freeing messages of {self.queue!r}", steps)

    # Once a round

    def flush(self) -> None:
        """Broadcast the decisions, or report kept turns to the leader."""
        leading, mirror = self.own.leading, self.own.mirror
        if leading is not None:
            self.own.broadcast()
            for member, batch in leading.batches():
                self._frames.send_batch(member, frames.BATCH, batch)
            if leading.synchronising.has_batches:
                self.flush_later()
        elif mirror is not None:
            mirror.report()
            self._promote()

    def look(self) -> None:
        """A quarter of a net_ticktime has passed: look for late confirms."""
        record = self.record
        if record is None:
            return
        for finding in self.late.look(self._facts(record)):
            match finding:
                case str():
                    self._log(logging.WARNING, finding)
                case Died():
                    self.submit(finding)
                case late_confirms.AskForMissing() if self.own.mirror is not None:
                    self.own.mirror.ask_for_missing()
                case late_confirms.GiveUpContents() if self.own.mirror is not None:
                    self.own.mirror.sender_gone(finding.sender)
                case late_confirms.TellOwed():
                    self._frames.tell_owed(self.queue.placement.node)

    def _facts(self, record: MirrorRecord) -> late_confirms.Facts:
        leading, mirror = self.own.leading, self.own.mirror
        is_next = record.leader == self.member and mirror is not None
        is_owed = self.publishing.is_owed and self.queue.leader is not None
        return late_confirms.Facts(
            self.member, frozenset([one.id for one in record.members]),
            None if leading is None else leading.kept, None if mirror is None else mirror.waiting,
            self._promotion.has_come_round if is_next else None,
            self.publishing.settled if is_owed else None, self._host.senders,
        )  # fmt: skip

    # Links

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up."""
        if self.own.ring is not None:
            self.own.ring.link_up(peer.name, peer.incarnation)
        if self.record is not None:
            self._set_members(self.record)
            self._follow(self.record)

    def peer_down(self, peer: Peer) -> None:
        """The link to a node is down."""
        node = peer.name
        self._frames.peer_down(node)
        self.publishing.link_down(node)
        if self._remote_leader.member is not None and self._remote_leader.member.node == node:
            self._remote_leader.leave()
        if self.own.mirror is not None:
            self.own.mirror.sender_gone(sender_number(node, peer.incarnation))
        if self.own.ring is not None:
            self.own.ring.link_down(node)

    def ring_message(self, node: str, message: bytes) -> None:
        """A message of the ring. Raises ValueError."""
        if self.own.ring is not None:
            self.own.ring.received(node, message)

    def received(self, peer: Peer, kind: int, payload: bytes) -> None:
        """A frame about the queue. Raises ValueError."""
        self._frames.received(peer, kind, payload)

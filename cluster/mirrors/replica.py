"""One mirrored queue on this node: its client, and the member that this node has in its ring.

The state machine of the replica (replica_steps.py) decides what happens to the member when the
record or the links change; its outputs are carried out here, in order. Contents, decisions, batches
and confirms do not pass through the machine: they go directly to the leader or the mirror of this
node (ring.py).
"""

import logging
from collections.abc import Callable, Iterator, Set
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
from leveret.cluster.mirrors import frames, late_confirms, leaders
from leveret.cluster.mirrors import replica_steps as steps
from leveret.cluster.mirrors.decisions import Range
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.mirrors.leader_backing_queue import LeaderBackingQueue
from leveret.cluster.mirrors.leader_session import LeaderSession, sender_number
from leveret.cluster.mirrors.leaders import RemoteLeader
from leveret.cluster.mirrors.mirror_member import MirrorMember
from leveret.cluster.mirrors.mirror_record import MirrorRecord, parted_by
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.mirrors.publishing import MirroredPublishing
from leveret.cluster.mirrors.replica_frames import ReplicaFrames
from leveret.cluster.mirrors.replica_host import ReplicaHost
from leveret.cluster.mirrors.ring import OwnMember, Ring
from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.storage.contract.backing_queue import BackingQueue

logger = logging.getLogger("leveret.cluster")


class ReplicaRequests(NamedTuple):
    """The requests of replicas to the service of their node. ended: the queue is deleted, or the
    node stops. submit, synchronised: as in `Replicas`.
    """

    submit: Callable[["Replica", Change], object]
    synchronised: Callable[["Replica", Member], object]
    ended: Callable[["Replica"], object]


class Replica(Flushable):
    """A mirrored queue here. identity: its ring's. queue: the client. publishing: the client's
    part.

    record: the applied one; None before the first. own: the member of this node. copy: the messages
    that the node has without a member. is_dirty: `flush` is due at the end of the round.
    """

    __slots__ = (
        "_frames", "_host", "_remote_leader", "_requests", "_steps", "copy", "identity", "late",
        "own", "publishing", "queue", "record", "vhost",
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
        self._remote_leader = RemoteLeader(self.queue, host.remote_queues)
        self._steps = steps.ReplicaSteps(host.node, host.incarnation, specification.durable)
        for peer in host.peers.values():
            self._steps.linked(peer.name, peer.incarnation)
        self.copy: BackingQueue | None = None
        self._frames = ReplicaFrames(identity, own, self.publishing, host)
        self.late = late_confirms.LateConfirms()
        self.queue.ended = self._queue_ended

    def __repr__(self) -> str:
        return f"the member of {self.queue!r}"

    @property
    def member(self) -> Member | None:
        """The member on this node; None if there is none."""
        return self._steps.member

    @property
    def is_over(self) -> bool:
        """Whether the queue is deleted, or no longer mirrored."""
        return self._steps.is_over

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
        self.own.leading = self._leader_parts().leading(queue, backing, kept)
        self._steps.lead_first()

    def follow_first(self, remote: RemoteQueue, leader: Member) -> None:
        """Mirroring of a queue on another node begins: that node leads."""
        self._remote_leader.begin_with(remote)
        self._steps.follow_first(leader)

    def apply(self, record: MirrorRecord, storage_id: int = 0) -> None:
        """Apply a newer record. storage_id: as for `Listener`."""
        self.record = self._frames.record = record
        own = self.own
        has_begun = own.mirror is not None and own.mirror.queue is not None
        has_messages = has_begun or own.leading is not None or self.copy is not None
        self._carry_out(self._steps.applied(record, storage_id, has_messages))

    def end_mirroring(self) -> QueueClient:
        """The queue is no longer mirrored: returns its client from now on.

        Contents that other nodes sent before they learnt of it are still published and confirmed.
        """
        is_here = self.queue.placement.node == self._host.node
        self._carry_out(self._steps.unmirrored(is_here))
        leading = self.own.leading
        return self._remote_leader.go_on_alone() if leading is None else leading.queue

    def _queue_ended(self, is_deleted: bool) -> None:
        """The queue is deleted, with all copies; or the node stops. The leader has ended itself."""
        self._steps.ended()
        self.own.ring = self.own.leading = None
        mirror, self.own.mirror = self.own.mirror, None
        if is_deleted:
            if mirror is not None:
                self.copy = mirror.give_up()
            self._delete(self._take_copy())
        self._requests.ended(self)

    # Outputs of the machine

    def _carry_out(self, outputs: list[steps.Output]) -> None:
        host = self._host
        for output in outputs:
            match output:
                case steps.LogText():
                    self._log(logging.INFO, output.text)
                case steps.RequestChange():
                    self.submit(output.change)
                case steps.PassOnEarly():
                    self._pass_on_early()
                case steps.EndMember():
                    self._end_member()
                case steps.Demote():
                    self._demote(output.place_id)
                case steps.LeadWithCopy():
                    self._lead_with_copy()
                case steps.BeginMirror():
                    self.queue.storage_id = output.storage_id
                    self.own.mirror = self._new_mirror(output.place_id)
                case steps.BeginRing():
                    self._begin_ring(output.member)
                case steps.ChangeRing():
                    self._ring.group_changed(output.group)
                case steps.OpenCopy():
                    self.queue.storage_id = output.storage_id
                    self.copy = host.open_copy(self.vhost, self.queue)
                case steps.GiveUpCopy():
                    self._give_up_copy()
                case steps.WhenStable():
                    host.when_stable(partial(self._stable, output.number))
                case steps.DeleteCopy():
                    self._delete(self._take_copy())
                case steps.SetMembers():
                    self.publishing.set_members(output.nodes, host.member_nodes, output.version)
                case steps.BroadcastMark():
                    if self._ring.is_joined:
                        self._steps.mark_sent(self._ring.broadcast(b""))
                case steps.PromoteMirror():
                    self._promote()
                case steps.OpenHere():
                    self._open()
                case steps.Follow():
                    self._follow()
                case steps.LeaveLeader():
                    self._remote_leader.leave()
                case steps.Await():
                    self.queue.awaits()
                    self.publishing.fail()
                case steps.ContinueAlone():
                    self._end_mirrors()

    def _log(self, level: int, text: str) -> None:
        queue = resource(QUEUE, self.queue.name, self.vhost.name)
        logger.log(level, "mirrored %s: %s", queue, text)

    @property
    def _ring(self) -> Ring:
        ring = self.own.ring
        assert ring is not None, "RP1"
        return ring

    def _pass_on_early(self) -> None:
        if self.own.ring is not None:
            for node, message in self.own.ring.early:
                self._host.keep_early(node, self.identity, message)

    def _end_member(self) -> None:
        self.own.ring = None
        mirror, self.own.mirror = self.own.mirror, None
        if mirror is not None:
            self.copy = mirror.give_up()
        if self.own.leading is not None:
            self.copy = self._end_leading(self.own.leading)
            self._frames.leader_ended()

    def _demote(self, place_id: int) -> None:
        leading = self.own.leading
        assert leading is not None, "a leader is demoted"
        self.own.broadcast()
        self._end_leading(leading)
        mirror = self.own.mirror = self._new_mirror(place_id)
        mirror.has_led(leading)
        mirror.sender_begins(self.publishing.sender, self.publishing.next_number)
        self._frames.leader_ended()

    def _end_leading(self, leading: LeaderSession) -> BackingQueue:
        """Stop leading; returns the messages."""
        self.own.leading = None
        self._host.left(self.queue)
        leaders.end_leading(leading, self.queue, self.publishing)
        return leading.backing.inner

    def _new_mirror(self, place_id: int) -> MirrorMember:
        host = self._host
        return MirrorMember(place_id, self, host.addresses, host.wall_offset_ms)

    def _begin_ring(self, member: Member) -> None:
        ring = self.own.ring = Ring(member, self._host, self)
        for peer in self._host.peers.values():
            ring.link_up(peer.name, peer.incarnation)
        if self.own.mirror is not None:
            self.own.mirror.sender_begins(self.publishing.sender, self.publishing.next_number)
            self._frames.ask_where_to_begin()

    def _lead_with_copy(self) -> None:
        copy, record = self._take_copy(), self.record
        assert copy is not None, "a node that returns has messages"
        assert record is not None, "it returns by a record"
        self.own.leading = leaders.returned(self._leader_parts(), copy, record)

    def _open(self) -> None:
        leading = self.own.leading
        assert leading is not None, "a leader opens the queue"
        self.queue.led_by(leading.queue, is_here=True)
        self._host.opened(self.queue)
        leaders.settle_owed(leading, self.publishing)
        self._frames.opened()

    def _follow(self) -> None:
        self._remote_leader.turn_to()
        self._frames.tell_owed(self.queue.placement.node)
        if self.own.mirror is not None:
            self.own.mirror.leader_changed()

    def _end_mirrors(self) -> None:
        leading = self.own.leading
        assert leading is not None, "the queue is led here"
        self.own.ring = None
        self._host.when_stable(leading.end_mirroring)

    # The copy

    def _take_copy(self) -> BackingQueue | None:
        copy, self.copy = self.copy, None
        return copy

    def _give_up_copy(self) -> None:
        copy = self._take_copy()
        if copy is not None:
            self._host.when_stable(partial(self._delete, copy))

    def _delete(self, messages: BackingQueue | None) -> None:
        if messages is not None:
            self.work(messages.delete())

    def _stable(self, number: int) -> None:
        self._carry_out(self._steps.stable(number))

    # Promotion

    def _leader_parts(self) -> leaders.LeaderParts:
        synchronised = partial(self._requests.synchronised, self)
        return leaders.LeaderParts(
            self._host, self.vhost, self.queue, synchronised, self.flush, self.flush_later
        )

    def _promote(self) -> None:
        """Lead if all decisions that have arrived are applied."""
        mirror, record = self.own.mirror, self.record
        assert mirror is not None, "a mirror is promoted"
        assert record is not None, "it is promoted by a record"
        promoted = mirror.promote()
        if promoted is None:
            return
        if promoted.void:
            lacked = sum([end - start for start, end in promoted.void])
            text = "the new leader lacks messages of the former leader"
            self._log(logging.WARNING, f"{text}, {lacked} at most")
        parts = self._leader_parts()
        self.own.leading = leaders.promoted(parts, promoted, record, self.member)
        self.own.mirror = None
        self._carry_out(self._steps.promoted())

    # The ring (RingUser)

    def confirmed(self, through: int) -> None:
        """All members have delivered this member's broadcasts through a number."""
        if self.own.mirror is not None:
            self._carry_out(self._steps.confirmed(through))

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
        """Submit a change of the record, again and again until it is made or refused."""
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
        """End a mirror whose messages differ from the leader's; the node gets a new one."""
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
            if self._steps.has_gone_round:
                self._promote()

    def look(self, apart: Set[str] = frozenset()) -> None:
        """Look for late confirms; called every quarter of a net_ticktime.

        apart: the linked nodes that are on other sides of a partition.
        """
        record = self.record
        if record is None:
            return
        for finding in self.late.look(self._facts(record, apart)):
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

    def _facts(self, record: MirrorRecord, apart: Set[str]) -> late_confirms.Facts:
        leading, mirror = self.own.leading, self.own.mirror
        parted = parted_by(record, self.member, apart)
        is_next = record.leader == self.member and mirror is not None
        is_owed = self.publishing.is_owed and self.queue.leader is not None
        return late_confirms.Facts(
            self.member, record.group.living_after(self.member), parted,
            record.home, None if leading is None else leading.kept,
            None if mirror is None else mirror.waiting,
            self._steps.has_gone_round if is_next else None,
            self.publishing.settled if is_owed else None, self._host.senders,
        )  # fmt: skip

    # Links

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up."""
        if self.own.ring is not None:
            self.own.ring.link_up(peer.name, peer.incarnation)
        self._carry_out(self._steps.linked(peer.name, peer.incarnation))

    def peer_down(self, peer: Peer) -> None:
        """The link to a node is down."""
        node = peer.name
        self._frames.peer_down(node)
        self.publishing.link_down(node)
        self._carry_out(self._steps.unlinked(node))
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

"""The mirrored queues of this node: the service of the links for rings and contents.

Each mirrored queue has a `Replica`, found by the identity of its ring. It is made when the first
record of the queue is applied here, and ends when the queue is deleted. Frames that come before the
queue's record, or the record by which this node has a member, is applied here are kept until it is,
up to a limit; above that the link is closed, and the frames are sent again.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.priority_levels import Levels, priority_levels
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.specification import QueueSpecification, specification_of
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.turns import Flushable
from leveret.broker.services.services import Services
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.gm.activity import read_head
from leveret.cluster.gm.group import Change, Member
from leveret.cluster.links.services import (
    MULTICAST_SERVICE,
    PAYLOAD_ERRORS,
    Peer,
    ServiceRegistry,
    damaged_reason,
)
from leveret.cluster.mirrors import frames
from leveret.cluster.mirrors.decisions import Range
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.mirrors.leader_backing_queue import LeaderBackingQueue
from leveret.cluster.mirrors.leader_session import sender_number
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.mirror_storage import make_mirror_queue
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.mirrors.own_member import OwnMember
from leveret.cluster.mirrors.planning import NOT_MIRRORED, Mirroring
from leveret.cluster.mirrors.publishing import MemberNode, MirroredPublishing
from leveret.cluster.mirrors.record_changes import decode_record
from leveret.cluster.mirrors.replica import Replica
from leveret.cluster.mirrors.replica_host import QueueReplica
from leveret.cluster.mirrors.ring import Ring
from leveret.cluster.remote_queues.hosted_publishes import HostedPublishes
from leveret.cluster.remote_queues.queue_frames import FrameError
from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.messages.message import Entry

logger = logging.getLogger("leveret.cluster")

Submit = Callable[[QueueReplica, Change], object]
Synchronised = Callable[[QueueReplica, Member], object]


EARLY_BYTES_MAX = 64 * 1024 * 1024
"""The most bytes of frames of one link for members that this node does not have yet."""


LOOK_WORK = 4
"""The work of looking for late confirms of a queue, in the units of broker/runtime/turns.py."""
LATE_MS = 60_000
"""How long a queue that is no longer mirrored takes contents of nodes that do not know it yet."""


class EarlyFrames:
    """Frames for members that this node does not have yet, by the identity of the ring."""

    def __init__(self) -> None:
        self._kept: dict[int, list[tuple[Peer, bytes]]] = {}
        self._kept_bytes: dict[Peer, int] = {}

    def waits(self, identity: int, peer: Peer) -> bool:
        """Whether frames of a link wait for a ring's record; later frames wait, too."""
        return any(one is peer for one, _ in self._kept.get(identity, ()))

    def add(self, identity: int, peer: Peer, payload: bytes) -> None:
        """Keep a frame. Raises FrameError if a link brings too many."""
        size = self._kept_bytes.get(peer, 0) + len(payload)
        if size > EARLY_BYTES_MAX:
            raise FrameError(f"{size} bytes for mirrored queues that are not declared here")
        self._kept_bytes[peer] = size
        self._kept.setdefault(identity, []).append((peer, payload))

    @property
    def identities(self) -> list[int]:
        """The identities of the rings for which frames are kept."""
        return [*self._kept]

    def take(self, identity: int) -> list[tuple[Peer, bytes]]:
        """Take out the frames for a queue, in the order of their arrival."""
        taken = self._kept.pop(identity, [])
        for peer, payload in taken:
            self._kept_bytes[peer] -= len(payload)
        return taken

    def peer_down(self, peer: Peer) -> None:
        """Drop the frames of a link: they are sent again over the next one."""
        self._kept_bytes.pop(peer, None)
        for identity in [*self._kept]:
            left = [one for one in self._kept[identity] if one[0] is not peer]
            if left:
                self._kept[identity] = left
            else:
                del self._kept[identity]


class Replicas:
    """See `Service` and `ReplicaHost`. by_identity: the mirrored queues by their rings' identities.

    is_in_view: the records here are those of a view.
    """

    def __init__(
        self,
        node: str,
        incarnation: int,
        services: Services,
        links: ServiceRegistry,
        remote_queues: RemoteQueues,
        submit: Submit,
        synchronised: Synchronised,
        when_stable: Callable[[Callable[[], object]], object],
        later: Callable[[int, Callable[[], object]], object],
        held_by_clients: Callable[[QueueClient], list[Entry]],
        wall_offset_ms: int = 0,
        mirroring_of: Callable[[str, QueueClient], Mirroring] = lambda vhost, queue: NOT_MIRRORED,
    ) -> None:
        self.node = node
        self.incarnation = incarnation
        self.is_in_view = False
        self.wall_offset_ms = wall_offset_ms
        self.addresses = remote_queues.addresses
        self.peers: dict[str, Peer] = {}
        self.senders = {sender_number(node, incarnation): node}
        self.by_identity: dict[int, Replica] = {}
        self._by_client: dict[QueueClient, Replica] = {}
        self._services = services
        self._remote_queues = remote_queues
        self._submit = submit
        self._synchronised = synchronised
        self.call_later_ms = later
        self._mirroring_of = mirroring_of
        self._when_stable = when_stable
        self._held_by_clients = held_by_clients
        self.member_nodes: dict[str, MemberNode] = {}
        self._early = EarlyFrames()
        links.register(MULTICAST_SERVICE, self)

    # Records

    def make_queue(self, specification: QueueSpecification, record: MirrorRecord) -> QueueClient:
        """The client of a queue that is declared with a record."""
        vhost, identity = self._services.vhosts[specification.vhost], record.group.identity
        own, sender = OwnMember(), sender_number(self.node, self.incarnation)
        publishing = MirroredPublishing(
            specification.name, identity, sender, own, self._remote_queues.untaken
        )
        queue = MirroredQueue(specification, publishing)
        replica = Replica(self, vhost, identity, queue, publishing, own)
        self.by_identity[identity] = self._by_client[queue] = replica
        return queue

    def record_changed(
        self, vhost_name: str, queue: QueueClient, record: MirrorRecord | None, storage_id: int
    ) -> None:
        """A queue was declared with a record, has another one, or no longer has one."""
        vhost = self._services.vhosts[vhost_name]
        if record is None:
            self._end_mirroring(vhost, queue)
            return
        identity = record.group.identity
        replica = self.by_identity.get(identity)
        if replica is None:
            replica = self._begin(vhost, queue, record)
        replica.apply(record, storage_id)
        self._take_early(identity)

    def _take_early(self, identity: int) -> None:
        """Take the waiting frames that are no longer early.

        A damaged one ends its link, as if it came now, but later, since a record is being applied.
        """
        damaged: set[Peer] = set()
        for peer, payload in self._early.take(identity):
            if peer in damaged:
                continue
            try:
                self.received(peer, payload)
            except PAYLOAD_ERRORS as error:
                damaged.add(peer)
                reason = damaged_reason(MULTICAST_SERVICE, error)
                self.call_later_ms(0, partial(peer.drop, reason))

    def view_changed(self, is_in_view: bool) -> None:
        """The node is in a view, whose records it has, or in none yet."""
        self.is_in_view = is_in_view
        for identity in self._early.identities:
            self._take_early(identity)

    def policies_changed(self, vhost_name: str, queue: QueueClient) -> None:
        """Other policies are in force for a queue."""
        record = decode_record(queue.placement.record)
        replica = None if record is None else self.by_identity.get(record.group.identity)
        if replica is not None and replica.leading is not None:
            replica.leading.synchronising.policies_changed()

    def _begin(self, vhost: VirtualHost, queue: QueueClient, record: MirrorRecord) -> Replica:
        """Mirroring of a queue that clients use begins."""
        client = self.make_queue(specification_of(vhost.name, queue), record)
        replica = self.by_identity[record.group.identity]
        vhost.replace_queue(client)
        if isinstance(queue, ClassicQueue):
            self._lead_first(replica, queue)
        elif isinstance(queue, RemoteQueue) and record.leader is not None:
            replica.follow_first(queue, record.leader)
        return replica

    def _lead_first(self, replica: Replica, queue: ClassicQueue) -> None:
        inner = queue.backing
        held: list[Entry] = []
        if inner.unacked_count:
            held = self._held_by_clients(queue) + self._remote_queues.held_of(queue)
        kept = KeptTurns(inner, replica.flush_later)
        backing = LeaderBackingQueue(inner, kept, self.wall_offset_ms, held=held)
        queue.backing = backing
        for consumer in queue.ring.consumers:
            consumer.queue_replaced(replica.queue)
        self._remote_queues.replaced(queue, replica.queue)
        replica.lead_first(queue, backing, kept)

    def _end_mirroring(self, vhost: VirtualHost, queue: QueueClient) -> None:
        replica = self._by_client.pop(queue, None)
        if replica is None:
            return
        after = replica.end_mirroring()
        after.placement = queue.placement
        vhost.replace_queue(after)
        if isinstance(after, ClassicQueue):
            for consumer in after.ring.consumers:
                consumer.queue_replaced(after)
            self._remote_queues.replaced(queue, after)

        def forget() -> None:
            self.by_identity.pop(replica.identity, None)
            replica.publishing.fail()

        self.call_later_ms(LATE_MS, forget)

    def led_messages(self, queue: QueueClient) -> BackingQueue | None:
        """The messages of a mirrored queue that this node leads, or led last; None for others."""
        replica = self._by_client.get(queue)
        if replica is None or replica.record is None or replica.record.home != self.node:
            return None
        return replica.copy.messages if replica.leading is None else replica.leading.backing.inner

    # Late confirms

    def look(self) -> None:
        """A quarter of a net_ticktime has passed: look for late confirms in all queues."""
        if self.by_identity:
            self.work("late confirms of mirrored queues", self._looking())

    def _looking(self) -> Iterator[int]:
        for replica in tuple(self.by_identity.values()):
            if not replica.is_over:
                replica.look()
            yield LOOK_WORK

    @property
    def late_count(self) -> int:
        """The number of queues led here whose confirms have waited longer than net_ticktime."""
        return sum([replica.late.is_late for replica in self.by_identity.values()])

    # ReplicaHost

    @property
    def is_held(self) -> bool:
        """Publishers of this node wait for its store."""
        return self._remote_queues.is_held

    def send(self, node: str, pieces: Sequence[bytes]) -> None:
        """Send a frame to another node, if it is linked."""
        peer = self.peers.get(node)
        if peer is not None:
            peer.send(MULTICAST_SERVICE, *pieces)

    def submit(self, replica: QueueReplica, change: Change) -> None:
        """Have the ring of the record changed; repeat it until it is made or refused."""
        self._submit(replica, change)

    def mirroring_of(self, replica: QueueReplica) -> Mirroring:
        """The mirroring that the matching policies of the queue ask for now."""
        return self._mirroring_of(replica.vhost.name, replica.queue)

    def synchronised(self, replica: QueueReplica, mirror: Member) -> None:
        """Have a mirror marked as synchronised in the record."""
        self._synchronised(replica, mirror)

    def when_stable(self, listener: Callable[[], object]) -> None:
        """Call back when all that is applied now is applied on all nodes of the view, on disk."""
        self._when_stable(listener)

    def flush_later(self, ring: Ring) -> None:
        """Flush a ring at the end of the round."""
        self._services.turns.flush_later(ring)

    def replica_flush_later(self, replica: Flushable) -> None:
        """Flush a replica at the end of the round."""
        self._services.turns.flush_later(replica)

    def after_ms(self, delay_ms: int, ring: Ring, member: Member) -> None:
        """Call `pause_over` after a time."""
        self.call_later_ms(delay_ms, lambda: ring.pause_over(member))

    def work(self, what: str, steps: Iterator[int]) -> None:
        """Take steps in turns of the event loop."""
        LongWork(self._services.turns, what, steps).start()

    def report_later(self, peer: Peer, publishes: HostedPublishes, size: int) -> None:
        """Have a report made to a node at the end of the round, if its link lasts."""
        if self.peers.get(peer.name) is peer:
            self._remote_queues.host(peer).report_later(publishes, size)

    def opened(self, replica: QueueReplica) -> None:
        """The queue is led here from now on: nodes that wait for it may use it."""
        self._remote_queues.added(replica.queue)

    def left(self, replica: QueueReplica) -> None:
        """The queue is no longer led here: nodes repeat their questions to the next leader."""
        self._remote_queues.left(replica.queue)

    def make_leader(self, replica: QueueReplica, backing: BackingQueue) -> ClassicQueue:
        """The queue that leads, on a backing queue."""
        vhost = replica.vhost
        return ClassicQueue(vhost, specification_of(vhost.name, replica.queue), backing)

    def make_mirror_backing(self, replica: QueueReplica, lacked: list[Range]) -> BackingQueue:
        """A new backing queue for a mirror."""
        vhost, queue = replica.vhost, replica.queue
        return make_mirror_queue(
            lacked,
            _levels_of(queue),
            lambda level, is_head: vhost.make_part(queue, level, is_head),
        )

    def open_copy(self, replica: QueueReplica) -> BackingQueue:
        """The messages that a restart found under the queue's storage id."""
        return replica.vhost.make_backing(replica.queue, _levels_of(replica.queue))

    def ended(self, replica: QueueReplica) -> None:
        """The queue is deleted, or the node stops."""
        self.by_identity.pop(replica.identity, None)
        self._by_client.pop(replica.queue, None)

    def make_remote(self, queue: MirroredQueue, first_tag: int) -> RemoteQueue:
        """The client of the leader on another node. first_tag: that of its first delivery."""
        node = self._remote_queues.home_node(queue.placement.node)
        specification = specification_of(queue.vhost_name, queue)
        return RemoteQueue(node, specification, first_tag, queue.leader_lost, queue.leads_again)

    # Links

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up."""
        self.peers[peer.name] = peer
        self.senders[sender_number(peer.name, peer.incarnation)] = peer.name
        self.member_nodes[peer.name] = MemberNode(peer)
        for replica in tuple(self.by_identity.values()):
            replica.peer_up(peer)

    def peer_down(self, peer: Peer, reason: str) -> None:
        """The link to a node is down."""
        del self.peers[peer.name]
        del self.senders[sender_number(peer.name, peer.incarnation)]
        del self.member_nodes[peer.name]
        self._early.peer_down(peer)
        for replica in tuple(self.by_identity.values()):
            replica.peer_down(peer)

    def received(self, peer: Peer, payload: bytes) -> None:
        """The payload of one frame. Raises ValueError if it is damaged."""
        if not payload:
            raise FrameError("a frame is empty")
        kind, version = payload[0], 0
        if kind < frames.CONTENTS:
            head = read_head(payload)
            identity, version = head.identity, head.version
        elif kind == frames.BEGINS:
            identity = frames.read_identity(payload)
            _, version = frames.read_begins(payload)
        else:
            identity = frames.read_identity(payload)
        replica = self.by_identity.get(identity)
        if replica is None or self._is_early(replica, peer, kind, version):
            self._early.add(identity, peer, payload)
        elif kind < frames.CONTENTS:
            replica.ring_message(peer.name, payload)
        else:
            replica.received(peer, kind, payload)

    def _is_early(self, replica: Replica, peer: Peer, kind: int, version: int) -> bool:
        """Whether a frame is, or may be, for a member that this node is about to have.

        version: that of the record that its sender has applied, if the frame has one. A ring in
        which this node has a member keeps its own early messages.
        """
        if replica.record is None:
            return False
        if not self.is_in_view:
            # The record is this node's own: the other side of a partition may have a newer one.
            return True
        is_newer = version > replica.record.group.version
        is_for_next = is_newer and (replica.member is None or kind == frames.BEGINS)
        return is_for_next or self._early.waits(replica.identity, peer)

    def keep_early(self, node: str, identity: int, message: bytes) -> None:
        """Keep a ring's message of a node for the next member of this one, if it is linked."""
        peer = self.peers.get(node)
        if peer is not None:
            self._early.add(identity, peer, message)

    def drained(self, peer: Peer) -> None:
        """A peer is no longer congested."""
        self.member_nodes[peer.name].drained()


def _levels_of(queue: QueueClient) -> Levels | None:
    priority_max = queue.declared.max_priority
    return priority_levels(priority_max) if priority_max else None

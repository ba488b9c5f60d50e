"""The mirrored queues of this node: the service of the links for rings and contents.

Each mirrored queue has a `Replica`, found by the identity of its ring. It is made when the first
record of the queue is applied here, and ends when the queue is deleted. A frame may arrive before
this node has applied the queue's record, or the record by which it has a member; it is kept until
then (replica_host.py).
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.specification import QueueSpecification, specification_of
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
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.mirrors.leader_backing_queue import LeaderBackingQueue
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.record_changes import decode_record
from leveret.cluster.mirrors.replica import Replica, ReplicaRequests
from leveret.cluster.mirrors.replica_host import ReplicaHost
from leveret.cluster.remote_queues.queue_frames import QueueFrameError
from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.messages.message import Entry

logger = logging.getLogger("leveret.cluster")

LOOK_WORK = 4
"""The work of looking for late confirms of a queue, in the units of broker/runtime/turns.py."""
LATE_MS = 60_000
"""How long a queue accepts contents of other nodes after its mirroring has ended."""


class Replicas:
    """The links' service for mirrored queues. host: the node. by_identity: queues by their rings'.

    is_in_view: the records here are those of a view.
    """

    def __init__(
        self,
        host: ReplicaHost,
        links: ServiceRegistry,
        submit: Callable[[Replica, Change], object],
        synchronised: Callable[[Replica, Member], object],
        held_by_clients: Callable[[QueueClient], list[Entry]],
    ) -> None:
        """submit: submits a change of the ring, again and again until it is made or refused.
        synchronised: has a mirror marked as synchronised in the record. held_by_clients: the
        entries of a queue that await settlement by clients of this node.
        """
        self.host = host
        self.is_in_view = False
        self.by_identity: dict[int, Replica] = {}
        self._by_client: dict[QueueClient, Replica] = {}
        self._requests = ReplicaRequests(submit, synchronised, self._ended)
        self._held_by_clients = held_by_clients
        links.register(MULTICAST_SERVICE, self)

    # Records

    def make_queue(self, specification: QueueSpecification, record: MirrorRecord) -> QueueClient:
        """The client of a queue that is declared with a record."""
        identity = record.group.identity
        replica = Replica(self.host, self._requests, identity, specification)
        self.by_identity[identity] = self._by_client[replica.queue] = replica
        return replica.queue

    def record_changed(
        self, vhost_name: str, queue: QueueClient, record: MirrorRecord | None, storage_id: int
    ) -> None:
        """A queue was declared with a record, has another one, or no longer has one."""
        vhost = self.host.vhosts[vhost_name]
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

        A damaged one ends its link, as if it arrived now, but later, because a record is being
        applied.
        """
        damaged: set[Peer] = set()
        for peer, payload in self.host.early.take(identity):
            if peer in damaged:
                continue
            try:
                self.received(peer, payload)
            except PAYLOAD_ERRORS as error:
                damaged.add(peer)
                reason = damaged_reason(MULTICAST_SERVICE, error)
                self.host.call_later_ms(0, partial(peer.drop, reason))

    def view_changed(self, is_in_view: bool) -> None:
        """The node is in a view, whose records it has, or in none yet."""
        self.is_in_view = is_in_view
        for identity in self.host.early.identities:
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
            held = self._held_by_clients(queue) + self.host.remote_queues.held_of(queue)
            held += [] if queue.retries is None else queue.retries.held
        kept = KeptTurns(inner, replica.flush_later)
        backing = LeaderBackingQueue(
            inner, kept, self.host.wall_offset_ms, held=held, takes_times=self.host.takes_times
        )
        queue.backing = backing
        for consumer in queue.ring.consumers:
            consumer.queue_replaced(replica.queue)
        self.host.remote_queues.replaced(queue, replica.queue)
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
            self.host.remote_queues.replaced(queue, after)

        def forget() -> None:
            self.by_identity.pop(replica.identity, None)
            replica.publishing.fail()

        self.host.call_later_ms(LATE_MS, forget)

    def led_messages(self, queue: QueueClient) -> BackingQueue | None:
        """The messages of a mirrored queue that this node leads, or led last; None for others."""
        replica = self._by_client.get(queue)
        if replica is None or replica.record is None or replica.record.home != self.host.node:
            return None
        return replica.copy if replica.leading is None else replica.leading.backing.inner

    # Late confirms

    def look(self) -> None:
        """Look for late confirms in all queues; called every quarter of a net_ticktime."""
        if self.by_identity:
            self.host.work("late confirms of mirrored queues", self._looking())

    def _looking(self) -> Iterator[int]:
        apart = self.host.apart
        for replica in tuple(self.by_identity.values()):
            if not replica.is_over:
                replica.look(apart)
            yield LOOK_WORK

    @property
    def late_count(self) -> int:
        """The number of queues whose confirms, or decisions, have waited here longer than
        net_ticktime.
        """
        return sum([replica.late.is_late for replica in self.by_identity.values()])

    def _ended(self, replica: Replica) -> None:
        """The queue is deleted, or the node stops."""
        self.by_identity.pop(replica.identity, None)
        self._by_client.pop(replica.queue, None)

    # Links

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up."""
        self.host.peer_up(peer)
        for replica in tuple(self.by_identity.values()):
            replica.peer_up(peer)

    def peer_down(self, peer: Peer, reason: str) -> None:
        """The link to a node is down."""
        self.host.peer_down(peer)
        for replica in tuple(self.by_identity.values()):
            replica.peer_down(peer)

    def received(self, peer: Peer, payload: bytes) -> None:
        """The payload of one frame. Raises ValueError if it is damaged."""
        if not payload:
            raise QueueFrameError("a frame is empty")
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
            self.host.early.add(identity, peer, payload)
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
        return is_for_next or self.host.early.waits(replica.identity, peer)

    def drained(self, peer: Peer) -> None:
        """A peer is no longer congested."""
        self.host.member_nodes[peer.name].drained()

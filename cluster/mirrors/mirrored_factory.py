"""The factory of classic queues in a cluster: each lives on one node, or is mirrored.

The record of a placement names the leader and the mirrors of a queue (mirror_record.py); a queue
without mirrors has none. The factory completes changes of a record with the state of the queue and
its policies at that moment, and passes records and policies on to the listener, which has the
members of this node.
"""

from collections.abc import Set
from typing import Any, Protocol

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.declarations.values import ChangePlacement, Declaration
from leveret.broker.policies.parameters import OPERATOR_POLICY, POLICY
from leveret.broker.policies.policy_table import PolicyTable, merged
from leveret.broker.queues.contract.placement import Placement, QueueMembers
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_factory import PlacementChange, QueueFactory
from leveret.broker.queues.contract.queue_kind import CLASSIC
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.runtime.names import QUEUE, resource
from leveret.cluster.mirrors import record_changes
from leveret.cluster.mirrors.member_views import members_of, mirroring
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.mirrors.planning import (
    NOT_MIRRORED,
    SYNC_BATCH_SIZE,
    Mirroring,
    read_mirroring,
)
from leveret.cluster.mirrors.record_changes import (
    MirroredQueueFacts,
    NodeForgotten,
    Promote,
    Rename,
    decode_record,
    encode,
)
from leveret.cluster.mirrors.replica import Replica
from leveret.cluster.remote_queues.placed_factory import PlacedFactory
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.cluster.rpc.refused import Refused
from leveret.storage.contract.backing_queue import BackingQueue


class RecordListener(Protocol):
    """Follows the records. Calls come in the order of the log, while an entry is applied."""

    def make_queue(self, specification: QueueSpecification, record: MirrorRecord) -> QueueClient:
        """The client of a queue that is declared with a record."""

    def record_changed(
        self, vhost: str, queue: QueueClient, record: MirrorRecord | None, storage_id: int
    ) -> None:
        """A queue was declared with a record, has another one, or no longer has one.

        storage_id: as for `QueueFactory.added` and `QueueFactory.moved`.
        """

    def policies_changed(self, vhost: str, queue: QueueClient) -> None:
        """Other policies are in force for a queue, or it was just declared and has some."""

    def replica_of(self, record: MirrorRecord) -> Replica | None:
        """The part of this node in a mirrored queue; None if it has none."""

    def led_messages(self, queue: QueueClient) -> BackingQueue | None:
        """The messages of a mirrored queue that this node leads, or led last; None for others."""


class MirroredFactory(PlacedFactory):
    """Places and makes classic queues that live on one node, or are mirrored."""

    def __init__(
        self,
        local: QueueFactory,
        queues: RemoteQueues,
        policies: PolicyTable,
        listener: RecordListener,
        sync_batch_size: int = SYNC_BATCH_SIZE,
    ) -> None:
        """policies: those of this node. sync_batch_size: as configured."""
        super().__init__(local, queues)
        self._policies = policies
        self._listener = listener
        self._sync_batch_size = sync_batch_size

    def mirroring_of(self, vhost: str, queue: QueueClient) -> Mirroring:
        """The mirroring that the matching policies of a queue ask for now."""
        if not may_be_mirrored(queue):
            return NOT_MIRRORED
        policy, operator_policy = (
            self._policies.of_queue(component, vhost, queue.name, queue.kind)
            for component in (POLICY, OPERATOR_POLICY)
        )
        return read_mirroring(merged(policy, operator_policy), self._sync_batch_size)

    def make(self, owner: QueueOwner, specification: QueueSpecification) -> QueueClient:
        """The client of all members of a mirrored queue; otherwise as without mirrors."""
        record = decode_record(specification.placement.record)
        if record is None:
            return super().make(owner, specification)
        return self._listener.make_queue(specification, record)

    def added(self, vhost: str, queue: QueueClient, storage_id: int) -> None:
        """A queue was declared, perhaps with a record."""
        super().added(vhost, queue, storage_id)
        record = decode_record(queue.placement.record)
        if record is not None:
            self._listener.record_changed(vhost, queue, record, storage_id)

    def moved(self, vhost: str, queue: QueueClient, placement: Placement, storage_id: int) -> None:
        """A record has changed, begun or ended; or the node of a queue has another name."""
        if not placement.record and not queue.placement.record:
            super().moved(vhost, queue, placement, storage_id)
            return
        queue.placement = placement
        record = decode_record(placement.record)
        self._listener.record_changed(vhost, queue, record, storage_id)

    def complete(self, vhost: str, queue: QueueClient, change: bytes) -> PlacementChange | None:
        """The outcome of a change of the record."""
        # A name in AMQP may have any bytes; a record has text.
        title = resource(QUEUE, queue.name, vhost).encode(errors="replace").decode()
        placement = queue.placement
        facts = MirroredQueueFacts(
            title,
            placement.node,
            queue.durable,
            may_be_mirrored(queue),
            self.mirroring_of(vhost, queue),
        )
        try:
            outcome = record_changes.complete(placement.record, change, facts)
        except Refused as error:
            raise precondition_failed(str(error)) from None
        if outcome is None:
            return None
        after = placement._replace(node=outcome.node, record=outcome.record)
        return PlacementChange(after, outcome.new_copy, outcome.incarnation)

    def policies_changed(self, vhost: str, queue: QueueClient) -> None:
        """Other policies are in force for a queue."""
        self._listener.policies_changed(vhost, queue)

    def node_renamed(
        self, vhost: str, queue: QueueClient, old: str, new: str
    ) -> Declaration | None:
        """Any node may have a copy of a mirrored queue."""
        if not queue.placement.record:
            return super().node_renamed(vhost, queue, old, new)
        change = encode(Rename(old, new))
        return ChangePlacement(vhost, queue.name, queue.placement.identity, change)

    def node_removed(
        self, vhost: str, queue: QueueClient, node: str, left: frozenset[str]
    ) -> Declaration | None:
        """A mirrored queue is deleted only if no other node has a copy."""
        if not queue.placement.record:
            return super().node_removed(vhost, queue, node, left)
        change = encode(NodeForgotten(node, tuple(sorted(left))))
        return ChangePlacement(vhost, queue.name, queue.placement.identity, change)

    # Members

    def _replica(self, queue: QueueClient) -> tuple[MirrorRecord | None, Replica | None]:
        record = decode_record(queue.placement.record)
        return record, None if record is None else self._listener.replica_of(record)

    def members(self, queue: QueueClient) -> QueueMembers | None:
        """The leader and the mirrors; None without mirrors."""
        record, replica = self._replica(queue)
        return None if record is None else members_of(record, replica)

    def details(self, queue: QueueClient) -> dict[str, Any]:
        """The ring of a mirrored queue."""
        record, replica = self._replica(queue)
        if record is None:
            return {}
        return {"mirroring": mirroring(record, replica, self._queues.node)}

    def needs_node(self, queue: QueueClient, node: str, running: Set[str]) -> bool:
        """Whether a queue is led on a node without a synchronised mirror on another that runs.

        This includes queues that are to be mirrored and have no mirrors yet.
        """
        if queue.placement.node != node:
            return False
        record = decode_record(queue.placement.record)
        if record is None:
            wanted = read_mirroring(merged(queue.policy, queue.operator_policy))
            return bool(wanted.mode) and may_be_mirrored(queue)
        able = (one.id.node for one in record.mirrors if one.is_synchronised)
        return record.leader is not None and running.isdisjoint(able)

    def promotion(self, vhost: str, queue: QueueClient, node: str) -> Declaration | None:
        """The declaration by which a node with a mirror leads; refused if it lacks messages."""
        record = decode_record(queue.placement.record)
        mirror = None if record is None else record.on(node)
        if record is None or record.leader is None or mirror is None:
            return None
        change = encode(Promote(mirror.id, record.leader))
        return ChangePlacement(vhost, queue.name, queue.placement.identity, change)

    def can_synchronise(self, queue: QueueClient) -> bool:
        """Whether this node leads a mirrored queue."""
        _, replica = self._replica(queue)
        return replica is not None and replica.leading is not None

    def synchronise(self, queue: QueueClient, is_wanted: bool) -> None:
        """Send the mirrors the messages that they lack, or stop that."""
        _, replica = self._replica(queue)
        assert replica is not None, "this node leads the queue"
        assert replica.leading is not None, "this node leads the queue"
        synchronising = replica.leading.synchronising
        if is_wanted:
            synchronising.start()
        else:
            synchronising.cancel()

    # Messages on this node

    def messages_here(self, queue: QueueClient) -> BackingQueue | None:
        """Those of a mirrored queue that this node leads, or was the last to lead."""
        if isinstance(queue, MirroredQueue):
            return self._listener.led_messages(queue)
        return super().messages_here(queue)

    def leader_here(self, queue: QueueClient) -> QueueClient | None:
        """The queue that leads a mirrored one; it may be that of another node."""
        return queue.leader if isinstance(queue, MirroredQueue) else queue


def may_be_mirrored(queue: QueueClient) -> bool:
    """Whether a queue is of a kind that can be mirrored, and not exclusive."""
    return queue.kind.name == CLASSIC and not queue.is_exclusive

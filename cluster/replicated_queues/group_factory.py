"""The factory of queues whose messages are in groups: places members, and changes records.

A placement has the node of the first leader and the identity of the declaration, which is the
number of the group. Its record has the members (membership_record.py). Every node has a client of
each queue. The data of members on disk are found by the number of the group, so queues have no
storage number.
"""

import logging
import secrets
from abc import abstractmethod
from collections.abc import Set
from typing import Any, Generic, Protocol, TypeVar

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.declarations.values import ChangePlacement, Declaration
from leveret.broker.queues.contract.placement import Placement, QueueMembers
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_factory import PlacementChange, QueueFactory
from leveret.broker.queues.contract.queue_kind import QueueKind
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.contract.status import RaftFigures
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.cluster.replicated_queues.member_placement import NodeLoad, leader_node, member_nodes
from leveret.cluster.replicated_queues.membership_record import (
    IDENTITY_BITS,
    NO_MEMBERS,
    UNREADABLE,
    Change,
    Lead,
    LeaveNode,
    MembersRecord,
    RecordError,
    RefusedChange,
    RenameNode,
    ReplaceMember,
    changed,
    decode_change,
    decode_record,
    encode,
    new_record,
    placed,
    readable,
)

C = TypeVar("C", bound=QueueClient)
C_contra = TypeVar("C_contra", bound=QueueClient, contravariant=True)

logger = logging.getLogger("leveret.cluster")


class Nodes(Protocol):
    """The nodes of the cluster, and what arguments, policies and settings specify for a queue."""

    @property
    def is_alone(self) -> bool:
        """Whether this node is in no cluster."""

    def loads(self) -> list[NodeLoad]:
        """All nodes of the cluster."""

    def group_size(self, specification: QueueSpecification) -> int:
        """How many members a new queue gets."""

    def locator(self, specification: QueueSpecification) -> str:
        """How the queue's leader is chosen (placement/leader_location.py)."""


class GroupsOfKind(Protocol[C_contra]):
    """The queues of the kind on this node. The methods are called in the order of declarations."""

    def added(self, queue: C_contra, record: MembersRecord) -> None:
        """Add a queue that was declared, or that a restart has found."""

    def record_changed(self, queue: C_contra, record: MembersRecord) -> None:
        """The record of a queue has changed."""

    def policies_changed(self) -> None:
        """The policies of a queue have changed."""

    def members_of(self, queue: C_contra, record: MembersRecord) -> QueueMembers:
        """The members of a queue, for operators."""

    def answering(self, running: Set[str]) -> Set[str]:
        """The running nodes that are not silent, for example because they are suspended."""

    def leader_of(self, queue: C_contra) -> str:
        """The node with the leader of a queue; empty if unknown."""

    def voters_of(self, queue: C_contra, record: MembersRecord) -> tuple[str, ...]:
        """The nodes whose members may vote, from the knowledge of this node."""

    def is_catching_up(self, queue: C_contra) -> bool:
        """Whether the member on this node may not vote until it has caught up."""

    def reclaim(self, queue: C_contra, answer: Answer[None]) -> None:
        """Free disk space of the member here by taking a snapshot."""

    def raft_of(self, queue: C_contra) -> RaftFigures | None:
        """The figures of the member on this node; None if it has none."""

    def details_of(self, queue: C_contra, record: MembersRecord) -> dict[str, Any]:
        """The members of a queue from the knowledge of this node, as JSON."""


class GroupFactory(QueueFactory, Generic[C]):
    """Makes queues of one kind. client: the class of their clients."""

    def __init__(
        self, kind: QueueKind, client: type[C], node: str, nodes: Nodes, groups: GroupsOfKind[C]
    ) -> None:
        """node: this one."""
        super().__init__(kind, self.make)
        self._client = client
        self._node = node
        self._nodes = nodes
        self._queues = groups

    @abstractmethod
    def new_client(
        self, owner: QueueOwner, specification: QueueSpecification, record: MembersRecord
    ) -> QueueClient:
        """The client of a queue with these members."""

    def place(self, specification: QueueSpecification) -> Placement:
        """Choose the nodes of the members, the first leader's node, and a new identity."""
        loads = self._nodes.loads()
        members = member_nodes(self._node, loads, self._nodes.group_size(specification))
        leader = leader_node(self._node, members, loads, self._nodes.locator(specification))
        identity = 1 + secrets.randbits(IDENTITY_BITS)
        return Placement(leader, identity, encode(new_record(members)))

    def make(self, owner: QueueOwner, specification: QueueSpecification) -> QueueClient:
        """Create the client of the group."""
        vhost, name, placement = specification.vhost, specification.name, specification.placement
        placement = placed(vhost, name, placement, self._node, self._nodes.is_alone)
        try:
            record = decode_record(placement.record)
        except RecordError as error:
            what, record = resource(QUEUE, name, vhost), NO_MEMBERS
            logger.error("%s %s is down: %s (%s)", self.kind.name, what, UNREADABLE, error)
        return self.new_client(owner, specification._replace(placement=placement), record)

    def added(self, vhost: str, queue: QueueClient, storage_id: int) -> None:
        """Add a queue that was declared. This node may have a member of it."""
        self._queues.added(self._of(queue), readable(queue.placement.record))

    def moved(self, vhost: str, queue: QueueClient, placement: Placement, storage_id: int) -> None:
        """The members of a queue have changed."""
        queue.placement = placement
        self._queues.record_changed(self._of(queue), readable(placement.record))

    def policies_changed(self, vhost: str, queue: QueueClient) -> None:
        """The policies of a queue have changed: it may need more members."""
        self._queues.policies_changed()

    def complete(self, vhost: str, queue: QueueClient, change: bytes) -> PlacementChange | None:
        """The outcome of a change of the members; None if no member is left."""
        placement = queue.placement
        try:
            before = decode_record(placement.record)
            wanted = decode_change(change)
            after = changed(before, wanted)
        except (RefusedChange, RecordError) as error:
            what = resource(QUEUE, queue.name, vhost)
            raise precondition_failed(f"cannot change the members of {what}: {error}") from None
        if after is None:
            return None
        named = after.of_node(wanted.node) if isinstance(wanted, Lead) else None
        led = after.member(before.number_on(placement.node))
        leader = named or led or after.members[0]
        return PlacementChange(placement._replace(node=leader.node, record=encode(after)))

    # The members of the cluster

    def node_renamed(
        self, vhost: str, queue: QueueClient, old: str, new: str
    ) -> Declaration | None:
        """The change after a node was renamed. Its member keeps its number."""
        if readable(queue.placement.record).of_node(old) is None:
            return None
        return self._change(vhost, queue, RenameNode(old, new))

    def node_removed(
        self, vhost: str, queue: QueueClient, node: str, left: frozenset[str]
    ) -> Declaration | None:
        """The change after a node was removed. The queue is deleted if it had the only member."""
        nodes = readable(queue.placement.record).nodes
        if node not in nodes:
            return None
        what = resource(QUEUE, queue.name, vhost)
        if len(nodes) == 1:
            logger.warning("%s is deleted: its only member was on node %s", what, node)
        return self._change(vhost, queue, LeaveNode(node))

    def node_emptied(self, vhost: str, queue: QueueClient, node: str) -> Declaration | None:
        """Give a node that has lost its data a new member, unless it had the only one."""
        record = readable(queue.placement.record)
        member = record.of_node(node)
        if member is None or len(record.members) == 1:
            return None
        return self._change(vhost, queue, ReplaceMember(node, member.number))

    # For operators

    def members(self, queue: QueueClient) -> QueueMembers:
        """The members, and which of them is the leader."""
        return self._queues.members_of(self._of(queue), readable(queue.placement.record))

    def details(self, queue: QueueClient) -> dict[str, Any]:
        """The field `raft` of the API."""
        return self._queues.details_of(self._of(queue), readable(queue.placement.record))

    def raft(self, queue: QueueClient) -> RaftFigures | None:
        """The figures of the member on this node; None if it has none."""
        return self._queues.raft_of(self._of(queue))

    def promotion(self, vhost: str, queue: QueueClient, node: str) -> Declaration | None:
        """The change that makes a member the leader: the current one hands over to it."""
        if readable(queue.placement.record).of_node(node) is None:
            return None
        return self._change(vhost, queue, Lead(node))

    def is_led_by(self, queue: QueueClient, node: str) -> bool:
        """Whether the leader is on a node. The placement may be ahead or behind."""
        return queue.placement.node == node and self._queues.leader_of(self._of(queue)) == node

    def has_leader(self, queue: QueueClient) -> bool:
        """Whether this node knows the leader, and reaches it."""
        return bool(self._queues.leader_of(self._of(queue)))

    def needs_node(self, queue: QueueClient, node: str, running: Set[str]) -> bool:
        """Whether the running voters would not be a majority without a node."""
        record = readable(queue.placement.record)
        nodes = self._queues.voters_of(self._of(queue), record)
        answering = self._queues.answering(running)
        left = [one for one in nodes if one in answering and one != node]
        return node in nodes and 2 * len(left) <= len(nodes)

    def is_catching_up(self, queue: QueueClient) -> bool:
        """Whether the member here was added later, and still lacks messages."""
        return self._queues.is_catching_up(self._of(queue))

    def reclaim(self, queue: QueueClient, answer: Answer[None]) -> None:
        """Free disk space: the member here writes a snapshot."""
        self._queues.reclaim(self._of(queue), answer)

    def _change(self, vhost: str, queue: QueueClient, change: Change) -> ChangePlacement:
        return ChangePlacement(vhost, queue.name, queue.placement.identity, encode(change))

    def _of(self, queue: QueueClient) -> C:
        assert isinstance(queue, self._client), "this factory makes no other queues"
        return queue

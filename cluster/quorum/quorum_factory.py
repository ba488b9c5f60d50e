"""The factory of quorum queues in a cluster: places their members, and creates their clients.

A placement has the node of the first leader and the identity of the declaration, which is the
number of the group. Its record has the members (membership_record.py). Every node has a client of
each queue (client/quorum_queue_client.py). The data of members on disk are found by the number of
the group, so queues have no storage number.
"""

import logging
import secrets
from collections.abc import Sequence, Set
from typing import Any, Protocol

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.declarations.values import ChangePlacement, Declaration
from leveret.broker.queues.contract.arguments import ignored_arguments
from leveret.broker.queues.contract.placement import Placement, QueueMembers
from leveret.broker.queues.contract.queue_client import Consumer, QueueClient
from leveret.broker.queues.contract.queue_factory import (
    PeekedMessage,
    PlacementChange,
    QueueFactory,
)
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.contract.status import RaftFigures
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.client.group_service import GroupService
from leveret.cluster.quorum.client.quorum_queue_client import OwnNode, QuorumQueueClient
from leveret.cluster.quorum.member_placement import NodeLoad, leader_node, member_nodes
from leveret.cluster.quorum.membership_record import (
    IDENTITY_BITS,
    NO_MEMBERS,
    UNREADABLE,
    Change,
    Lead,
    LeaveNode,
    QuorumRecord,
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

logger = logging.getLogger("leveret.cluster")


class Nodes(Protocol):
    """The nodes of the cluster, and what arguments, policies and settings specify for a queue."""

    @property
    def is_alone(self) -> bool:
        """Whether this node is in no cluster."""

    def loads(self) -> list[NodeLoad]:
        """All nodes of the cluster."""

    def group_size(self, specification: QueueSpecification) -> int:
        """How many members a new queue gets (`member_placement.group_size`)."""

    def locator(self, specification: QueueSpecification) -> str:
        """How the queue's leader is chosen (placement/leader_location.py)."""


class Groups(Protocol):
    """The groups of this node. The methods are called in the order of declarations."""

    def made(self, specification: QueueSpecification, record: QuorumRecord) -> GroupService:
        """The service for the client of a queue, which is about to be created."""

    def added(self, queue: QuorumQueueClient, record: QuorumRecord) -> None:
        """Add a queue that was declared, or that a restart has found."""

    def record_changed(self, queue: QuorumQueueClient, record: QuorumRecord) -> None:
        """The record of a queue has changed."""

    def policies_changed(self) -> None:
        """The policies of a queue have changed."""

    def members_of(self, queue: QuorumQueueClient, record: QuorumRecord) -> QueueMembers:
        """The members of a queue, for operators."""

    def answering(self, running: Set[str]) -> Set[str]:
        """The running nodes that are not silent, for example because they are suspended."""

    def leader_of(self, queue: QuorumQueueClient) -> str:
        """The node with the leader of a queue; empty if unknown."""

    def voters_of(self, queue: QuorumQueueClient, record: QuorumRecord) -> tuple[str, ...]:
        """The nodes whose members may vote, from the knowledge of this node."""

    def is_catching_up(self, queue: QuorumQueueClient) -> bool:
        """Whether the member on this node may not vote until it has caught up."""

    def peek(
        self, queue: QuorumQueueClient, place: int, answer: Answer[PeekedMessage | None]
    ) -> None:
        """Answer with the message at a place; None if there is none, or no leader here."""

    def reclaim(self, queue: QuorumQueueClient, answer: Answer[None]) -> None:
        """Free disk space of the member here by taking a snapshot."""

    def raft_of(self, queue: QuorumQueueClient) -> RaftFigures | None:
        """The figures of the member on this node; None if it has none."""

    def details_of(self, queue: QuorumQueueClient, record: QuorumRecord) -> dict[str, Any]:
        """The members of a queue from the knowledge of this node, as JSON."""


class QuorumFactory(QueueFactory):
    """Makes quorum queues. node: this one."""

    def __init__(self, node: OwnNode, nodes: Nodes, groups: Groups) -> None:
        super().__init__(QUORUM_QUEUE, self.make)
        self._node = node
        self._nodes = nodes
        self._groups = groups

    def place(self, specification: QueueSpecification) -> Placement:
        """Choose the nodes of the members, the first leader's node, and a new identity."""
        for name in ignored_arguments(specification.arguments):
            what = resource(QUEUE, specification.name, specification.vhost)
            value = specification.arguments[name][1]
            logger.warning("%s: the argument %s has no effect: %.99r", what, name, value)
        loads = self._nodes.loads()
        this_node = self._node.name
        members = member_nodes(this_node, loads, self._nodes.group_size(specification))
        leader = leader_node(this_node, members, loads, self._nodes.locator(specification))
        identity = 1 + secrets.randbits(IDENTITY_BITS)
        return Placement(leader, identity, encode(new_record(members)))

    def make(self, owner: QueueOwner, specification: QueueSpecification) -> QueueClient:
        """Create the client of the group."""
        vhost, name, placement = specification.vhost, specification.name, specification.placement
        placement = placed(vhost, name, placement, self._node.name, self._nodes.is_alone)
        try:
            record = decode_record(placement.record)
        except RecordError as error:
            what, record = resource(QUEUE, name, vhost), NO_MEMBERS
            logger.error("quorum %s is down: %s (%s)", what, UNREADABLE, error)
        specification = specification._replace(placement=placement)
        service = self._groups.made(specification, record)
        return QuorumQueueClient(owner, specification, self._node, service)

    def added(self, vhost: str, queue: QueueClient, storage_id: int) -> None:
        """Add a queue that was declared. This node may have a member of it."""
        self._groups.added(_client(queue), readable(queue.placement.record))

    def replaced(self, queue: QueueClient) -> Sequence[Consumer]:
        """What a queue has not confirmed is refused: the one that has its name has no copy."""
        return _client(queue).replaced()

    def begin(self, queue: QueueClient, answer: Answer[None]) -> None:
        """Answer when the group has a leader. Refused with 541 if too few members run."""
        _client(queue).begin(answer)

    def moved(self, vhost: str, queue: QueueClient, placement: Placement, storage_id: int) -> None:
        """The members of a queue have changed."""
        queue.placement = placement
        self._groups.record_changed(_client(queue), readable(placement.record))

    def policies_changed(self, vhost: str, queue: QueueClient) -> None:
        """The policies of a queue have changed: it may need more members."""
        self._groups.policies_changed()

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

    def members(self, queue: QueueClient) -> QueueMembers:
        """The members, and which of them is the leader."""
        return self._groups.members_of(_client(queue), readable(queue.placement.record))

    def details(self, queue: QueueClient) -> dict[str, Any]:
        """The field `raft` of the API."""
        return self._groups.details_of(_client(queue), readable(queue.placement.record))

    def raft(self, queue: QueueClient) -> RaftFigures | None:
        """The figures of the member on this node; None if it has none."""
        return self._groups.raft_of(_client(queue))

    def promotion(self, vhost: str, queue: QueueClient, node: str) -> Declaration | None:
        """The change that makes a member the leader: the current one hands over to it."""
        if readable(queue.placement.record).of_node(node) is None:
            return None
        return self._change(vhost, queue, Lead(node))

    def is_led_by(self, queue: QueueClient, node: str) -> bool:
        """Whether the leader is on a node. The placement may be ahead or behind."""
        return queue.placement.node == node and self._groups.leader_of(_client(queue)) == node

    def needs_node(self, queue: QueueClient, node: str, running: Set[str]) -> bool:
        """Whether the running voters would not be a majority without a node."""
        record = readable(queue.placement.record)
        nodes = self._groups.voters_of(_client(queue), record)
        answering = self._groups.answering(running)
        left = [one for one in nodes if one in answering and one != node]
        return node in nodes and 2 * len(left) <= len(nodes)

    def is_catching_up(self, queue: QueueClient) -> bool:
        """Whether the member here was added later, and still lacks messages."""
        return self._groups.is_catching_up(_client(queue))

    def peek(self, queue: QueueClient, place: int, answer: Answer[PeekedMessage | None]) -> None:
        """Peek if the leader is here: from its machine, and the entry that has the message."""
        self._groups.peek(_client(queue), place, answer)

    def reclaim(self, queue: QueueClient, answer: Answer[None]) -> None:
        """Free disk space: the member here writes a snapshot."""
        self._groups.reclaim(_client(queue), answer)

    def _change(self, vhost: str, queue: QueueClient, change: Change) -> ChangePlacement:
        return ChangePlacement(vhost, queue.name, queue.placement.identity, encode(change))


def _client(queue: QueueClient) -> QuorumQueueClient:
    assert isinstance(queue, QuorumQueueClient), "this factory makes no other queues"
    return queue

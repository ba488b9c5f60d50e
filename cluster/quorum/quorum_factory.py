"""The factory of quorum queues in a cluster."""

import logging
from collections.abc import Sequence
from typing import Protocol

from leveret.broker.queues.contract.arguments import ignored_arguments
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.queue_client import Consumer, QueueClient
from leveret.broker.queues.contract.queue_factory import PeekedMessage
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.contract.waiting_retries import WaitingInGroup
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.client.group_service import GroupService
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.group_factory import GroupFactory, GroupsOfKind, Nodes
from leveret.cluster.replicated_queues.membership_record import MembersRecord

logger = logging.getLogger("leveret.cluster")


class QuorumGroups(GroupsOfKind[QuorumQueueClient], Protocol):
    """The quorum queues of this node."""

    def made(self, specification: QueueSpecification, record: MembersRecord) -> GroupService:
        """The service for the client of a queue, which is about to be created."""

    def peek(
        self, queue: QuorumQueueClient, place: int, answer: Answer[PeekedMessage | None]
    ) -> None:
        """Answer with the message at a place; None if there is none, or no leader here."""

    def retries_here(self, queue: QuorumQueueClient) -> WaitingInGroup | None:
        """The delayed messages of a queue that this node leads."""


class QuorumFactory(GroupFactory[QuorumQueueClient]):
    """Makes quorum queues."""

    def __init__(self, node: OwnNode, nodes: Nodes, groups: QuorumGroups) -> None:
        super().__init__(QUORUM_QUEUE, QuorumQueueClient, node.name, nodes, groups)
        self._own_node = node
        self._groups = groups

    def place(self, specification: QueueSpecification) -> Placement:
        """Choose the nodes of the members, the first leader's node, and a new identity."""
        for name in ignored_arguments(specification.arguments):
            what = resource(QUEUE, specification.name, specification.vhost)
            value = specification.arguments[name][1]
            logger.warning("%s: the argument %s has no effect: %.99r", what, name, value)
        return super().place(specification)

    def new_client(
        self, owner: QueueOwner, specification: QueueSpecification, record: MembersRecord
    ) -> QueueClient:
        """The client of a queue with these members."""
        service = self._groups.made(specification, record)
        return QuorumQueueClient(owner, specification, self._own_node, service)

    def replaced(self, queue: QueueClient) -> Sequence[Consumer]:
        """What a queue has not confirmed is refused: the one that has its name has no copy."""
        return self._of(queue).replaced()

    def begin(self, queue: QueueClient, answer: Answer[None]) -> None:
        """Answer when the group has a leader. Refused with 541 if too few members run."""
        self._of(queue).begin(answer)

    def peek(self, queue: QueueClient, place: int, answer: Answer[PeekedMessage | None]) -> None:
        """Peek if the leader is here: from its machine, and the entry that has the message."""
        self._groups.peek(self._of(queue), place, answer)

    def retries_here(self, queue: QueueClient) -> WaitingInGroup | None:
        """Those of the leader, if it is here."""
        return self._groups.retries_here(self._of(queue))

    def waiting_here(self, queue: QueueClient) -> WaitingInGroup | None:
        """Those of the leader, if it is here."""
        return self.retries_here(queue)

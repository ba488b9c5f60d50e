"""The factory of a kind of queue: makes its queues on a node, and knows where they live.

Code that declares, stores, moves or deletes queues passes on their placements (placement.py), which
only the factory of the kind interprets. `QueueFactory` itself is for a node outside a cluster,
where every queue lives on the node. A cluster adds factories in its place (`QueueKinds.add`):

    cluster/remote_queues/placed_factory.py   each queue lives on one node
    cluster/mirrors/mirrored_factory.py       classic queues, which may have mirrors

A placement changes by declarations only. Some contain the new placement, such as that of a renamed
node. Others request a change, as bytes that the kind wrote (`ChangePlacement`): the node that
orders declarations has the factory `complete` it, so that a change always applies to the result of
all changes before it.
"""

from collections.abc import Callable, Sequence, Set
from typing import Any, NamedTuple

from leveret.broker.declarations.values import Declaration
from leveret.broker.queues.contract.placement import HERE, Placement, QueueMembers
from leveret.broker.queues.contract.queue_client import Consumer, QueueClient
from leveret.broker.queues.contract.queue_kind import QueueKind
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.contract.status import RaftFigures
from leveret.broker.queues.contract.waiting_retries import WaitingInGroup, WaitingRetries
from leveret.broker.runtime.pending import Answer
from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.messages.message import Message

MakeQueue = Callable[[QueueOwner, QueueSpecification], QueueClient]
"""Makes a queue of one kind on this node, with the messages that a restart found."""


class PlacementChange(NamedTuple):
    """The outcome of a change of a queue's placement.

    new_copy: the node that gets a new, empty copy by this change; empty for none. incarnation: the
    run of that node.
    """

    placement: Placement
    new_copy: str = ""
    incarnation: int = 0


class PeekedMessage(NamedTuple):
    """A message that stays in its queue. delivery_count: how often it was returned."""

    message: Message
    delivery_count: int


class QueueFactory:
    """Makes queues of one kind. kind: theirs. make_here: makes a queue that lives on this node."""

    def __init__(self, kind: QueueKind, make_here: MakeQueue) -> None:
        self.kind = kind
        self.make_here = make_here

    def place(self, specification: QueueSpecification) -> Placement:
        """Choose a placement for a queue that is about to be declared on this node."""
        return HERE

    def make(self, owner: QueueOwner, specification: QueueSpecification) -> QueueClient:
        """The object that stands for a declared queue on this node."""
        return self.make_here(owner, specification)

    def added(self, vhost: str, queue: QueueClient, storage_id: int) -> None:
        """A queue was declared. storage_id: of its messages on this node."""

    def begin(self, queue: QueueClient, answer: Answer[None]) -> None:
        """Answers when a queue that was just declared on this node takes calls.

        Refused, with an error for its client, if it does not: then the queue is deleted.
        """
        answer.give(None)

    def moved(self, vhost: str, queue: QueueClient, placement: Placement, storage_id: int) -> None:
        """A queue has another placement from now on.

        storage_id: of the copy that starts on this node with the change; 0 for none.
        """
        queue.placement = placement

    def renamed(self, queue: QueueClient) -> None:
        """A queue has another name from now on."""

    def replaced(self, queue: QueueClient) -> Sequence[Consumer]:
        """A queue is deleted, and another one has its name; returns the consumers that it had."""
        return queue.delete_now()

    def complete(self, vhost: str, queue: QueueClient, change: bytes) -> PlacementChange | None:
        """The outcome of a change; None if no node has messages of the queue any longer.

        It depends on declared objects only. Raises 406, with a text for the requester, if the
        change is not possible.
        """
        return PlacementChange(queue.placement)

    def policies_changed(self, vhost: str, queue: QueueClient) -> None:
        """Other policies are in force for a queue."""

    # The members of the cluster. Each declaration is submitted by the node that changes them

    def node_renamed(
        self, vhost: str, queue: QueueClient, old: str, new: str
    ) -> Declaration | None:
        """The declaration by which a queue lives on a renamed node; None: it does not change."""
        return None

    def node_removed(
        self, vhost: str, queue: QueueClient, node: str, left: frozenset[str]
    ) -> Declaration | None:
        """The declaration by which a queue lives on without a node, or is deleted with it.

        None: it does not change. left: the running nodes that stay.
        """
        return None

    def node_emptied(self, vhost: str, queue: QueueClient, node: str) -> Declaration | None:
        """The declaration for a member of the cluster that joins again, without what it had.

        None: the queue does not change.
        """
        return None

    # The members of a replicated queue, for operators

    def members(self, queue: QueueClient) -> QueueMembers | None:
        """The nodes of a queue; None if it is not replicated."""
        if not self.kind.is_replicated:
            return None
        nodes = (queue.placement.node,)
        return QueueMembers(leader=nodes[0], nodes=nodes, online=nodes, synchronised=nodes)

    def details(self, queue: QueueClient) -> dict[str, Any]:
        """More about the members that only this kind knows: JSON, by the fields of the API."""
        return {}

    def needs_node(self, queue: QueueClient, node: str, running: Set[str]) -> bool:
        """Whether a replicated queue would be down, or lose messages, without a node.

        running: the nodes that run.
        """
        return self.kind.is_replicated and queue.placement.node == node

    def raft(self, queue: QueueClient) -> RaftFigures | None:
        """The figures of the member on this node; None if it has none."""
        return None

    def promotion(self, vhost: str, queue: QueueClient, node: str) -> Declaration | None:
        """The declaration by which a member on another node leads; None if there is none."""
        return None

    def is_led_by(self, queue: QueueClient, node: str) -> bool:
        """Whether the member on a node leads, by what this node knows."""
        return queue.placement.node == node

    def can_synchronise(self, queue: QueueClient) -> bool:
        """Whether this node leads a queue whose members may lack messages."""
        return False

    def synchronise(self, queue: QueueClient, is_wanted: bool) -> None:
        """Send members the messages that they lack, or stop that; see `can_synchronise`."""

    def is_catching_up(self, queue: QueueClient) -> bool:
        """Whether the member on this node has no vote before it has all messages."""
        return False

    # Messages on this node

    def peek(self, queue: QueueClient, place: int, answer: Answer[PeekedMessage | None]) -> None:
        """Answers with the message at a place, from 1 in the order of delivery.

        None if there is none, or if this node does not lead the queue.
        """
        answer.give(None)

    def retries_here(self, queue: QueueClient) -> WaitingRetries | None:
        """The messages of a replicated queue that wait for their retry; None if this node does not
        lead it, or if the kind has none.
        """
        return None

    def has_leader(self, queue: QueueClient) -> bool:
        """Whether this node knows a leader of a queue."""
        return True

    def waiting_here(self, queue: QueueClient) -> WaitingInGroup | None:
        """The messages that wait in the queue of a delayed message exchange; None if this node does
        not lead it.
        """
        return None

    def reclaim(self, queue: QueueClient, answer: Answer[None]) -> None:
        """Free the space that a snapshot of the queue makes superfluous on this node."""
        answer.give(None)

    def messages_here(self, queue: QueueClient) -> BackingQueue | None:
        """The messages of a queue, to be read; None if this node neither leads it nor led it last.

        None as well if the kind keeps messages in another way.
        """
        return None

    def leader_here(self, queue: QueueClient) -> QueueClient | None:
        """The queue that takes the calls in the end, if it is on this node."""
        return queue

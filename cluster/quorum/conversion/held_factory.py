"""The factory of held queues, as the vhost and the members of a cluster find it.

It has the factory of the queue that is held do what concerns its placement. So a held quorum queue
gets other members and another leader, which its group has elected. It makes no queues.
"""

from collections.abc import Set

from leveret.broker.declarations.values import Declaration
from leveret.broker.queues.contract.placement import Placement, QueueMembers
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_factory import PlacementChange, QueueFactory
from leveret.broker.queues.contract.queue_kind import QueueKind
from leveret.broker.queues.contract.queue_kinds import QueueKinds
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.cluster.quorum.conversion.held_queue import HELD, HeldQueue
from leveret.storage.contract.backing_queue import BackingQueue


class HeldFactory(QueueFactory):
    """kinds: those of the node."""

    def __init__(self, kinds: QueueKinds) -> None:
        super().__init__(QueueKind(HELD, HELD, ()), _not_made)
        self._kinds = kinds

    def _of(self, queue: QueueClient) -> tuple[QueueFactory, QueueClient]:
        """The queue that is held, and the factory of its kind."""
        assert isinstance(queue, HeldQueue), "no other queues are of this kind"
        return self._kinds.of(queue.queue.kind), queue.queue

    def moved(self, vhost: str, queue: QueueClient, placement: Placement, storage_id: int) -> None:
        """The queue has another placement from now on."""
        factory, held = self._of(queue)
        factory.moved(vhost, held, placement, storage_id)
        queue.placement = placement

    def complete(self, vhost: str, queue: QueueClient, change: bytes) -> PlacementChange | None:
        """The outcome of a change."""
        factory, held = self._of(queue)
        return factory.complete(vhost, held, change)

    def node_renamed(
        self, vhost: str, queue: QueueClient, old: str, new: str
    ) -> Declaration | None:
        """The declaration by which the queue lives on a renamed node."""
        factory, held = self._of(queue)
        return factory.node_renamed(vhost, held, old, new)

    def node_removed(
        self, vhost: str, queue: QueueClient, node: str, left: frozenset[str]
    ) -> Declaration | None:
        """The declaration by which the queue lives on without a node, or is deleted with it."""
        factory, held = self._of(queue)
        return factory.node_removed(vhost, held, node, left)

    def node_emptied(self, vhost: str, queue: QueueClient, node: str) -> Declaration | None:
        """The declaration for a member of the cluster that joins again."""
        factory, held = self._of(queue)
        return factory.node_emptied(vhost, held, node)

    def members(self, queue: QueueClient) -> QueueMembers | None:
        """The nodes of the queue."""
        factory, held = self._of(queue)
        return factory.members(held)

    def needs_node(self, queue: QueueClient, node: str, running: Set[str]) -> bool:
        """Whether the queue would be down, or lose messages, without a node."""
        factory, held = self._of(queue)
        return factory.needs_node(held, node, running)

    def messages_here(self, queue: QueueClient) -> BackingQueue | None:
        """The messages of the queue on this node."""
        factory, held = self._of(queue)
        return factory.messages_here(held)


def _not_made(owner: QueueOwner, specification: QueueSpecification) -> QueueClient:
    raise AssertionError(f"{specification.name!r}: no queue is declared with this kind")

"""The factory of a kind of queues that live on one node of a cluster each.

A queue is placed by its locator (placement/leader_location.py). On its node it is a queue of its
kind; the other nodes have a client of it (remote_queue.py).
"""

from collections.abc import Sequence

from leveret.broker.declarations.values import Declaration, DeleteQueue, PutQueueHome
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.queue_client import Consumer, QueueClient
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.contract.queue_kinds import QueueKinds
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.storage.contract.backing_queue import BackingQueue


class PlacedFactory(QueueFactory):
    """Places and makes queues. local: the factory of the kind on a node on its own."""

    def __init__(self, local: QueueFactory, queues: RemoteQueues) -> None:
        super().__init__(local.kind, local.make_here)
        self._local = local
        self._queues = queues

    def place(self, specification: QueueSpecification) -> Placement:
        """The node that the locator chooses, and a new identity."""
        return self._queues.choose(specification)

    def make(self, owner: QueueOwner, specification: QueueSpecification) -> QueueClient:
        """The queue itself if it lives here, otherwise a client of it."""
        node = specification.placement.node
        if node == self._queues.node:
            return self.make_here(owner, specification)
        return RemoteQueue(self._queues.home_node(node), specification)

    def added(self, vhost: str, queue: QueueClient, storage_id: int) -> None:
        """Nodes that wait for a queue of this node may use it."""
        self._queues.added(queue)

    def moved(self, vhost: str, queue: QueueClient, placement: Placement, storage_id: int) -> None:
        """The queue's node was renamed: from now on requests go to it by its new name."""
        if isinstance(queue, RemoteQueue):
            queue.move(self._queues.home_node(placement.node), placement)

    def renamed(self, queue: QueueClient) -> None:
        """Nodes that ask for a queue of this node by its new name may use it."""
        self._local.renamed(queue)
        self._queues.added(queue)

    def replaced(self, queue: QueueClient) -> Sequence[Consumer]:
        """What a queue of another node has not confirmed is refused: it may have come too late."""
        return queue.close() if isinstance(queue, RemoteQueue) else super().replaced(queue)

    def node_renamed(
        self, vhost: str, queue: QueueClient, old: str, new: str
    ) -> Declaration | None:
        """A queue of the node lives on it under the new name."""
        placement = queue.placement
        if placement.node != old:
            return None
        return PutQueueHome(vhost, queue.name, new, placement.identity)

    def node_removed(
        self, vhost: str, queue: QueueClient, node: str, left: frozenset[str]
    ) -> Declaration | None:
        """A queue of the node is deleted with it."""
        return DeleteQueue(vhost, queue.name) if queue.placement.node == node else None

    def messages_here(self, queue: QueueClient) -> BackingQueue | None:
        """A queue of another node has none here."""
        return self._local.messages_here(queue)


def serve_placed(kinds: QueueKinds, queues: RemoteQueues) -> None:
    """The node is in a cluster from now on: queues of all its kinds may live on other nodes."""
    kinds.node, kinds.incarnation = queues.node, queues.incarnation
    kinds.fit = lambda factory: PlacedFactory(factory, queues)
    for factory in kinds:
        kinds.add(kinds.fit(factory))

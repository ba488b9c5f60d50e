"""The interface between a node and its kinds of replicated queues: quorum queues, mirrored queues.

A node makes its kinds at each start (cluster/node/replicated_kinds.py), serves their factories, and
tells all of them, one after the other, what happens to the node and its cluster.
"""

from collections.abc import Iterator
from typing import TypeVar

from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.storage.metadata.metadata_rows import Definitions
from leveret.storage.store.store import Store


class ReplicatedKind:
    """The queues of one kind on one node. The methods do nothing; a kind defines those it needs.

    factory: makes the queues.
    """

    factory: QueueFactory

    # The start, in this order

    async def take_over(
        self, definitions: Definitions, store: Store, *, is_alone: bool
    ) -> Definitions:
        """Convert what an earlier version has stored; returns what is declared then.

        is_alone: this node is in no cluster.
        """
        return definitions

    def restored(self) -> None:
        """The queues that a restart has found are restored."""

    def has_declarations(self) -> None:
        """The node has all declarations of its cluster: queues that are not declared are gone."""

    # While the node runs

    def members_changed(self) -> None:
        """Nodes were added to the cluster, or removed."""

    def view_changed(self) -> None:
        """Nodes have started or stopped, or this node is in no view of its cluster."""

    def maintenance_changed(self, is_under_maintenance: bool) -> None:
        """A node was put under maintenance, or has come back. is_under_maintenance: this node."""

    def tick(self) -> None:
        """A fraction of a second has passed. Called only in a cluster."""

    async def hand_over(self) -> bool:
        """Wait until other nodes lead the queues of this node, which is under maintenance.

        Returns whether all of them could be handed over.
        """
        return True

    # The stop, in this order

    async def leave(self) -> None:
        """The node stops while others run: hand over what it leads, within seconds."""

    def close(self) -> None:
        """The node stops; its links are still up."""


K = TypeVar("K", bound=ReplicatedKind)


class ReplicatedKinds:
    """The replicated kinds of one node."""

    def __init__(self) -> None:
        self._kinds: dict[type[ReplicatedKind], ReplicatedKind] = {}

    def add(self, kind: ReplicatedKind) -> None:
        """Add a kind."""
        self._kinds[type(kind)] = kind

    def __iter__(self) -> Iterator[ReplicatedKind]:
        """The kinds, in the order in which they were added."""
        return iter(self._kinds.values())

    def find(self, kind: type[K]) -> K | None:
        """The kind that an object of this class serves; None if the node does not have it yet."""
        found = self._kinds.get(kind)
        return found if isinstance(found, kind) else None

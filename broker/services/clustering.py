"""A node's membership of a cluster, as its broker sees it. A broker on its own has none.

The cluster (cluster/node/cluster_node.py) is above the broker: the caller that runs the node makes
it and gives it to the broker, which calls it at the right moments of a start and a stop.
"""

from collections.abc import Callable
from typing import Protocol

from leveret.broker.registry.declaration_log import DeclarationLog, LocalDeclarationLog
from leveret.broker.services.services import Services
from leveret.storage.metadata.metadata_rows import Definitions
from leveret.storage.metadata.metadata_sync import MetadataSync
from leveret.storage.store.store import Store


class Clustering(Protocol):
    """The membership of one run of a node.

    failed: called with the error when the node cannot follow the other nodes; the broker has to
    stop. running_changed: called with the names of the running nodes when these change, or when
    other nodes report their static shovels.
    """

    failed: Callable[[Exception], object]
    running_changed: Callable[[tuple[str, ...]], object]

    def tell_static_shovels(self, names: tuple[str, ...]) -> None:
        """The configuration of this node has these static shovels: tell the other nodes."""

    def others_with_static_shovel(self, name: str) -> frozenset[str]:
        """The other nodes in whose configuration there is a static shovel of this name."""

    def declaration_log(
        self, services: Services, local: LocalDeclarationLog, sync: MetadataSync
    ) -> DeclarationLog:
        """The log of declarations. local: declares on this node alone. sync: that of its store.

        services: the broker's; they have the local log until this has returned.
        """

    async def prepare(self, definitions: Definitions, store: Store | None) -> Definitions:
        """The declarations read from the node's store are about to be restored; returns these.

        store: its log was read.
        """

    async def start(self, definitions: Definitions) -> None:
        """The node's declarations are restored, and clients not accepted yet: join the others.

        definitions: the declarations read from its store. Raises an error that says why the node
        cannot start.
        """

    def replacements_changed(self) -> None:
        """The replacement of a queue was decided, was made, or is given up."""

    def queue_changed(self, vhost: str, name: str) -> None:
        """A queue was deleted, or has another home."""

    async def stop(self) -> None:
        """The connections of clients are closed: leave the cluster's other nodes."""

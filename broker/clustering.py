"""What a broker needs of the cluster that its node belongs to. A broker on its own has none.

The cluster (cluster/cluster_node.py) is above the broker: it is made by who runs the node and given
to the broker, which calls it at the right moments of a start and a stop.
"""

from collections.abc import Callable
from typing import Protocol

from leveret.broker.registry.declaration_log import DeclarationLog, LocalDeclarationLog
from leveret.broker.services import Services
from leveret.storage.metadata_rows import Definitions
from leveret.storage.metadata_sync import MetadataSync


class Clustering(Protocol):
    """The membership of one run of a node.

    failed: called with the error when the node cannot follow the others; the broker has to stop.
    running_changed: called with the names of the nodes that run when there are others, or when
    others tell their static shovels.
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
        """The log of declarations. local: declares on this node alone. sync: of its store.

        services: those of the broker; they have the local log until this has returned.
        """

    def prepare(self, definitions: Definitions) -> None:
        """What was read from the node's store is about to be restored."""

    async def start(self, definitions: Definitions) -> None:
        """What the node had is restored, and clients are not accepted yet: join the others.

        definitions: what was read from its store. Raises an error that says why the node cannot
        start.
        """

    async def stop(self) -> None:
        """The connections of clients are closed: leave the others."""

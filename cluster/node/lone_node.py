"""A node that has no links, and so no cluster: `cluster.port = 0`, or the broker of a test.

It serves quorum queues of one member, which are groups as those of several members.
"""

from collections.abc import Callable
from pathlib import Path

from leveret.broker.config import Config
from leveret.broker.registry.declaration_log import DeclarationLog, LocalDeclarationLog
from leveret.broker.services.services import Services
from leveret.cluster.links.incarnation import next_incarnation
from leveret.cluster.links.services import Service
from leveret.cluster.quorum.client.commands import NodeSenders
from leveret.cluster.quorum.client.quorum_queue_client import OwnNode
from leveret.cluster.quorum.queue_groups.node_states import KnownRuns
from leveret.cluster.quorum.queue_groups.quorum_queues import QuorumQueues
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.storage.messages.addresses import Addresses
from leveret.storage.metadata.metadata_rows import Definitions
from leveret.storage.metadata.metadata_sync import MetadataSync
from leveret.storage.store.store import Store

MICROSECONDS = 1_000_000


class NoLinks:
    """The links of a node that has none."""

    def register(self, number: int, service: Service) -> None:
        """Nothing is sent to the service."""


class OneNode:
    """What quorum queues are told of a cluster of one node. See `ClusterState`."""

    under_maintenance: frozenset[str] = frozenset()

    def __init__(self, node: str, incarnation: int) -> None:
        self.nodes = self.running = frozenset((node,))
        self.runs = KnownRuns({node: incarnation}, {})


class LoneNode:
    """The `Clustering` of one run of such a node. data_dir: None if it has no files."""

    def __init__(self, config: Config, data_dir: Path | None = None) -> None:
        self.failed: Callable[[Exception], object] = lambda error: None
        self.running_changed: Callable[[tuple[str, ...]], object] = lambda running: None
        self.quorum_queues: QuorumQueues | None = None
        self._name = config.node_name
        self._data_dir = data_dir
        self._services: Services

    def tell_static_shovels(self, names: tuple[str, ...]) -> None:
        """There is no node to tell."""

    def others_with_static_shovel(self, name: str) -> frozenset[str]:
        """There are no others."""
        return frozenset()

    def declaration_log(
        self, services: Services, local: LocalDeclarationLog, sync: MetadataSync
    ) -> DeclarationLog:
        """Declarations are made on this node alone."""
        self._services = services
        return local

    async def prepare(self, definitions: Definitions, store: Store | None) -> Definitions:
        """Serve quorum queues. Raises OSError and StoreError."""
        services = self._services
        now_s = services.clock.wall_time_s()
        if self._data_dir is None:
            incarnation = int(now_s * MICROSECONDS)
        else:
            incarnation = next_incarnation(self._data_dir, now_s)
        node = OwnNode(
            self._name, NodeSenders(self._name, incarnation), Addresses(),
            UntakenBytes(services.flow.set_nodes_behind),
            not services.config.is_as_rabbitmq_4,
        )  # fmt: skip
        self.quorum_queues = QuorumQueues(
            node, services, NoLinks(), None if store is None else store.groups,
            OneNode(self._name, incarnation),
        )  # fmt: skip
        services.queue_kinds.add(self.quorum_queues.factory)
        if store is None:
            return definitions
        return await self.quorum_queues.take_over(definitions, store, is_alone=True)

    async def start(self, definitions: Definitions) -> None:
        """The node has all declarations."""
        if self.quorum_queues is not None:
            self.quorum_queues.restored()
            if not definitions.damaged:
                self.quorum_queues.has_declarations()

    async def stop(self) -> None:
        """End the groups."""
        if self.quorum_queues is not None:
            self.quorum_queues.close()

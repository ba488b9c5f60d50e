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
from leveret.cluster.node.replicated_kinds import NodeParts, serve_kinds
from leveret.cluster.placement.replicated_kind import ReplicatedKinds
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.client.sender_numbers import SenderNumbers
from leveret.cluster.replicated_queues.client.timed_request import answer_ms
from leveret.cluster.replicated_queues.known_runs import KnownRuns
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
    """The `ClusterState` of a node that is in no cluster."""

    under_maintenance: frozenset[str] = frozenset()

    def __init__(self, node: str, incarnation: int) -> None:
        self.nodes = self.running = frozenset((node,))
        self.runs = KnownRuns({node: incarnation}, {})


class LoneNode:
    """The `Clustering` of one run of such a node. data_dir: None if it has no files."""

    def __init__(self, config: Config, data_dir: Path | None = None) -> None:
        self.failed: Callable[[Exception], object] = lambda error: None
        self.running_changed: Callable[[tuple[str, ...]], object] = lambda running: None
        self.kinds = ReplicatedKinds()
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
        """Serve replicated queues, which have one member each. Raises OSError and StoreError."""
        services = self._services
        now_s = services.clock.wall_time_s()
        if self._data_dir is None:
            incarnation = int(now_s * MICROSECONDS)
        else:
            incarnation = next_incarnation(self._data_dir, now_s)
        node = OwnNode(
            self._name, answer_ms(services.config.channel_operation_timeout_ms),
            SenderNumbers(self._name, incarnation), Addresses(),
            UntakenBytes(services.flow.set_nodes_behind), services.counts.given_by_quorum_queues,
            not services.config.is_as_rabbitmq_4, services.config.is_as_rabbitmq_4_3,
        )  # fmt: skip
        parts = NodeParts(node, services, NoLinks(), store, OneNode(self._name, incarnation))
        return await serve_kinds(parts, self.kinds, definitions, is_alone=True)

    async def start(self, definitions: Definitions) -> None:
        """The node has all declarations."""
        for kind in self.kinds:
            kind.restored()
            if not definitions.damaged:
                kind.has_declarations()

    def replacements_changed(self) -> None:
        """No queue is converted here."""

    def queue_changed(self, vhost: str, name: str) -> None:
        """No queue is converted here."""

    async def stop(self) -> None:
        """End all kinds."""
        for kind in self.kinds:
            kind.close()

"""The kinds of replicated queues that each node serves, in a cluster or alone.

Mirrored queues exist only in clusters: they are classic queues on a node that is alone
(cluster_node.py).
"""

from collections.abc import Callable
from typing import NamedTuple

from leveret.broker.services.services import Services
from leveret.cluster.links.services import ServiceRegistry
from leveret.cluster.placement.replicated_kind import ReplicatedKind, ReplicatedKinds
from leveret.cluster.quorum.queue_groups.quorum_queues import QuorumQueues
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.cluster_state import ClusterState
from leveret.cluster.streams.stream_queues import StreamQueues
from leveret.storage.metadata.metadata_rows import Definitions
from leveret.storage.store.store import Store


class NodeParts(NamedTuple):
    """The parts of a node that a kind uses. store: its log was read; None if there are no files."""

    node: OwnNode
    services: Services
    links: ServiceRegistry
    store: Store | None
    cluster: ClusterState


def _quorum_queues(parts: NodeParts) -> ReplicatedKind:
    groups = None if parts.store is None else parts.store.groups
    return QuorumQueues(parts.node, parts.services, parts.links, groups, parts.cluster)


def _streams(parts: NodeParts) -> ReplicatedKind:
    streams = None if parts.store is None else parts.store.streams
    node = parts.node._replace(given=parts.services.counts.given_by_streams)
    return StreamQueues(node, parts.services, parts.links, streams, parts.cluster)


KINDS: list[Callable[[NodeParts], ReplicatedKind]] = [_quorum_queues, _streams]
"""Each one makes a kind. Raises StoreError."""


async def serve_kinds(
    parts: NodeParts, kinds: ReplicatedKinds, definitions: Definitions, *, is_alone: bool
) -> Definitions:
    """Make all kinds, before declarations are restored; returns what is declared then.

    is_alone: the node is in no cluster. Raises StoreError.
    """
    for make in KINDS:
        kind = make(parts)
        kinds.add(kind)
        parts.services.queue_kinds.add(kind.factory)
        if parts.store is not None:
            definitions = await kind.take_over(definitions, parts.store, is_alone=is_alone)
    return definitions

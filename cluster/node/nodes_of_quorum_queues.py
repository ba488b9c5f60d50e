"""The `ClusterState` of a node in a cluster, for its quorum queues."""

from typing import Protocol

from leveret.cluster.links.links import Links
from leveret.cluster.metadata.replicated_declarations import ReplicatedDeclarations
from leveret.cluster.node_status.node_states import NodeStates
from leveret.cluster.replicated_queues.known_runs import KnownRuns


class ClusteredNode(Protocol):
    """The node. log: from its start on."""

    log: ReplicatedDeclarations

    @property
    def members(self) -> dict[str, bool]:
        """All nodes of the cluster."""

    @property
    def running(self) -> tuple[str, ...]:
        """The nodes of the view that this one is in."""

    @property
    def is_clustered(self) -> bool:
        """Whether there are other nodes, or may be."""


class NodesOfQuorumQueues:
    """The nodes of one cluster, as one of them sees them."""

    def __init__(self, node: ClusteredNode, links: Links, states: NodeStates) -> None:
        self._node = node
        self._links = links
        self._states = states

    @property
    def nodes(self) -> frozenset[str]:
        """The members of the cluster, at least this node."""
        return frozenset(self._node.members)

    @property
    def running(self) -> frozenset[str]:
        """Those that run."""
        return frozenset(self._node.running)

    @property
    def under_maintenance(self) -> frozenset[str]:
        """Other nodes that get no new members."""
        return self._states.under_maintenance

    @property
    def runs(self) -> KnownRuns | None:
        """The runs of all nodes; None while this node is in no view of its cluster."""
        view = self._node.log.view
        if view is None and self._node.is_clustered:
            return None
        linked = {peer.name: peer.incarnation for peer in self._links.peers.values()}
        linked[self._links.node] = self._links.incarnation
        running = {} if view is None else {one.name: one.incarnation for one in view.members}
        return KnownRuns(linked, running)

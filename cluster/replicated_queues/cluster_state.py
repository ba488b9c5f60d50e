"""The interface to the state of a cluster's nodes, as one of them sees it (cluster/node)."""

from collections.abc import Set
from typing import Protocol

from leveret.cluster.replicated_queues.known_runs import KnownRuns


class ClusterState(Protocol):
    """The state of the cluster's nodes."""

    @property
    def nodes(self) -> Set[str]:
        """The members of the cluster, at least this node."""

    @property
    def running(self) -> Set[str]:
        """The nodes that run."""

    @property
    def under_maintenance(self) -> Set[str]:
        """Other nodes that should not get members or leaders."""

    @property
    def runs(self) -> KnownRuns | None:
        """The incarnations of all nodes; None while this node does not know which nodes run."""

"""The nodes of a cluster as declarations: a global parameter for each, under their own component.

So they are replicated, kept on disk and part of a snapshot like all other declarations, and are
changed by submitting declarations. A node that is not in a cluster has none.
"""

from collections.abc import Iterable

from leveret.broker.declarations.values import Declaration, DeleteParameter, PutParameter
from leveret.broker.policies.parameters import NO_VHOST, Parameters

CLUSTER_NODE = "cluster-node"
"""The component. The name is the node's; the value states whether it is a disc node."""
CLUSTER_ID, ID = "cluster-id", "id"
"""The component and name of the cluster's id. The first node makes the id."""
_IS_DISC = "disc"


def members_of(parameters: Parameters) -> dict[str, bool]:
    """The names of the cluster's nodes and whether each is a disc node; empty without a cluster."""
    return {
        name: bool(value.get(_IS_DISC, True))
        for _, name, value in parameters.of(CLUSTER_NODE)
        if isinstance(value, dict)
    }


def cluster_id_of(parameters: Parameters) -> str:
    """The cluster's id; empty without a cluster."""
    return str(parameters.get(CLUSTER_ID, NO_VHOST, ID) or "")


def put_member(name: str, is_disc: bool) -> PutParameter:
    """The declaration that adds a node, or changes its type."""
    return PutParameter(CLUSTER_NODE, NO_VHOST, name, {_IS_DISC: is_disc})


def delete_member(name: str) -> DeleteParameter:
    """The declaration that removes a node."""
    return DeleteParameter(CLUSTER_NODE, NO_VHOST, name)


def put_cluster_id(value: str) -> PutParameter:
    """The declaration that names the cluster."""
    return PutParameter(CLUSTER_ID, NO_VHOST, ID, value)


def removed_members(declarations: Iterable[Declaration]) -> frozenset[str]:
    """The names of the nodes that these declarations remove from the cluster."""
    return frozenset(
        one.name
        for one in declarations
        if isinstance(one, DeleteParameter) and one.component == CLUSTER_NODE
    )


def change_members(declarations: Iterable[Declaration]) -> bool:
    """Whether any of these declarations changes the nodes of the cluster."""
    return any(
        isinstance(one, PutParameter | DeleteParameter)
        and one.component in (CLUSTER_NODE, CLUSTER_ID)
        for one in declarations
    )

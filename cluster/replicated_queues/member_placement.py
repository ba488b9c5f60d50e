"""Chooses the nodes for the members of a new queue, and the first leader. Pure.

A node has at most one member. The node of the declaring client always has one. The others are
placed on running nodes, first on those with the fewest members. As in RabbitMQ, a node under
maintenance counts as not running.

The leader is on the declaring node (`client-local`), or on the one of the members' nodes that has
the fewest leaders (`balanced`).
"""

from collections.abc import Iterable
from typing import NamedTuple

from leveret.cluster.placement.leader_location import CLIENT_LOCAL


class NodeLoad(NamedTuple):
    """A node of the cluster. may_get: it runs, and is not under maintenance. members, leaders: of
    how many queues of the kind it has a member, and the leader.
    """

    name: str
    may_get: bool
    members: int
    leaders: int


def member_nodes(this_node: str, nodes: Iterable[NodeLoad], size: int) -> tuple[str, ...]:
    """The nodes that get members, this one first."""
    others = sorted(
        [node for node in nodes if node.name != this_node],
        key=lambda node: (not node.may_get, node.members, node.name),
    )
    return (this_node, *[node.name for node in others[: max(0, size - 1)]])


def leader_node(
    this_node: str, members: Iterable[str], nodes: Iterable[NodeLoad], locator: str
) -> str:
    """The node of the first leader: this one, unless another member's node has fewer leaders."""
    if locator == CLIENT_LOCAL:
        return this_node
    chosen = set(members)
    candidates = [node for node in nodes if node.name in chosen and node.may_get]
    best = min(
        candidates,
        key=lambda node: (node.leaders, node.name != this_node, node.name),
        default=None,
    )
    return this_node if best is None else best.name

"""Autoheal: decides which side of a partition continues when the sides have met again.

The decision needs all nodes of the cluster, so that no third side appears after it. The first node
by name makes it, on whichever side it is: it collects a report of each node, and sends the verdict
to all. The winner is the side with the most client connections, then the one with the most nodes,
then the one whose list of nodes is the greatest by name, as RabbitMQ compares them. Nodes of the
other sides restart, and take the winner's metadata only: they join a view that has a winner in it,
and never a node of their own side that has not restarted yet.

AH1. A node gives way only to a verdict about the side that it is on when the verdict arrives. So a
     late or repeated verdict does nothing, and at most one of two sides gives way.
"""

from collections.abc import Iterable

import msgspec


class PartitionReport(msgspec.Struct, frozen=True):
    """The report of a node.

    side: the names of its view's members. view: the view's id. partitioned_from: the running nodes
    of other sides. connections: the number of client connections.
    """

    node: str
    side: tuple[str, ...]
    view: tuple[int, str, int]
    partitioned_from: tuple[str, ...]
    connections: int


class Verdict(msgspec.Struct, frozen=True):
    """The decision. winners: the nodes of the continuing side. losers: the other sides' views."""

    winners: tuple[str, ...]
    losers: tuple[tuple[int, str, int], ...]


def decides(me: str, cluster: frozenset[str]) -> bool:
    """Whether a node makes the decision. cluster: the names of all nodes."""
    return bool(cluster) and me == min(cluster)


def decide(cluster: frozenset[str], reports: Iterable[PartitionReport]) -> Verdict | None:
    """The verdict; None if there is no partition, or the reports are not from all nodes, each on
    exactly one side.
    """
    known = {one.node: one for one in reports}
    if known.keys() != cluster or not any(one.partitioned_from for one in known.values()):
        return None
    views = {one.view: one.side for one in known.values()}
    if any(views[one.view] != one.side or one.node not in one.side for one in known.values()):
        return None
    if sorted(name for side in views.values() for name in side) != sorted(cluster):
        return None
    connections = dict.fromkeys(views, 0)
    for one in known.values():
        connections[one.view] += one.connections
    winner = max(views, key=lambda view: (connections[view], len(views[view]), sorted(views[view])))
    losers = tuple(sorted(view for view in views if view != winner))
    return Verdict(tuple(sorted(views[winner])), losers)


def has_lost(view: tuple[int, str, int], verdict: Verdict) -> bool:
    """Whether a node with this view has to restart, and to join a winner (AH1)."""
    return view in verdict.losers

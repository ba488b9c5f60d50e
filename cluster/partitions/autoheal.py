"""Autoheal: which side of a partition goes on when the sides have met again.

The decision needs all nodes of the cluster, so that no third side appears after it. It is made by
the first of them by name, wherever that node is, and sent to all. The winner is the side with the
most client connections, then the one with the most nodes, then the one whose list of nodes is the
greatest by name, as RabbitMQ compares them. Nodes of the other sides restart, and take the winner's
metadata only: they start with a view that a winner is in, and not with a node of their own side
that has not restarted yet.

    coordinator of a side        the first node              the others
    PartitionedFrom ───────────► needs a report of each
    each node: its connections ► side by side ── Verdict ──► a loser restarts
"""

from collections.abc import Iterable

import msgspec


class Report(msgspec.Struct, frozen=True, tag=True):
    """What a node says of itself. side: the names of its view's members. connections: clients."""

    node: str
    side: tuple[str, ...]
    partitioned_from: tuple[str, ...]
    connections: int


class Verdict(msgspec.Struct, frozen=True, tag=True):
    """The decision. winners: the names of the side that goes on."""

    winners: tuple[str, ...]


def decide(sides: Iterable[tuple[tuple[str, ...], int]]) -> tuple[str, ...]:
    """The winner among sides: the names of each, and the client connections of all its nodes."""
    winner, _ = max(sides, key=lambda side: (side[1], len(side[0]), sorted(side[0])))
    return tuple(sorted(winner))


class Autoheal:
    """The decision at one node. me: its name. cluster: the names of all nodes."""

    def __init__(self, me: str, cluster: frozenset[str]) -> None:
        self._me = me
        self._cluster = cluster
        self._reports: dict[str, Report] = {}

    @property
    def decides(self) -> bool:
        """Whether this node makes the decision."""
        return bool(self._cluster) and self._me == min(self._cluster)

    def unlinked(self, name: str) -> None:
        """A node cannot be reached; without it nothing is decided."""
        self._reports.pop(name, None)

    def reported(self, report: Report) -> Verdict | None:
        """A node says how it stands, or this one does; the verdict if everything is known."""
        self._reports[report.node] = report
        if not self.decides or self._reports.keys() < self._cluster:
            return None
        reports = [self._reports[name] for name in sorted(self._cluster)]
        is_partitioned = any(one.partitioned_from for one in reports)
        if not is_partitioned or any(one.node not in one.side for one in reports):
            return None
        sides: dict[tuple[str, ...], int] = {}
        for one in reports:
            side = tuple(sorted(one.side))
            sides[side] = sides.get(side, 0) + one.connections
        if sorted(name for side in sides for name in side) != sorted(self._cluster):
            return None
        self._reports.clear()
        return Verdict(decide(sides.items()))


def has_lost(me: str, verdict: Verdict) -> bool:
    """Whether a node has to restart, and to start with one of the winners."""
    return me not in verdict.winners

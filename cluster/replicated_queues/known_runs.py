"""The runs of nodes: which one of a node is linked, cut off, or has ended. Pure."""

from enum import Enum
from typing import NamedTuple


class RunState(Enum):
    """The state of one incarnation of a node."""

    LINKED = 1
    CUT_OFF = 2
    ENDED = 3


class KnownRuns(NamedTuple):
    """The incarnations of nodes, by name. linked: of nodes that this one has links to, and its own.

    running: of the nodes that run, from the view of the cluster.
    """

    linked: dict[str, int]
    running: dict[str, int]

    def state(self, node: str, incarnation: int) -> RunState:
        """The state of one incarnation."""
        if self.linked.get(node) == incarnation:
            return RunState.LINKED
        is_running = node not in self.linked and self.running.get(node) == incarnation
        return RunState.CUT_OFF if is_running else RunState.ENDED

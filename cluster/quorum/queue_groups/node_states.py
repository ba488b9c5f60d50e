"""What the leader of a queue says of the nodes that use it, by what the cluster says of them. Pure.

A node that has started again, or that the running nodes have given up, has ended: what its clients
held is returned. One that runs but cannot be reached keeps what it holds, and gets nothing new.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from leveret.cluster.quorum.machine.commands import (
    Command,
    NodeConnected,
    NodeDisconnected,
    NodeDown,
)
from leveret.cluster.quorum.machine.senders import Sender


class RunState(Enum):
    """The state of one run of a node."""

    LINKED = 1
    CUT_OFF = 2
    ENDED = 3


class KnownRuns(NamedTuple):
    """The runs of nodes, by name. linked: those that this node is linked to, and itself.

    running: those that the cluster takes for running.
    """

    linked: dict[str, int]
    running: dict[str, int]

    def state(self, node: str, incarnation: int) -> RunState:
        """The state of one run."""
        if self.linked.get(node) == incarnation:
            return RunState.LINKED
        is_running = node not in self.linked and self.running.get(node) == incarnation
        return RunState.CUT_OFF if is_running else RunState.ENDED


def node_commands(senders: Iterable[Sender], runs: KnownRuns, changed: str = "") -> list[Command]:
    """What the leader proposes.

    changed: a node whose link has just changed. What was proposed about it before may not be
    applied yet, so its state is proposed whatever the machine has.
    """
    commands: dict[Command, None] = {}
    for sender in senders:
        if sender.has_ended:
            continue
        node = sender.node
        state = runs.state(node, sender.incarnation)
        is_away = state is RunState.CUT_OFF
        if state is RunState.ENDED:
            commands[NodeDown(node, sender.incarnation)] = None
        elif sender.is_away != is_away or node == changed:
            commands[NodeDisconnected(node) if is_away else NodeConnected(node)] = None
    return list(commands)

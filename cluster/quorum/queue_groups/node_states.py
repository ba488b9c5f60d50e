"""The commands with which a queue's leader tells the machine the states of nodes. Pure.

If a node was restarted, or the running nodes consider it down, the messages that its clients held
are returned. If it runs but cannot be reached, its clients keep the messages that they hold, and
get no new ones.
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


def node_commands(senders: Iterable[Sender], runs: KnownRuns, changed: str = "") -> list[Command]:
    """The commands that the leader has to propose.

    changed: a node whose link has just changed. Earlier proposals about it may not be applied yet,
    so its state is proposed whatever the machine's state is.
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

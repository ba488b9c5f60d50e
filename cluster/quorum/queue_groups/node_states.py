"""The commands with which a queue's leader tells the machine the states of nodes. Pure.

If a node was restarted, or the running nodes consider it down, the messages that its clients held
are returned. If it runs but cannot be reached, its clients keep the messages that they hold, and
get no new ones.
"""

from collections.abc import Iterable

from leveret.cluster.quorum.machine.commands import (
    Command,
    NodeConnected,
    NodeDisconnected,
    NodeDown,
)
from leveret.cluster.quorum.machine.senders import Sender
from leveret.cluster.replicated_queues.known_runs import KnownRuns, RunState


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

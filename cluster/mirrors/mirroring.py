"""Which nodes are to have a mirrored queue, as its policy says. Pure: random choice is an argument.

The policy's `ha-mode` is one of

    all        every node of the cluster that runs
    exactly    as many nodes as `ha-params` says, fewer if fewer run. Those that have it stay:
               the leader's, then synchronised mirrors, then the others, the oldest first. Others
               are chosen at random
    nodes      those of the nodes that `ha-params` names which run

The leader's node stays until a synchronised mirror can take over, also where the policy does not
name it: otherwise a change of the policy would lose messages (`rabbit_mirror_queue_mode_nodes`
keeps it by the same rule). A queue on [A, B] whose policy names [C, D] is on [A, C, D] until C or D
is synchronised. `leader` of the answer then is one of them, and A goes with the next answer.

RabbitMQ hands over to any synchronised mirror, B in this example, and chooses among the oldest for
`exactly` without asking whether they are synchronised.

A node under maintenance gets no new mirrors, keeps those that it has, and hands over what it leads.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

ALL, EXACTLY, NODES = "all", "exactly", "nodes"
MANUAL, AUTOMATIC = "manual", "automatic"
ALWAYS, WHEN_SYNCED = "always", "when-synced"
SYNC_BATCH_SIZE = 4096
"""Messages, if neither the policy (`ha-sync-batch-size`) nor the configuration
(`mirroring_sync_batch_size`) says how many."""


class Mirroring(NamedTuple):
    """What a policy asks for. mode: empty for a queue without mirrors.

    node_count: in the mode `exactly`. nodes: in the mode `nodes`. on_shutdown, on_failure:
    whether a mirror that is not synchronised may lead when the leader stops or dies.
    """

    mode: str = ""
    node_count: int = 0
    nodes: tuple[str, ...] = ()
    is_automatic: bool = False
    batch_size: int = SYNC_BATCH_SIZE
    on_shutdown: str = WHEN_SYNCED
    on_failure: str = ALWAYS

    def may_lead_unsynchronised(self, is_stopped: bool) -> bool:
        """Whether a mirror that lacks messages may lead. is_stopped: an operator has stopped the
        leader's node; otherwise it has died.
        """
        return (self.on_shutdown if is_stopped else self.on_failure) == ALWAYS


NOT_MIRRORED = Mirroring()


def read_mirroring(definition: Mapping[str, Any], batch_size: int = SYNC_BATCH_SIZE) -> Mirroring:
    """What the merged definition of a queue's policies asks for, which was checked before.

    batch_size: as configured.
    """
    mode = definition.get("ha-mode", "")
    params = definition.get("ha-params")
    count = params if mode == EXACTLY and isinstance(params, int) else 0
    if not mode or (mode == EXACTLY and count < 2):
        return NOT_MIRRORED
    return Mirroring(
        mode,
        count,
        tuple(dict.fromkeys(params)) if mode == NODES and isinstance(params, list) else (),
        definition.get("ha-sync-mode", MANUAL) == AUTOMATIC,
        definition.get("ha-sync-batch-size", batch_size),
        definition.get("ha-promote-on-shutdown", WHEN_SYNCED),
        definition.get("ha-promote-on-failure", ALWAYS),
    )


class RunningNodes(NamedTuple):
    """The nodes of the view that the leader's node is in, and which of them are maintained."""

    running: frozenset[str]
    under_maintenance: frozenset[str] = frozenset()

    @property
    def available(self) -> frozenset[str]:
        """Those that may get a mirror."""
        return self.running - self.under_maintenance


class Placement(NamedTuple):
    """On which nodes a queue is to be. mirrors: those that have it already come first."""

    leader: str
    mirrors: tuple[str, ...]


def place(
    mirroring: Mirroring,
    leader: str,
    mirrors: Sequence[str],
    synchronised: frozenset[str],
    nodes: RunningNodes,
    choose: Callable[[int], int],
) -> Placement:
    """Where a queue is to be that is led on one node and mirrored on others.

    mirrors: the oldest first. synchronised: those of them that are. choose: returns a number below
    its argument, at random.
    """
    if not mirroring.mode:
        return Placement(leader, ())
    wanted = _wanted(mirroring, leader, mirrors, synchronised, nodes, choose)
    if leader not in wanted or leader in nodes.under_maintenance:
        able = (synchronised & set(wanted)) - nodes.under_maintenance
        leader = next((node for node in mirrors if node in able), leader)
    return Placement(leader, tuple(node for node in wanted if node != leader))


def _wanted(
    mirroring: Mirroring,
    leader: str,
    mirrors: Sequence[str],
    synchronised: frozenset[str],
    nodes: RunningNodes,
    choose: Callable[[int], int],
) -> list[str]:
    """The nodes that the policy wants: those that have the queue first."""
    having = [leader, *mirrors]
    if mirroring.mode == NODES:
        known = [node for node in having if node in mirroring.nodes and node in nodes.running]
        new = [node for node in mirroring.nodes if node in nodes.available and node not in having]
        return [*known, *new]
    others = sorted(nodes.available.difference(having))
    if mirroring.mode == ALL:
        return [*having, *others]
    oldest = sorted(mirrors, key=lambda node: node not in synchronised)
    wanted = [leader, *oldest][: mirroring.node_count]
    while len(wanted) < mirroring.node_count and others:
        wanted.append(others.pop(choose(len(others))))
    return wanted

"""Where a mirrored queue is to be, and what brings it there. Pure: random choice is an argument.

`place` says which nodes are to have a queue, by its policy's `ha-mode`, which is one of

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

`next_step` says what the leader's node has to do next: one step at a time, and whoever carries it
out asks again when the record has changed. New mirrors come before others go, and the leader's node
goes last, so a queue on [A, B] whose policy names [C, D] is on [A, B, C], [A, B, C, D], [A, C, D],
and, when C is synchronised, on [C, D]. A queue is given a record when it is to have its first
mirror, and keeps it while its policy mirrors it: also alone, as long as nodes that are down have
messages of it.

`rebalancing` says which queues are to be led elsewhere, so that all nodes lead about as many. A
queue moves to a synchronised mirror only, so nothing is lost and nothing has to be copied. It moves
if its node then still leads as many as the other one, at least: so each move brings two nodes
closer together, and the same queues are never moved twice.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.mirror_record import MirrorRecord

# Placement

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


# Steps


class BeginMirroring(NamedTuple):
    """Give the queue a record, and its leader a member."""


class AddMirror(NamedTuple):
    """Have a node join."""

    node: str


class DropMirror(NamedTuple):
    """Have a mirror leave."""

    member: Member


class HandOver(NamedTuple):
    """Have a synchronised mirror lead."""

    member: Member


class ForgetCopy(NamedTuple):
    """Have a node that runs, and is not to mirror the queue, give up the messages on its disk."""

    node: str


class EndMirroring(NamedTuple):
    """Take the record away."""


Step: TypeAlias = BeginMirroring | AddMirror | DropMirror | HandOver | ForgetCopy | EndMirroring


def next_step(
    record: MirrorRecord | None,
    node: str,
    mirroring: Mirroring,
    nodes: RunningNodes,
    choose: Callable[[int], int],
) -> Step | None:
    """The next step for a queue that may be mirrored; None if it is as its policy wants it.

    node: where it is led. choose: returns a number below its argument, at random.
    """
    if record is None:
        wanted = place(mirroring, node, (), frozenset(), nodes, choose)
        return BeginMirroring() if wanted.mirrors else None
    if record.leader is None:
        return None
    if not mirroring.mode:
        return EndMirroring()
    return _next_of_mirrored(record, record.leader.node, mirroring, nodes, choose)


def _next_of_mirrored(
    record: MirrorRecord,
    leader: str,
    mirroring: Mirroring,
    nodes: RunningNodes,
    choose: Callable[[int], int],
) -> Step | None:
    mirrors = {one.id.node: one for one in record.mirrors}
    synchronised = frozenset(node for node, one in mirrors.items() if one.is_synchronised)
    wanted = place(mirroring, leader, tuple(mirrors), synchronised, nodes, choose)
    for node in wanted.mirrors:
        if node != leader and node not in mirrors:
            return AddMirror(node)
    for node, one in mirrors.items():
        if node not in (wanted.leader, *wanted.mirrors):
            return DropMirror(one.id)
    if wanted.leader != leader:
        return HandOver(mirrors[wanted.leader].id)
    for copy in record.has_copy:
        # A node that is maintained, or stops, may have its mirror again afterwards.
        if copy.node in nodes.available and copy.node not in wanted.mirrors:
            return ForgetCopy(copy.node)
    return None


def returns(record: MirrorRecord | None, node: str) -> bool:
    """Whether a queue waits for a node, which is to ask for its return when it runs."""
    return record is not None and record.awaited == node


def vanished(record: MirrorRecord | None, lives: Callable[[Member], bool]) -> tuple[Member, ...]:
    """The members of a record that none of lives, for the coordinator to report; else nobody.

    lives: whether the node of a member is in the view with that incarnation.
    """
    if record is None or any(lives(one.id) for one in record.members):
        return ()
    return tuple(one.id for one in record.members)


# Rebalancing


class LedQueue(NamedTuple):
    """A queue, by the node that leads it, and those that could: in the order of their members."""

    leader: str
    able: tuple[str, ...]


class Move(NamedTuple):
    """The queue at this place of the list is to be led by this node."""

    place: int
    node: str


def rebalancing(queues: Sequence[LedQueue]) -> list[Move]:
    """The moves, in the order in which they are to be made."""
    counts = Counter(queue.leader for queue in queues)
    left = dict(enumerate(queues))
    moves: list[Move] = []
    while True:
        made = [
            move for index, queue in tuple(left.items()) if (move := _move(index, queue, counts))
        ]
        if not made:
            return moves
        moves += made
        for move in made:
            del left[move.place]


def _move(index: int, queue: LedQueue, counts: Counter[str]) -> Move | None:
    """The move of a queue, which is counted, or None if it stays."""
    node = min(queue.able, key=lambda one: counts[one], default=queue.leader)
    if counts[node] + 1 >= counts[queue.leader]:
        return None
    counts[queue.leader] -= 1
    counts[node] += 1
    return Move(index, node)

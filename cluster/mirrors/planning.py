"""The placement of a mirrored queue, and the steps towards it. Pure: the random choice is an
argument.

`place` returns the nodes that are to have a queue, by its policy's `ha-mode`, which is one of

    all        every node of the cluster that runs
    exactly    as many nodes as `ha-params` says, fewer if fewer run. Nodes that have the queue
               stay: the leader's, then synchronised mirrors, then other mirrors, the oldest first.
               Further nodes are chosen at random
    nodes      the running nodes that `ha-params` names

The leader's node stays until a synchronised mirror can take over, even if the policy does not name
it: otherwise a change of the policy would lose messages (`rabbit_mirror_queue_mode_nodes` keeps it
by the same rule). A queue on [A, B] whose policy names [C, D] is on [A, C, D] until C or D is
synchronised. Then `leader` of the placement is one of them, and the next placement is without A.

RabbitMQ hands over to any synchronised mirror, B in this example, and for `exactly` chooses among
the oldest whether or not they are synchronised.

A node under maintenance gets no new mirrors, keeps its old ones, and hands over queues it leads.

`next_step` returns the next step of the leader's node: one at a time, and the caller asks again
when the record has changed. New mirrors are added before old ones are removed, and the leader's
node is removed last, so a queue on [A, B] whose policy names [C, D] is on [A, B, C], [A, B, C, D],
[A, C, D], and, when C is synchronised, on [C, D]. A queue gets a record with its first mirror, and
keeps it while its policy mirrors it: even without mirrors, as long as nodes that are down have
messages of it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.mirror_record import MirrorRecord

# Placement

ALL, EXACTLY, NODES = "all", "exactly", "nodes"
MANUAL, AUTOMATIC = "manual", "automatic"
ALWAYS, WHEN_SYNCED = "always", "when-synced"
SYNC_BATCH_SIZE = 4096
"""Messages in a batch, if neither the policy (`ha-sync-batch-size`) nor the configuration
(`mirroring_sync_batch_size`) sets the number."""


class Mirroring(NamedTuple):
    """The mirroring that a policy asks for. mode: empty for a queue without mirrors.

    node_count: for the mode `exactly`. nodes: for the mode `nodes`. on_shutdown, on_failure:
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
    """The mirroring in the merged definition of a queue's policies, which was checked before.

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


class NodesInView(NamedTuple):
    """The nodes in the view of the leader's node, and those of them under maintenance."""

    running: frozenset[str]
    under_maintenance: frozenset[str] = frozenset()

    @property
    def available(self) -> frozenset[str]:
        """The nodes that may get a mirror."""
        return self.running - self.under_maintenance


class NodesOfQueue(NamedTuple):
    """The nodes that are to have a queue. mirrors: those that already have it come first."""

    leader: str
    mirrors: tuple[str, ...]


def place(
    mirroring: Mirroring,
    leader: str,
    mirrors: Sequence[str],
    synchronised: frozenset[str],
    nodes: NodesInView,
    choose: Callable[[int], int],
) -> NodesOfQueue:
    """The placement of a queue that is led on one node and mirrored on others.

    mirrors: the oldest first. synchronised: the synchronised ones of them. choose: returns a number
    below its argument, at random.
    """
    if not mirroring.mode:
        return NodesOfQueue(leader, ())
    wanted = _wanted(mirroring, leader, mirrors, synchronised, nodes, choose)
    if leader not in wanted or leader in nodes.under_maintenance:
        able = (synchronised & set(wanted)) - nodes.under_maintenance
        leader = next((node for node in mirrors if node in able), leader)
    return NodesOfQueue(leader, tuple(node for node in wanted if node != leader))


def _wanted(
    mirroring: Mirroring,
    leader: str,
    mirrors: Sequence[str],
    synchronised: frozenset[str],
    nodes: NodesInView,
    choose: Callable[[int], int],
) -> list[str]:
    """The nodes that the policy wants, those that have the queue first."""
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


class TransferLeadership(NamedTuple):
    """Have a synchronised mirror lead."""

    member: Member


class ForgetCopy(NamedTuple):
    """Have a running node that is not to mirror the queue give up the messages on its disk."""

    node: str


class EndMirroring(NamedTuple):
    """Remove the record."""


Step: TypeAlias = (
    BeginMirroring | AddMirror | DropMirror | TransferLeadership | ForgetCopy | EndMirroring
)


def next_step(
    record: MirrorRecord | None,
    node: str,
    mirroring: Mirroring,
    nodes: NodesInView,
    choose: Callable[[int], int],
) -> Step | None:
    """The next step for a queue that may be mirrored; None if it is as its policy wants it.

    node: the leader's. choose: returns a number below its argument, at random.
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
    nodes: NodesInView,
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
        return TransferLeadership(mirrors[wanted.leader].id)
    for copy in record.has_copy:
        # A node that is under maintenance, or stops, may get its mirror again afterwards.
        if copy.node in nodes.available and copy.node not in wanted.mirrors:
            return ForgetCopy(copy.node)
    return None


def returns(record: MirrorRecord | None, node: str) -> bool:
    """Whether a queue waits for a node, which is to ask for its return when it runs."""
    return record is not None and record.awaited == node


def vanished(record: MirrorRecord | None, lives: Callable[[Member], bool]) -> tuple[Member, ...]:
    """All members of a record if none of them lives, for the coordinator to report; else none.

    lives: whether the node of a member is in the view with that incarnation.
    """
    if record is None or any(lives(one.id) for one in record.members):
        return ()
    return tuple(one.id for one in record.members)

"""What the leader's node has to do next so that a queue is where its policy wants it. Pure.

One step at a time: whoever carries it out asks again when the record has changed. New mirrors come
before others go, and the leader's node goes last, so a queue on [A, B] whose policy names [C, D] is
on [A, B, C], [A, B, C, D], [A, C, D], and, when C is synchronised, on [C, D].

A queue is given a record when it is to have its first mirror, and keeps it while its policy mirrors
it: also alone, as long as nodes that are down have messages of it.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.mirroring import Mirroring, RunningNodes, place


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

"""Changes of a queue's record as bytes, and their outcomes.

A change is declared with `ChangePlacement`. The node that orders declarations applies it to the
record, with the policies, of that moment (`complete`). The permitted requesters of each change:

    MirroringBegan              the node of the queue
    Synchronised, Drop, DropCopy, Promote, MirroringEnded    the leader's node
    Promote                     any node that rebalances the leaders
    InRing                      a member of the ring, for its state machine, or for itself
    Vanish                      the coordinator of the view
    AwaitedNodeReturned         the node that the queue waits for
    NodeForgotten, Rename       any node that changes the nodes of the cluster
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from leveret.cluster.gm.group import Added, Died, Erased, HasJoined, Member
from leveret.cluster.mirrors import mirror_record as records
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.planning import Mirroring
from leveret.cluster.rpc.refused import Refused


class MirroringBegan(msgspec.Struct, frozen=True, array_like=True, tag="Begin"):
    """The queue is mirrored from now on. leader: on its node. identity: the ring's, at random."""

    leader: Member
    identity: int


class InRing(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A change of the ring. is_stopped: an operator has stopped the dying member's node."""

    change: Added | HasJoined | Died | Erased
    is_stopped: bool = False


class Vanish(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """No member lives. dead: the dead members. running: the nodes that run."""

    dead: tuple[Member, ...]
    running: tuple[str, ...]


class Synchronised(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A member has all messages, as the leader reports."""

    member: Member
    leader: Member


class Drop(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The policy no longer needs a mirror."""

    member: Member
    leader: Member


class DropCopy(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A running node is not to mirror the queue: it gives up the messages on its disk."""

    node: str
    leader: Member


class Promote(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A synchronised mirror leads from now on."""

    member: Member
    leader: Member


class AwaitedNodeReturned(msgspec.Struct, frozen=True, array_like=True, tag="Return"):
    """The awaited node is back, with a new member that has the messages on its disk."""

    member: Member


class NodeForgotten(msgspec.Struct, frozen=True, array_like=True, tag="Forget"):
    """A node is removed from the cluster. running: the nodes that run."""

    node: str
    running: tuple[str, ...]


class Rename(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A node has another name."""

    old: str
    new: str


class MirroringEnded(msgspec.Struct, frozen=True, array_like=True, tag="End"):
    """The queue is no longer mirrored: it lives on its leader's node alone."""

    leader: Member


Change: TypeAlias = (
    MirroringBegan
    | InRing
    | Vanish
    | Synchronised
    | Drop
    | DropCopy
    | Promote
    | AwaitedNodeReturned
    | NodeForgotten
    | Rename
    | MirroringEnded
)

_encoder = msgspec.msgpack.Encoder()
_changes = msgspec.msgpack.Decoder(Change)
_records = msgspec.msgpack.Decoder(MirrorRecord)


def encode(value: Change | MirrorRecord) -> bytes:
    """A change or a record as bytes."""
    return _encoder.encode(value)


def decode_record(record: bytes) -> MirrorRecord | None:
    """The record of a queue; None for the empty one. Raises ValueError."""
    return _records.decode(record) if record else None


def rename(record: bytes, names: Mapping[str, str]) -> bytes:
    """A record in which nodes have other names. names: the new ones, by the old ones."""
    before = decode_record(record)
    return b"" if before is None else encode(records.renamed(before, names))


class MirroredQueueFacts(NamedTuple):
    """The facts about a queue that a change needs.

    title: for the texts of refusals. node: its home. may_be_mirrored: it is a classic queue, and
    not exclusive.
    """

    title: str
    node: str
    is_durable: bool
    may_be_mirrored: bool
    mirroring: Mirroring


class ChangeOutcome(NamedTuple):
    """The result of a change of a queue's record.

    record: empty for a queue without mirrors. node: leads, or is waited for. new_copy, incarnation:
    see `PlacementChange`.
    """

    record: bytes
    node: str
    new_copy: str = ""
    incarnation: int = 0


def complete(record: bytes, change: bytes, queue: MirroredQueueFacts) -> ChangeOutcome | None:
    """The outcome of a change; None if no node has messages of the queue. Raises Refused."""
    before, asked = decode_record(record), _changes.decode(change)
    if before is None:
        return _first(asked, queue)
    if isinstance(asked, MirroringEnded):
        return _ended(before, asked, queue)
    after = _changed(before, asked, queue)
    if after is None or (after.leader is None and not queue.is_durable):
        # A queue that is not durable is on no disk, so there is no node to wait for.
        return None
    if isinstance(asked, InRing) and isinstance(asked.change, Added):
        new = asked.change.new
        return ChangeOutcome(encode(after), after.home, new.node, new.incarnation)
    return ChangeOutcome(encode(after), after.home)


def _first(asked: Change, queue: MirroredQueueFacts) -> ChangeOutcome:
    """The outcome of a change of a queue that is not mirrored."""
    if isinstance(asked, MirroringEnded | NodeForgotten | Rename):
        return ChangeOutcome(b"", queue.node)
    if not isinstance(asked, MirroringBegan):
        raise Refused(f"{queue.title} is not mirrored")
    if not queue.may_be_mirrored:
        raise Refused(f"{queue.title} cannot be mirrored: only classic, shared queues can")
    if asked.leader.node != queue.node:
        raise Refused(f"{queue.title} is on node {queue.node}, not on {asked.leader.node}")
    record = records.first(queue.title, asked.identity, asked.leader)
    return ChangeOutcome(encode(record), record.home)


def _ended(before: MirrorRecord, asked: MirroringEnded, queue: MirroredQueueFacts) -> ChangeOutcome:
    if before.leader is None:
        raise Refused(f"{queue.title} waits for node {before.awaited}, so its mirrors are kept")
    records.require_leader(before, asked.leader)
    return ChangeOutcome(b"", before.home)


def _changed(before: MirrorRecord, asked: Change, queue: MirroredQueueFacts) -> MirrorRecord | None:
    """The record after a change; None if no node has messages any longer."""
    if isinstance(asked, Synchronised | Drop | DropCopy | Promote):
        # It was planned with the record of this leader, and may be wrong under another one.
        records.require_leader(before, asked.leader)
    match asked:
        case MirroringBegan():
            if before.leader != asked.leader:
                raise Refused(f"{queue.title} is mirrored already")
            return before
        case InRing():
            return _changed_in_ring(before, asked, queue.mirroring)
        case Vanish():
            return records.vanished(before, asked.dead, asked.running)
        case Synchronised():
            return records.synchronised(before, asked.member, asked.leader)
        case DropCopy():
            return records.copy_dropped(before, asked.node)
        case Drop():
            return records.dropped(before, asked.member)
        case Promote():
            return records.promoted(before, asked.member)
        case AwaitedNodeReturned():
            return records.returned(before, asked.member)
        case NodeForgotten():
            return records.forgotten(before, asked.node, asked.running)
        case Rename():
            return records.renamed(before, {asked.old: asked.new})
    raise AssertionError(f"nothing makes {asked!r}")


def _changed_in_ring(before: MirrorRecord, asked: InRing, mirroring: Mirroring) -> MirrorRecord:
    change = asked.change
    if isinstance(change, Added):
        return records.joined(before, change)
    if isinstance(change, Died):
        may_lead = mirroring.may_lead_unsynchronised(asked.is_stopped)
        return records.died(before, change, may_lead_unsynchronised=may_lead)
    return records.ring_changed(before, change)

"""Who belongs to a quorum queue, as its placement says (`Placement.record`), and what changes it.

The placement says which nodes are to have a member; the group itself decides by its log who may
vote (raft/configuration.py). Changes of the record are declarations: all nodes know the same one.
The number of the group is the identity of the queue's declaration: a queue that is declared again
is another group.

A member has a number in its group, which is its name there and is never used again: a node that has
lost its disk gets another member, and a node that is renamed keeps its own.
"""

from typing import TypeAlias

import msgspec


class QuorumMember(msgspec.Struct, frozen=True, array_like=True):
    """A member. node: where it is."""

    number: int
    node: str

    @property
    def name(self) -> str:
        """Its name in the group."""
        return str(self.number)


class QuorumRecord(msgspec.Struct, frozen=True, array_like=True):
    """The members, in the order in which they came. next_number: that of the next member."""

    members: tuple[QuorumMember, ...]
    next_number: int

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that have members."""
        return tuple([member.node for member in self.members])

    def of_node(self, node: str) -> QuorumMember | None:
        """The member on a node."""
        return next((member for member in self.members if member.node == node), None)

    def member(self, number: int) -> QuorumMember | None:
        """The member with a number."""
        return next((member for member in self.members if member.number == number), None)

    def number_on(self, node: str) -> int:
        """The number of the member on a node; 0 if there is none."""
        member = self.of_node(node)
        return 0 if member is None else member.number

    def with_member(self, node: str) -> "QuorumRecord":
        """With a new member on a node."""
        added = QuorumMember(self.next_number, node)
        return QuorumRecord((*self.members, added), self.next_number + 1)

    def without(self, node: str) -> "QuorumRecord":
        """Without the member on a node."""
        left = tuple([member for member in self.members if member.node != node])
        return QuorumRecord(left, self.next_number)

    def renamed(self, old: str, new: str) -> "QuorumRecord":
        """With another name for a node."""
        members = [
            QuorumMember(one.number, new) if one.node == old else one for one in self.members
        ]
        return QuorumRecord(tuple(members), self.next_number)


def new_record(nodes: tuple[str, ...]) -> QuorumRecord:
    """The record of a new queue with members on these nodes."""
    members = [QuorumMember(number, node) for number, node in enumerate(nodes, 1)]
    return QuorumRecord(tuple(members), len(members) + 1)


class AddMember(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A node is to have a member."""

    node: str


class RemoveMember(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A node is to have a member no longer."""

    node: str


class ReplaceMember(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A node has lost what its member had: it gets a new member. number: of the lost one."""

    node: str
    number: int


class LeaveNode(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A node is removed from the cluster."""

    node: str


class RenameNode(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A node has another name."""

    old: str
    new: str


Change: TypeAlias = AddMember | RemoveMember | ReplaceMember | LeaveNode | RenameNode

_ENCODER = msgspec.msgpack.Encoder()
_RECORDS = msgspec.msgpack.Decoder(QuorumRecord)
_CHANGES: msgspec.msgpack.Decoder[Change] = msgspec.msgpack.Decoder(Change)


class RecordError(ValueError):
    """Bytes that are no record or change of this version."""


class RefusedChange(Exception):
    """The change is not possible. Its text says why."""


def encode(value: QuorumRecord | Change) -> bytes:
    """A record or a change as bytes."""
    return _ENCODER.encode(value)


def decode_record(data: bytes) -> QuorumRecord:
    """Read a record. Raises RecordError."""
    try:
        return _RECORDS.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordError(f"the members of a quorum queue cannot be read: {error}") from error


def changed(record: QuorumRecord, change: bytes) -> QuorumRecord | None:
    """The record after a change; None if no member is left, so that the queue is deleted.

    Raises RefusedChange, or RecordError for bytes that are no change.
    """
    try:
        wanted = _CHANGES.decode(change)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordError(f"it cannot be read: {error}") from error
    if isinstance(wanted, RenameNode):
        return record.renamed(wanted.old, wanted.new)
    member = record.of_node(wanted.node)
    if isinstance(wanted, AddMember):
        return record if member is not None else record.with_member(wanted.node)
    if isinstance(wanted, ReplaceMember):
        if member is None or member.number != wanted.number:
            return record
        return record.without(wanted.node).with_member(wanted.node)
    if member is None:
        return record
    left = record.without(wanted.node)
    if left.members:
        return left
    if isinstance(wanted, RemoveMember):
        raise RefusedChange(f"node {wanted.node} has the only member of the queue")
    return None

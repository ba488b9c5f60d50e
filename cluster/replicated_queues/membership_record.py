"""The record of a quorum queue's members in its placement (`Placement.record`), and its changes.

The placement says which nodes should have a member. Which members may vote is decided by the group
itself, through its log (raft/configuration.py). Changes of the record are declarations, so all
nodes have the same record. The number of the group is the identity of the queue's declaration: if
the queue is deleted and declared again, it is another group.

A member has a number in its group that is never used again: a node that has lost its disk gets a
new member. The member's name in the group consists of the node on which it was created and the
number. A renamed node keeps its member.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import TypeAlias

import msgspec

from leveret.broker.queues.contract.placement import Placement

IDENTITY_BITS = 61
"""The number of a group is not 0."""


class RecordedMember(msgspec.Struct, frozen=True, array_like=True):
    """A member. node: where it is. is_voter: it may vote once it has caught up.

    first_node: the name of the node when the member was added, if the node was renamed since.
    """

    number: int
    node: str
    is_voter: bool = True
    first_node: str = ""

    @property
    def name(self) -> str:
        """The member's name in the group."""
        return f"{self.first_node or self.node}/{self.number}"


class MembersRecord(msgspec.Struct, frozen=True, array_like=True):
    """The members, in the order in which they were added. next_number: of the next member.

    forced_from: a forced recovery has removed the members with lower numbers that are not in the
    record; their data must not be used. first_members: how many the queue was declared with.
    """

    members: tuple[RecordedMember, ...]
    next_number: int
    forced_from: int = 0
    first_members: int = 0

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that have members."""
        return tuple([member.node for member in self.members])

    @property
    def is_first(self) -> bool:
        """Whether the members are still those of the queue's declaration."""
        return self.next_number == self.first_members + 1 == len(self.members) + 1

    def names(self, *, are_voters: bool) -> tuple[str, ...]:
        """The names of the members that should be voters, or of the others."""
        return tuple([one.name for one in self.members if one.is_voter is are_voters])

    def of_node(self, node: str) -> RecordedMember | None:
        """The member on a node."""
        return next((member for member in self.members if member.node == node), None)

    def named(self, name: str) -> RecordedMember | None:
        """The member with a name."""
        return next((member for member in self.members if member.name == name), None)

    def member(self, number: int) -> RecordedMember | None:
        """The member with a number."""
        return next((member for member in self.members if member.number == number), None)

    def number_on(self, node: str) -> int:
        """The number of the member on a node; 0 if there is none."""
        member = self.of_node(node)
        return 0 if member is None else member.number

    def with_member(self, node: str, *, is_voter: bool = True) -> "MembersRecord":
        """The record with a new member on a node."""
        added = RecordedMember(self.next_number, node, is_voter)
        return msgspec.structs.replace(
            self, members=(*self.members, added), next_number=self.next_number + 1
        )

    def without(self, node: str) -> "MembersRecord":
        """The record without the member on a node."""
        left = tuple([member for member in self.members if member.node != node])
        return msgspec.structs.replace(self, members=left)

    def renamed(self, names: Mapping[str, str]) -> "MembersRecord":
        """With other names for nodes. names: the new ones, by the old ones."""
        members = [
            RecordedMember(one.number, names[one.node], one.is_voter, one.first_node or one.node)
            if one.node in names
            else one
            for one in self.members
        ]
        return msgspec.structs.replace(self, members=tuple(members))


NO_MEMBERS = MembersRecord((), 0)
"""Stands for a record that this version cannot read: the members that exist stay as they are."""
UNREADABLE = (
    "its members cannot be read: start the version that declared it, or delete the queue and "
    "declare it again"
)


def new_record(nodes: tuple[str, ...]) -> MembersRecord:
    """The record of a new queue with members on these nodes."""
    members = [RecordedMember(number, node) for number, node in enumerate(nodes, 1)]
    return MembersRecord(tuple(members), len(members) + 1, first_members=len(members))


def placed(vhost: str, name: str, placement: Placement, node: str, is_alone: bool) -> Placement:
    """The placement of a queue, with a record. node: this one. is_alone: it is in no cluster, so it
    has the queue, whatever its name was before.

    A queue that a version without groups declared has none: its only member is on its node, which
    is this one if it was in no cluster then. Its identity was 0 in this case, and follows from its
    name: all nodes find the same one.
    """
    if placement.record:
        record = readable(placement.record)
        if not is_alone or record.nodes == (node,) or len(record.nodes) != 1:
            return placement
        here = record.renamed({record.nodes[0]: node})
        return Placement(node, placement.identity, encode(here))
    home, identity = placement.node or node, placement.identity
    if not identity:
        names = f"{vhost}\0{name}".encode("utf-8", "surrogateescape")
        digest = blake2b(names, digest_size=8).digest()
        identity = 1 << IDENTITY_BITS | int.from_bytes(digest) >> (64 - IDENTITY_BITS)
    return Placement(home, identity, encode(new_record((home,))))


class AddMember(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Add a member on a node. is_voter: it may vote."""

    node: str
    is_voter: bool = True


class RemoveMember(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Remove the member on a node."""

    node: str


class ReplaceMember(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Replace the member of a node that has lost its data. number: of the lost member."""

    node: str
    number: int


class KeepOnly(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Remove the members on all other nodes, and lose the entries that only they have."""

    node: str


class LeaveNode(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Remove the member of a node that is removed from the cluster."""

    node: str


class Lead(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The member on a node is the leader, or should be. The record does not change."""

    node: str


class RenameNode(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Rename a node."""

    old: str
    new: str


Change: TypeAlias = (
    AddMember | RemoveMember | ReplaceMember | KeepOnly | LeaveNode | Lead | RenameNode
)  # fmt: skip

_ENCODER = msgspec.msgpack.Encoder()
_RECORDS = msgspec.msgpack.Decoder(MembersRecord)
_CHANGES: msgspec.msgpack.Decoder[Change] = msgspec.msgpack.Decoder(Change)


class RecordError(ValueError):
    """The bytes are not a record or a change of this version."""


class RefusedChange(Exception):
    """The change is not possible. The text says why."""


def encode(value: MembersRecord | Change) -> bytes:
    """Encode a record or a change."""
    return _ENCODER.encode(value)


def decode_record(data: bytes) -> MembersRecord:
    """Decode a record. Raises RecordError."""
    try:
        return _RECORDS.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordError(f"the members of the queue cannot be read: {error}") from error


def readable(data: bytes) -> MembersRecord:
    """Decode a record; NO_MEMBERS if it cannot be read."""
    try:
        return decode_record(data)
    except RecordError:
        return NO_MEMBERS


def rename(record: bytes, names: Mapping[str, str]) -> bytes:
    """A record in which nodes have other names. names: the new ones, by the old ones.

    A record that this version cannot read stays as it is.
    """
    found = readable(record)
    return encode(found.renamed(names)) if found.members else record


def decode_change(data: bytes) -> Change:
    """Decode a change. Raises RecordError."""
    try:
        return _CHANGES.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordError(f"it cannot be read: {error}") from error


def changed(record: MembersRecord, wanted: Change) -> MembersRecord | None:
    """The record after a change; None if no member is left, and the queue is deleted.

    Raises RefusedChange.
    """
    if isinstance(wanted, RenameNode):
        return record.renamed({wanted.old: wanted.new})
    if isinstance(wanted, Lead):
        return record
    member = record.of_node(wanted.node)
    if isinstance(wanted, AddMember):
        is_there = member is not None
        return record if is_there else record.with_member(wanted.node, is_voter=wanted.is_voter)
    if isinstance(wanted, KeepOnly):
        if member is None:
            raise RefusedChange(f"node {wanted.node} has no member of the queue")
        return msgspec.structs.replace(record, members=(member,), forced_from=record.next_number)
    if member is None:
        return record
    left = record.without(wanted.node)
    if isinstance(wanted, ReplaceMember):
        is_lost = member.number == wanted.number
        return left.with_member(wanted.node, is_voter=member.is_voter) if is_lost else record
    if left.members:
        return left
    if isinstance(wanted, RemoveMember):
        raise RefusedChange(f"node {wanted.node} has the only member of the queue")
    return None

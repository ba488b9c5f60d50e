"""The state machine of one replica: the actions of its node when the record or the links change.

Each input is a method that returns outputs; the service (replica.py) carries them out, in order.
The machine holds no messages and knows no queue: contents, decisions, batches and confirms bypass
it.

The record names the members and the leader (mirror_record.py). The outputs follow from the record,
each time a newer one is applied on this node:

    this node has a new member      it begins in the ring, as a mirror, or leads with its messages
    it no longer has one            the messages here are its copy, if the record says so
    it leads, and has not so far    its mirror is promoted
    it no longer leads, but lives   it mirrors the queue that it has led
    another node leads              the client uses that one, when it is linked
    there is no record any longer   the queue lives only on the leader's node

**Promotion.** A mirror that the record names as the leader first broadcasts a mark, an empty
payload, and waits until it has passed around the ring: by then all decisions of the former leader
that any living member has are applied here, or wait for contents that have not arrived. When all
are applied, it leads (leaders.py).

**Copies.** A node without a member may have messages: those of a member that has ended, or of an
earlier run of the node. They are its copy, which is needed while the queue waits for this node. The
copy of a node that the record does not name is deleted once that record is stable: if it is undone,
the queue may wait for the copy according to the former record.

Invariants:
RP1. This node has a member exactly while the record names a living one of this run of the node that
     has started here. A member that cannot start, because its first entry was skipped, is reported
     dead.
RP2. A node that leads follows no other leader.
MQ8. A new leader serves no clients before its first broadcast has passed around the ring.
OC1. A copy is deleted after the entry that makes it useless is stable, or with the queue.
"""

from enum import Enum, auto
from typing import TypeAlias

import msgspec

from leveret.cluster.gm.group import Change, Died, Group, Member, Place
from leveret.cluster.mirrors.mirror_record import MirrorRecord, log_lines


class LogText(msgspec.Struct, frozen=True):
    """Log a text about the queue."""

    text: str


class RequestChange(msgspec.Struct, frozen=True):
    """Submit a change of the ring, again and again until it is made or refused."""

    change: Change


class PassOnEarly(msgspec.Struct, frozen=True):
    """The messages that wait in the ring are for the next member of this node."""


class EndMember(msgspec.Struct, frozen=True):
    """End the member. Its messages, if it has begun, are the copy from now on."""


class Demote(msgspec.Struct, frozen=True):
    """Broadcast the last decisions; then mirror the queue that was led. place_id: in the ring."""

    place_id: int


class LeadWithCopy(msgspec.Struct, frozen=True):
    """Lead with the copy: the queue has waited for it."""


class BeginMirror(msgspec.Struct, frozen=True):
    """Start as a mirror without messages, under a storage id, at a place in the ring."""

    place_id: int
    storage_id: int


class BeginRing(msgspec.Struct, frozen=True):
    """The member begins in its ring."""

    member: Member


class ChangeRing(msgspec.Struct, frozen=True):
    """The ring of the member has another record."""

    group: Group


class OpenCopy(msgspec.Struct, frozen=True):
    """A restart has found messages under this storage id: they are the copy."""

    storage_id: int


class GiveUpCopy(msgspec.Struct, frozen=True):
    """The copy is useless: forget it now, and delete it when everything applied is stable."""


class WhenStable(msgspec.Struct, frozen=True):
    """Call `stable` with the number when everything applied so far is stable."""

    number: int


class DeleteCopy(msgspec.Struct, frozen=True):
    """Delete the copy, if there is one."""


class SetMembers(msgspec.Struct, frozen=True):
    """Send contents to those of these nodes that are linked. version: the ring's."""

    nodes: tuple[str, ...]
    version: int


class BroadcastMark(msgspec.Struct, frozen=True):
    """Broadcast the mark, if the member has joined, and call `mark_sent` with its number."""


class PromoteMirror(msgspec.Struct, frozen=True):
    """Lead with the mirror if it has applied everything, and call `promoted`."""


class OpenHere(msgspec.Struct, frozen=True):
    """Clients use the leader on this node from now on."""


class Follow(msgspec.Struct, frozen=True):
    """Clients use the leader on another node, which is linked, from now on."""

    leader: Member


class LeaveLeader(msgspec.Struct, frozen=True):
    """The leader on another node no longer leads, or cannot be reached."""


class Await(msgspec.Struct, frozen=True):
    """No node leads until the awaited one returns: refuse requests that wait for a leader."""


class ContinueAlone(msgspec.Struct, frozen=True):
    """The queue that is led here continues without mirrors, once that is stable."""


Output: TypeAlias = (
    LogText | RequestChange | PassOnEarly | EndMember | Demote | LeadWithCopy | BeginMirror
    | BeginRing | ChangeRing | OpenCopy | GiveUpCopy | WhenStable | DeleteCopy | SetMembers
    | BroadcastMark | PromoteMirror | OpenHere | Follow | LeaveLeader | Await | ContinueAlone
)  # fmt: skip


class Role(Enum):
    """The role of this node. LEADER: it leads, or is about to open the queue."""

    NONE = auto()
    MIRROR = auto()
    LEADER = auto()


class ReplicaSteps:
    """The machine of one replica. record: the one that is applied; None before the first.

    member: the one of this node in the ring. has_gone_round: whether the mark has, so that the
    mirror may lead. is_over: the queue is deleted, or no longer mirrored.
    """

    def __init__(self, node: str, incarnation: int, is_durable: bool) -> None:
        """incarnation: the number of the node's start. is_durable: whether the queue is."""
        self._node = node
        self._incarnation = incarnation
        self._is_durable = is_durable
        self._linked: dict[str, int] = {}
        self.record: MirrorRecord | None = None
        self.member: Member | None = None
        self.role = Role.NONE
        self.has_gone_round = self.is_over = False
        self._mark = 0
        self._is_open = self._is_down = False
        self._followed: Member | None = None
        # Records are counted. The copy is useless since this record; 0 while it is needed.
        self._record_count = self._useless_since = 0

    def lead_first(self) -> None:
        """Mirroring of the queue on this node begins: it leads, as the record is to say."""
        self.role = Role.LEADER

    def follow_first(self, leader: Member) -> None:
        """Mirroring of a queue on another node begins: clients use that one already."""
        self._followed = leader

    # The record

    def applied(
        self, record: MirrorRecord, storage_id: int = 0, has_messages: bool = False
    ) -> list[Output]:
        """A newer record is applied on this node.

        storage_id: that of a new mirror, or of messages that a restart has found; 0 for none.
        has_messages: whether this node has some now, in its member or as a copy.
        """
        outputs: list[Output] = [
            LogText(line) for line in log_lines(self.record, record, self._node, self._incarnation)
        ]
        self.record = record
        self._record_count += 1
        own = record.on(self._node)
        member = None if own is None or own.id.incarnation != self._incarnation else own.id
        outputs += self._end(record, member)
        if member is not None and self.member is None:
            outputs += self._begin(record, member, storage_id, has_messages)
        elif storage_id:
            outputs.append(OpenCopy(storage_id))
            has_messages = True
        if self.member is not None:
            outputs.append(ChangeRing(record.group))
        outputs += self._look_at_copy(record, has_messages)
        outputs += self._follow(record)
        return self._checked(outputs)

    def _end(self, record: MirrorRecord, member: Member | None) -> list[Output]:
        """The member that has begun ends, or no longer leads. member: the one of the record."""
        if self.role is Role.NONE:
            return []
        if self.member is None:
            # It leads first. If the record is of an earlier run of the node, it waits for a copy.
            lasts = member is not None and member == record.leader
        else:
            lasts = member == self.member
        if not lasts:
            self.member = None
            self._become(Role.NONE)
            return [PassOnEarly(), EndMember()]
        if self.role is Role.LEADER and member != record.leader:
            self._become(Role.MIRROR)
            return [Demote(_place(record, member).place_id)]
        return []

    def _become(self, role: Role) -> None:
        self.role = role
        self._is_open = False
        self._forget_mark()

    def _begin(
        self, record: MirrorRecord, member: Member, storage_id: int, has_messages: bool
    ) -> list[Output]:
        """A new member of this node begins in the ring (RP1)."""
        place = _place(record, member)
        has_room = storage_id != 0 or not self._is_durable
        outputs: list[Output] = []
        if self.role is Role.LEADER:
            pass  # It leads first.
        elif member == record.leader and has_messages:
            self._become(Role.LEADER)
            outputs.append(LeadWithCopy())
        elif member != record.leader and not place.has_joined and has_room:
            self._become(Role.MIRROR)
            outputs += GiveUpCopy(), BeginMirror(place.place_id, storage_id)
        else:
            return [RequestChange(Died((member,), member))]
        self.member = member
        outputs.append(BeginRing(member))
        return outputs

    def _look_at_copy(self, record: MirrorRecord, has_messages: bool) -> list[Output]:
        """Have a copy deleted that the record does not name, once the record is stable."""
        if _names(record, self._node):
            self._useless_since = 0
        elif has_messages and not self._useless_since:
            self._useless_since = self._record_count
            return [WhenStable(self._useless_since)]
        return []

    def stable(self, number: int) -> list[Output]:
        """Everything applied before `WhenStable` is stable, and cannot be undone (OC1)."""
        if number != self._useless_since:
            return []
        assert self.record is None or not _names(self.record, self._node), "OC1"
        return [DeleteCopy()]

    # The leader

    def _follow(self, record: MirrorRecord) -> list[Output]:
        """Send contents to all members, and use the leader."""
        nodes = tuple([one.id.node for one in record.members])
        outputs: list[Output] = [SetMembers(nodes, record.group.version)]
        leader = record.leader
        if self._followed not in (None, leader):
            outputs += self._leave()
        if leader != self.member:
            self._forget_mark()
        if leader is None:
            if not self._is_down:
                self._is_down = True
                outputs.append(Await())
        elif leader == self.member:
            outputs += self._lead()
        elif self._followed is None and self._linked.get(leader.node) == leader.incarnation:
            self._followed, self._is_down = leader, False
            outputs.append(Follow(leader))
        return outputs

    def _lead(self) -> list[Output]:
        if self.role is Role.LEADER:
            return [] if self._is_open else self._open()
        return [] if self._mark else [BroadcastMark()]

    def _open(self) -> list[Output]:
        self._is_open, self._is_down = True, False
        return [OpenHere()]

    def _leave(self) -> list[Output]:
        self._followed = None
        return [LeaveLeader()]

    # The promotion of a mirror

    def mark_sent(self, number: int) -> None:
        """The mark was broadcast with this number."""
        self._mark = number

    def _forget_mark(self) -> None:
        self._mark, self.has_gone_round = 0, False

    def confirmed(self, through: int) -> list[Output]:
        """The member's broadcasts up to a number have passed around the ring."""
        if not self._mark or through < self._mark:
            return []
        self.has_gone_round = True
        return [PromoteMirror()]

    def promoted(self) -> list[Output]:
        """The mirror has applied everything, and leads."""
        assert self.has_gone_round, "MQ8"
        self._become(Role.LEADER)
        return self._checked(self._open())

    # Links

    def linked(self, node: str, incarnation: int) -> list[Output]:
        """A node is linked. incarnation: the number of its start."""
        self._linked[node] = incarnation
        if self.record is None or self.is_over:
            return []
        return self._checked(self._follow(self.record))

    def unlinked(self, node: str) -> list[Output]:
        """The link to a node is down."""
        del self._linked[node]
        if self.is_over or self._followed is None or self._followed.node != node:
            return []
        return self._leave()

    # The end

    def unmirrored(self, is_here: bool) -> list[Output]:
        """The queue is no longer mirrored. is_here: it lives on this node."""
        was, self.member, self.is_over = self.role, None, True
        if was is Role.LEADER and is_here:
            return [ContinueAlone()]
        self._become(Role.NONE)
        return [GiveUpCopy()] if was is Role.NONE else [EndMember(), GiveUpCopy()]

    def ended(self) -> None:
        """The queue is deleted, or the node stops."""
        self.member, self.is_over = None, True
        self._become(Role.NONE)

    def _checked(self, outputs: list[Output]) -> list[Output]:
        """The outputs, after a check of the invariants."""
        record, member = self.record, self.member
        if member is not None:
            assert self.role is not Role.NONE, "RP1"
            assert record is not None, "RP1"
            assert record.on(self._node) == record.find(member) is not None, "RP1"
        assert self._followed is None or self.role is not Role.LEADER, "RP2"
        return outputs


def _names(record: MirrorRecord, node: str) -> bool:
    """Whether a node has a member, or a copy that may lead."""
    return record.on(node) is not None or any(copy.node == node for copy in record.has_copy)


def _place(record: MirrorRecord, member: Member | None) -> Place:
    place = None if member is None else record.group.place_of(member)
    assert place is not None, "MQ9: a member of the record is in its ring"
    return place

"""The record of a mirrored queue: its leader, its mirrors, and other nodes that have its messages.

The record of a queue is a part of the metadata. All nodes make the same changes to it in one order
(docs/design/replication.md), so each change is a function from record to record that gives the same
result everywhere. A change that was made already, or is about a member that no longer exists,
changes nothing. An impossible change raises `Refused`, with a text for the requester.

    first           mirroring of a queue begins: its node leads
    joined          a node has a new, empty member
    synchronised    a member has all messages
    died            members are gone, as the ring reports
    vanished        no member lives, as the coordinator of the view reports
    dropped         the leader no longer needs a mirror
    copy_dropped    the leader has no use for the messages on the disk of a node
    promoted        the leader hands over to a mirror
    returned        the node that a queue waits for leads again, with the messages on its disk
    forgotten       a node is removed from the cluster
    renamed         nodes have other names
    ring_changed    any other change of the ring

A queue without a leader is down, and waits for one node, the last that led it: `awaited`.
`has_copy` names the nodes whose disks have messages of the queue though they have no living member,
the last one to go at the end. `forgotten` takes the next awaited node from there.

The ring of a queue without living members is that of its last members. Its version continues from
there when a node returns.

`log_lines` says what a node logs when another record is applied.

MQ1. A record either has a leader, which is a living, synchronised member, or waits for a node that
     has a copy.
MQ2. A synchronised member stays synchronised until it ends.
MQ3. A member that lacks messages leads only if the change says that it may.
MQ9. The living members of the ring are those of `members`, unless there are none. A node has at
     most one member, and no copy beside it.
"""

from collections.abc import Collection, Iterator, Mapping, Set

import msgspec
from msgspec.structs import replace

from leveret.cluster.gm import group as ring
from leveret.cluster.gm.group import Group, Member
from leveret.cluster.rpc.refused import Refused


class RecordedReplica(msgspec.Struct, frozen=True, array_like=True):
    """One replica, in one run of its node."""

    id: Member
    is_synchronised: bool


class MessageCopy(msgspec.Struct, frozen=True, array_like=True):
    """A node whose disk has messages of the queue. was_synchronised: when its member ended."""

    node: str
    was_synchronised: bool


class MirrorRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record of one queue.

    group: the members' ring. members: the living ones, the oldest first. awaited: empty, or a node.
    """

    group: Group
    leader: Member | None
    members: tuple[RecordedReplica, ...]
    awaited: str = ""
    has_copy: tuple[MessageCopy, ...] = ()

    @property
    def mirrors(self) -> tuple[RecordedReplica, ...]:
        """The members that do not lead, the oldest first."""
        return tuple(one for one in self.members if one.id != self.leader)

    @property
    def home(self) -> str:
        """The node that leads, or that the queue waits for."""
        return self.awaited if self.leader is None else self.leader.node

    @property
    def successor(self) -> Member | None:
        """The next leader: the oldest synchronised mirror (P4)."""
        return next((one.id for one in self.mirrors if one.is_synchronised), None)

    def find(self, member: Member) -> RecordedReplica | None:
        """The entry of a member; None if it does not live."""
        return next((one for one in self.members if one.id == member), None)

    def on(self, node: str) -> RecordedReplica | None:
        """The living member of a node; None if it has none."""
        return next((one for one in self.members if one.id.node == node), None)


def _checked(record: MirrorRecord) -> MirrorRecord:
    """The record, after a check of the invariants."""
    leading = None if record.leader is None else record.find(record.leader)
    copies = {copy.node for copy in record.has_copy}
    leads = leading is not None and leading.is_synchronised
    waits = record.leader is None and record.awaited in copies
    assert leads != waits, f"MQ1: {record}"
    assert leads != bool(record.awaited), f"MQ1: {record}"
    living = {place.member for place in record.group.living}
    assert not record.members or living == {one.id for one in record.members}, f"MQ9: {record}"
    nodes = {one.id.node for one in record.members}
    assert len(nodes) == len(record.members), f"MQ9: {record}"
    assert copies.isdisjoint(nodes), f"MQ9: {record}"
    return record


def first(name: str, identity: int, leader: Member) -> MirrorRecord:
    """The record of a queue whose mirroring begins. name, identity: the ring's."""
    group = ring.founded(name, identity, leader)
    return _checked(MirrorRecord(group, leader, (RecordedReplica(leader, True),)))


def require_leader(record: MirrorRecord, leader: Member) -> None:
    """Check that a requester that acts as the leader still leads. Raises Refused."""
    if record.leader != leader:
        raise Refused(f"{leader} no longer leads the queue, and decides nothing about it")


# New members


def joined(record: MirrorRecord, change: ring.Added) -> MirrorRecord:
    """A node has a new, empty member. The copy on its disk is no longer of use."""
    new = change.new
    if record.find(new) is not None:
        return record
    if record.leader is None:
        raise Refused(f"{new.node} cannot mirror a queue that waits for {record.awaited}")
    if record.on(new.node) is not None:
        raise Refused(f"{new.node} has a living member of this queue already")
    return _checked(
        replace(
            record,
            group=ring.changed(record.group, change),
            members=(*record.members, RecordedReplica(new, False)),
            has_copy=_without(record.has_copy, {new.node}),
        )
    )


def synchronised(record: MirrorRecord, member: Member, leader: Member) -> MirrorRecord:
    """A member has all messages, as its leader reports; a former leader cannot know."""
    require_leader(record, leader)
    members = tuple(
        RecordedReplica(one.id, one.is_synchronised or one.id == member) for one in record.members
    )
    return _checked(replace(record, members=members))


def returned(record: MirrorRecord, member: Member) -> MirrorRecord:
    """The awaited node leads, alone, with the messages on its disk.

    Living members are not synchronised. They join again without messages.
    """
    if record.leader == member:
        return record
    if record.awaited != member.node:
        raise Refused(f"the queue does not wait for {member.node}")
    left = [one for one in record.members if one.id.node != member.node]
    return _checked(
        MirrorRecord(
            ring.changed(record.group, ring.Renewed(member)),
            member,
            (RecordedReplica(member, True),),
            has_copy=_with(_without(record.has_copy, {member.node}), left),
        )
    )


# Members that end


def died(record: MirrorRecord, change: ring.Died, *, may_lead_unsynchronised: bool) -> MirrorRecord:
    """Members are dead, as a member of their ring, or the stopping member itself, reports.

    may_lead_unsynchronised: as the policy's `ha-promote-on-shutdown` or `ha-promote-on-failure`
    says, depending on how the leader ended (MQ3).
    """
    living = {one.id for one in record.members}
    if living.isdisjoint(change.members):
        return record
    if change.by not in living:
        raise Refused(f"{change.by} does not live, and cannot declare others dead")
    if living.issubset(change.members):
        return vanished(record, living, frozenset())
    return _left(record, ring.changed(record.group, change), may_lead_unsynchronised)


def vanished(
    record: MirrorRecord, dead: Collection[Member], running: Collection[str]
) -> MirrorRecord:
    """No member lives. dead: the dead ones; if they are not all, the record waits for the ring.

    running: the running nodes. If the leader's node is not running, a running node whose member was
    synchronised has all confirmed messages, and is awaited. Without one, the queue waits for the
    leader.
    """
    if not record.members or not all(one.id in dead for one in record.members):
        return record
    has_copy = _with(record.has_copy, _leader_last(record, record.members))
    awaited = record.awaited
    if record.leader is not None:
        able = [record.leader, *(one.id for one in record.members if one.is_synchronised)]
        there = [member.node for member in able if member.node in running]
        awaited = (*there, record.leader.node)[0]
    return _checked(MirrorRecord(record.group, None, (), awaited, has_copy))


def dropped(record: MirrorRecord, member: Member) -> MirrorRecord:
    """The leader no longer needs a mirror, whose messages are deleted."""
    if record.find(member) is None:
        return record
    leader = record.leader
    if leader is None or leader == member:
        raise Refused(f"{member} cannot be dropped: it does not mirror what another member leads")
    group = ring.changed(record.group, ring.Died((member,), leader))
    after = _left(record, group, may_lead_unsynchronised=False)
    return _checked(replace(after, has_copy=_without(after.has_copy, {member.node})))


def copy_dropped(record: MirrorRecord, node: str) -> MirrorRecord:
    """A node gives up the messages on its disk, unless they are those of a living member (MQ9)."""
    return _checked(replace(record, has_copy=_without(record.has_copy, {node})))


def _left(record: MirrorRecord, group: Group, may_lead_unsynchronised: bool) -> MirrorRecord:
    """The record with a ring that has lost members and still has living ones."""
    living = {place.member for place in group.living}
    left = tuple(one for one in record.members if one.id in living)
    gone = [one for one in record.members if one.id not in living]
    has_copy = _with(record.has_copy, _leader_last(record, gone))
    after = replace(record, group=group, members=left, has_copy=has_copy)
    if record.leader is None or record.leader in living:
        return _checked(after)
    able = [one.id for one in left if one.is_synchronised]
    if not able and may_lead_unsynchronised:
        able = [_oldest(after)]
    if able:
        return _led_by(after, able[0])
    return _checked(replace(after, leader=None, awaited=record.leader.node))


def _led_by(record: MirrorRecord, member: Member) -> MirrorRecord:
    """A member leads. Its messages are those of the queue, so it lacks none."""
    members = tuple(
        RecordedReplica(one.id, one.is_synchronised or one.id == member) for one in record.members
    )
    return _checked(replace(record, leader=member, members=members, awaited=""))


def _oldest(record: MirrorRecord) -> Member:
    """The oldest member that has its starting state in the ring."""
    has_joined = {place.member for place in record.group.living if place.has_joined}
    return next(one.id for one in record.members if one.id in has_joined)


def promoted(record: MirrorRecord, member: Member) -> MirrorRecord:
    """The leader hands over to a synchronised mirror, and becomes a mirror.

    The version of the ring grows, so that no member takes broadcasts of the next leader before the
    present one has stopped leading.
    """
    if record.leader == member:
        return record
    found = record.find(member)
    if found is None or record.leader is None:
        raise Refused(f"{member} cannot lead the queue: it does not mirror it")
    if not found.is_synchronised:
        raise Refused(f"{member} cannot lead the queue: it is not synchronised")
    return _checked(replace(record, group=ring.advanced(record.group), leader=member))


def parted_by(record: MirrorRecord, member: Member | None, apart: Set[str]) -> tuple[Member, ...]:
    """The members on some nodes, if this one is to report them: the oldest member on another node.

    apart: the nodes on the other side of a partition.
    """
    parted = tuple([one.id for one in record.members if one.id.node in apart]) if apart else ()
    first = next((one.id for one in record.members if one.id not in parted), None)
    return parted if first == member else ()


# Nodes and rings


def forgotten(record: MirrorRecord, node: str, running: Collection[str]) -> MirrorRecord | None:
    """A node is removed from the cluster with its messages. None if the queue is lost.

    If the queue waits for that node, it next waits for the node with the latest copy of a
    synchronised member. If there is none, the oldest living member leads, although it lacks
    messages; without a living member, the queue waits for the node with the latest copy.
    """
    member = record.on(node)
    if member is not None:
        # The node is not running, so its member is dead, whether or not the ring has noticed.
        others = [one.id for one in record.members if one is not member]
        if others:
            change = ring.Died((member.id,), others[0])
            record = died(record, change, may_lead_unsynchronised=False)
        else:
            record = vanished(record, (member.id,), running)
    copies = _without(record.has_copy, {node})
    if record.awaited != node:
        return _checked(replace(record, has_copy=copies))
    synchronised_last = [copy.node for copy in copies if copy.was_synchronised]
    if synchronised_last:
        return _checked(replace(record, awaited=synchronised_last[-1], has_copy=copies))
    if record.members:
        return _led_by(replace(record, has_copy=copies), _oldest(record))
    if not copies:
        return None
    return _checked(replace(record, awaited=copies[-1].node, has_copy=copies))


def ring_changed(record: MirrorRecord, change: ring.HasJoined | ring.Erased) -> MirrorRecord:
    """The ring has a change that affects nothing else."""
    if not record.members:
        raise Refused(f"no member of {record.group.name} lives")
    return _checked(replace(record, group=ring.changed(record.group, change)))


def renamed(record: MirrorRecord, names: Mapping[str, str]) -> MirrorRecord:
    """Nodes have other names. names: the new ones, by the old ones."""

    def name(node: str) -> str:
        return names.get(node, node)

    def rename(member: Member) -> Member:
        return replace(member, node=name(member.node))

    group = record.group
    places = tuple(replace(place, member=rename(place.member)) for place in group.places)
    return _checked(
        MirrorRecord(
            replace(group, places=places, newest=tuple(map(rename, group.newest))),
            None if record.leader is None else rename(record.leader),
            tuple(RecordedReplica(rename(one.id), one.is_synchronised) for one in record.members),
            name(record.awaited),
            tuple(MessageCopy(name(copy.node), copy.was_synchronised) for copy in record.has_copy),
        )
    )


def _leader_last(
    record: MirrorRecord, members: Collection[RecordedReplica]
) -> list[RecordedReplica]:
    """Members that end at the same time, with the leader last: its copy is the newest."""
    return sorted(members, key=lambda one: one.id == record.leader)


def _with(
    copies: tuple[MessageCopy, ...], going: Collection[RecordedReplica]
) -> tuple[MessageCopy, ...]:
    """The copies, with those of members that end now."""
    return (*copies, *(MessageCopy(one.id.node, one.is_synchronised) for one in going))


def _without(copies: tuple[MessageCopy, ...], nodes: Collection[str]) -> tuple[MessageCopy, ...]:
    return tuple(copy for copy in copies if copy.node not in nodes)


# Log lines


def log_lines(
    before: MirrorRecord | None, after: MirrorRecord, node: str, incarnation: int
) -> Iterator[str]:
    """The log lines of a node in one run for a changed record, without the name of the queue.

    As in RabbitMQ (`rabbit_mirror_queue_misc`), the leader's node logs mirrors that come and go,
    and the new leader's node logs a promotion. All nodes log a queue that is down. A node that
    starts finds records on its disk in which an earlier run of it leads.
    """
    if after.leader is None:
        if before is None or before.leader is not None or before.awaited != after.awaited:
            yield f"is down: no mirror can lead it, and it waits for node {after.awaited}"
        return
    if (after.leader.node, after.leader.incarnation) != (node, incarnation):
        return
    if before is not None and before.leader != after.leader:
        yield f"promoting the mirror on node {node} to leader"
    known = {} if before is None else {one.id: one for one in before.members}
    for one in after.mirrors:
        was = known.get(one.id)
        if was is None:
            yield f"adding a mirror on node {one.id.node}"
        if one.is_synchronised and not (was is not None and was.is_synchronised):
            yield f"the mirror on node {one.id.node} is synchronised"
    left = {one.id for one in after.members}
    for one in known.values():
        if one.id not in left:
            yield f"the mirror on node {one.id.node} is gone"

"""The record of a group: its members in the order of the ring, and the changes to it.

A group is a value. `changed` returns the next value, or refuses the change with a reason. The
record and its changes go through the replicated metadata, so all nodes see the same groups in the
same order, each at its own time.

The ring goes through the places from left to right, and from the last one to the first. A dead
member keeps its place while any of its broadcasts are in the ring. Until then the next living
member to its right, its heir, acknowledges its broadcasts, as a living sender acknowledges its own.

An heir must have all of the dead member's broadcasts that any living member has. So a new member is
placed right after a living one, never between a dead one and its heir, and gets its starting state
from that living one. Until it has this state (`has_joined`), it is declared dead together with the
member directly to its left, because members further right may have received more. If no joined
member lives, one of the members that have not joined starts again, alone and empty.

A place is identified by the version of the group that added it (`place_id`), a small number that no
other place of the group ever has. The messages of the ring name members by it.

Invariant GM5: the version grows by one with each change; at least one member lives; no member is
added a second time (`newest`).
"""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from leveret.cluster.rpc.refused import Refused


class Member(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One replica, in one run of its node.

    incarnation: the number of the node's start (`Peer.incarnation`). number: it grows with each
    member of the node in that run.
    """

    node: str
    incarnation: int
    number: int

    def __str__(self) -> str:
        return f"{self.node}:{self.incarnation}.{self.number}"


class Place(msgspec.Struct, frozen=True, array_like=True):
    """A member's place in the ring.

    place_id: the version of the group that added it. has_joined: it has its starting state.
    """

    member: Member
    place_id: int
    is_alive: bool = True
    has_joined: bool = False


class Added(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A new member is placed to the right of a living one that has joined."""

    new: Member
    after: Member


class HasJoined(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A new member has its starting state."""

    member: Member


class Died(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Members are dead. by: the member that reports it.

    A report by a dead member does not count, so two members that have lost the link between them do
    not both declare each other dead.
    """

    members: tuple[Member, ...]
    by: Member


class Erased(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """No broadcasts of these dead members are in the ring any longer."""

    members: tuple[Member, ...]


class Renewed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The runs of all members have ended: the group starts again with one new member."""

    first: Member


Change: TypeAlias = Added | HasJoined | Died | Erased | Renewed


class Group(msgspec.Struct, frozen=True, array_like=True):
    """The record of one group.

    identity: the number, below 2^63, by which messages name the group; no other group has it.
    newest: the last member of each node that has ever had one.
    """

    name: str
    identity: int
    version: int
    places: tuple[Place, ...]
    newest: tuple[Member, ...]

    @property
    def living(self) -> tuple[Place, ...]:
        """The places of the living members, in ring order."""
        return tuple(place for place in self.places if place.is_alive)

    def place_of(self, member: Member) -> Place | None:
        """A member's place, if it has one."""
        for place in self.places:
            if place.member == member:
                return place
        return None

    def has_had(self, member: Member) -> bool:
        """Whether the member is in the group, or can no longer be added."""
        return any(known.node == member.node and known >= member for known in self.newest)

    def circle(self, place: Place) -> tuple[Place, ...]:
        """All places in ring order, from the right neighbour of this one to itself."""
        after = self.places.index(place) + 1
        return self.places[after:] + self.places[:after]

    def right_of(self, place: Place) -> Place:
        """The next living place; itself if there is no other."""
        return next(one for one in self.circle(place) if one.is_alive)

    def left_of(self, place: Place) -> Place:
        """The last living place before this one; itself if there is no other."""
        circle = self.circle(place)
        return next(one for one in (*circle[-2::-1], place) if one.is_alive)

    def living_after(self, member: Member | None) -> tuple[Member, ...]:
        """The living members in ring order: the right neighbour of this one first, itself last."""
        place = None if member is None else self.place_of(member)
        places = self.places if place is None else self.circle(place)
        return tuple([one.member for one in places if one.is_alive])

    def sender_or_heir(self, place: Place) -> Place:
        """The place that acknowledges a member's broadcasts: its own, or that of its heir."""
        return place if place.is_alive else self.right_of(place)


def founded(name: str, identity: int, first: Member) -> Group:
    """A new group with one member."""
    return Group(name, identity, 1, (Place(first, 1, has_joined=True),), (first,))


def advanced(group: Group) -> Group:
    """The same members in the next version of the group.

    A broadcast of this version reaches a member only after that member has applied the version.
    """
    return _next(group, group.places)


def changed(group: Group, change: Change) -> Group:
    """The group after a change. Raises Refused if the change is impossible or done already."""
    if isinstance(change, Added):
        return _added(group, change)
    if isinstance(change, HasJoined):
        return _has_joined(group, change.member)
    if isinstance(change, Died):
        return _died(group, change)
    if isinstance(change, Erased):
        return _erased(group, change)
    return _renewed(group, change.first)


def _next(group: Group, places: Iterable[Place], new: Member | None = None) -> Group:
    following = tuple(places)
    assert any(place.is_alive for place in following), "GM5: at least one member lives"
    newest = group.newest
    if new is not None:
        newest = (*(one for one in newest if one.node != new.node), new)
    return Group(group.name, group.identity, group.version + 1, following, newest)


def _require_new(group: Group, new: Member) -> None:
    if group.has_had(new):
        raise Refused(
            f"{new} is, or was, a member of {group.name}, and cannot be added again: "
            "add a member with a greater number"
        )


def _added(group: Group, change: Added) -> Group:
    _require_new(group, change.new)
    after = group.place_of(change.after)
    if after is None or not after.is_alive or not after.has_joined:
        raise Refused(
            f"{change.new} cannot be added to {group.name} on the right of {change.after}, which "
            "is not a living member that has joined: ask another one"
        )
    at = group.places.index(after) + 1
    place = Place(change.new, group.version + 1)
    return _next(group, (*group.places[:at], place, *group.places[at:]), change.new)


def _died(group: Group, change: Died) -> Group:
    asking = group.place_of(change.by)
    if asking is None or not asking.is_alive:
        raise Refused(
            f"{change.by} is not a living member of {group.name}, so it cannot declare others dead"
        )
    dead = {place.member for place in group.living if place.member in change.members}
    if not dead:
        raise Refused(f"none of {_listed(change.members)} is a living member of {group.name}")
    if len(dead) == len(group.living):
        raise Refused(f"{_listed(change.members)} are all living members of {group.name}")
    places = list(group.places)
    for at, place in enumerate(places):
        # The first place has joined, or is dead.
        is_left_dead = at > 0 and not places[at - 1].is_alive
        if place.member in dead or (is_left_dead and not place.has_joined):
            places[at] = replace(place, is_alive=False)
    if not any(place.is_alive and place.has_joined for place in places):
        oldest = min(
            (place for place in group.living if place.member not in dead),
            key=lambda place: place.place_id,
        )
        places = [replace(oldest, has_joined=True)]
    return _next(group, places)


def _has_joined(group: Group, member: Member) -> Group:
    joined = group.place_of(member)
    if joined is None or not joined.is_alive or joined.has_joined:
        raise Refused(f"{member} is not a living member of {group.name} that has yet to join")
    return _next(
        group,
        (replace(one, has_joined=True) if one is joined else one for one in group.places),
    )


def _erased(group: Group, change: Erased) -> Group:
    kept = [place for place in group.places if place.is_alive or place.member not in change.members]
    if len(kept) == len(group.places):
        raise Refused(f"none of {_listed(change.members)} is a dead member of {group.name}")
    return _next(group, kept)


def _renewed(group: Group, first: Member) -> Group:
    _require_new(group, first)
    return _next(group, (Place(first, group.version + 1, has_joined=True),), first)


def _listed(members: Iterable[Member]) -> str:
    return ", ".join(map(str, members))

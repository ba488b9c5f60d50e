"""Finds the next change of a group's members on the way to those that it should have. Pure.

A member's name consists of its node and a number that is unique in the group. A member that
replaces another one on its node has a higher number. The name of a first member may lack the
number.

A member that has lost its data is removed before its replacement is added: as long as it is a
voter, it makes a majority harder to reach. Otherwise members are added first, and others are
removed only while no new voter is still catching up, so that the group does not become smaller than
necessary. The leader is removed last.
"""

from collections.abc import Set
from typing import NamedTuple

from leveret.cluster.raft.configuration import Configuration, MemberKind


class WantedMembers(NamedTuple):
    """The names of the members that a group should have.

    next_number: the number of the next new member; a member with this number, or a higher one, is
    newer than this object. forced_from: a recovery has removed the members with lower numbers that
    are not named.
    """

    voters: tuple[str, ...]
    non_voters: tuple[str, ...] = ()
    next_number: int = 1 << 62
    forced_from: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return self.voters + self.non_voters


class MemberChange(NamedTuple):
    """An argument of `RaftMember.change_member`. membership: None for a removal."""

    member: str
    membership: MemberKind | None


def next_change(
    now: Configuration, wanted: WantedMembers, me: str, reachable: Set[str]
) -> MemberChange | None:
    """The next change; None if there is nothing to do for now. me: the leader."""
    names = wanted.names
    new = [name for name in names if name not in now.members]
    nodes = {node_of(name) for name in new}
    unwanted = [
        name for name in now.members
        if name not in names and number_of(name) < wanted.next_number and now.voters != (name,)
    ]  # fmt: skip
    for name in unwanted:
        if node_of(name) in nodes and name != me:
            return MemberChange(name, None)
    if new:
        is_voter = new[0] in wanted.voters
        return MemberChange(new[0], MemberKind.VOTER if is_voter else MemberKind.NON_VOTER)
    if any(name in reachable and name in names for name in now.promotable):
        return None
    return MemberChange(_without(me, unwanted), None) if unwanted else None


def _without(me: str, names: list[str]) -> str:
    return next((name for name in names if name != me), me)


def node_of(member: str) -> str:
    """The node of a member."""
    return member.partition("/")[0]


def number_of(member: str) -> int:
    """The number of a member."""
    return int(member.partition("/")[2] or 1)

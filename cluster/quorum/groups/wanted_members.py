"""Which change of its members a group needs next, to have those that it is to have. Pure.

A member's name has its node and a number, which is unique in the group: a member that takes the
place of another one on its node has a higher one. The name of a first member may lack it.

A member that has lost what it had is removed before the one that takes its place is added: as long
as it is a voter it makes a majority harder to reach. Other members are added first, and removed
while no new voter is about to catch up, so that the group does not become smaller than it has to.
The member that leads is removed last.
"""

from collections.abc import Set
from typing import NamedTuple

from leveret.cluster.raft.configuration import Configuration, Membership


class WantedMembers(NamedTuple):
    """The members that a group is to have: their names. next_number: of the next new member.

    A member with that number, or a higher one, is newer than this wish.
    """

    voters: tuple[str, ...]
    non_voters: tuple[str, ...] = ()
    next_number: int = 1 << 62

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return self.voters + self.non_voters


class MemberChange(NamedTuple):
    """A change for `RaftMember.change_member`. membership: None for a removal."""

    member: str
    membership: Membership | None


def next_change(
    now: Configuration, wanted: WantedMembers, me: str, reachable: Set[str]
) -> MemberChange | None:
    """The next change; None if there is nothing to do for now. me: the member that leads."""
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
        return MemberChange(new[0], Membership.VOTER if is_voter else Membership.NON_VOTER)
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

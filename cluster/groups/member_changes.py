"""The changes that lead from the members of a group to those that it should have.

Every member knows the members that are wanted; the leader starts one change after the other.
"""

from leveret.cluster.groups.wanted_members import WantedMembers, next_change, number_of
from leveret.cluster.raft.raft_member import RaftMember


class MemberChanges:
    """The changes of one group, on one of its nodes. me: the member there.

    wanted: the members that the group should have; None while these are unknown. forced_from: its
    number, or 0. is_due: `start_next` should be called at the end of the turn.
    """

    __slots__ = ("_me", "_raft", "forced_from", "is_due", "wanted")

    def __init__(self, me: str, raft: RaftMember) -> None:
        self.wanted: WantedMembers | None = None
        self.forced_from = 0
        self.is_due = False
        self._me = me
        self._raft = raft

    def follow(self, wanted: WantedMembers) -> None:
        """Set the members that the group should have. The leader changes them."""
        self.wanted = wanted
        self.forced_from = wanted.forced_from
        self.is_due = True

    def start_next(self) -> None:
        """Start the next change. If it is refused for now, the next turn tries again."""
        leading, wanted = self._raft.leading, self.wanted
        change = None
        if leading is not None and wanted is not None:
            state = self._raft.state
            change = next_change(state.log.configuration, wanted, self._me, state.reachable)
        if change is None:
            self.is_due = False
        else:
            self._raft.change_member(*change)

    def has_given_up(self, name: str) -> bool:
        """Whether a forced recovery has removed a member.

        The member that went on alone has a lower number, too. It is wanted, until it is to leave,
        and in the configuration, unless this member is new and has none yet.
        """
        is_member = name in self._raft.state.log.configuration.members
        is_wanted = self.wanted is not None and name in self.wanted.names
        return number_of(name) < self.forced_from and not (is_member or is_wanted)

"""Members that their nodes have announced to the leader: they know no leader.

A member may have missed messages from before its node knew it, or its own removal. A removed member
may be on a node that was renamed since, which no other node knows.
"""

from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.raft.messages import Removed


def is_to_be_removed(member: GroupMember, other: str) -> bool:
    """Whether another member of the group is no longer in the queue's record."""
    wanted = member.changes.wanted
    is_left = wanted is not None and other not in wanted.names
    return is_left and other in member.raft.state.log.configuration.members


def announced(member: GroupMember, name: str, now_ms: int, *, is_there: bool) -> Removed | None:
    """Link another member, if this one leads. Returns the item to send it if it was removed.

    is_there: it is announced by the node where it should be.
    """
    leading, state = member.raft.leading, member.raft.state
    if leading is None:
        return None  # The next leader asks all members for their positions.
    index = state.log.configuration_index
    if name in state.log.configuration.members:
        if is_there:
            member.raft.link_up(name, now_ms)
    elif leading.has_committed and index <= state.commit:
        return Removed(member.group, state.term, index)
    return None

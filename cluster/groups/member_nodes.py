"""The nodes that the members of groups are on. A member's name has the node where it began.

A node that is renamed keeps its members, so the records of their queues say where they are. A
member that an operator removes leaves the record at once, and its group later. Until then it may
even be the leader, so it is still found where it was.
"""

from collections.abc import Mapping

from leveret.cluster.groups.wanted_members import node_of


class MemberNodes:
    """The nodes of all members."""

    def __init__(self) -> None:
        self._renamed: dict[int, Mapping[str, str]] = {}

    def of(self, group: int, member: str) -> str:
        """The node of a member."""
        renamed = self._renamed.get(group)
        node = None if renamed is None else renamed.get(member)
        return node or node_of(member)

    def rename(self, group: int, nodes: Mapping[str, str]) -> bool:
        """Some members of a group are on renamed nodes. Returns whether this is news."""
        known = self._renamed.get(group, {})
        if nodes.items() <= known.items():
            return False
        self._renamed[group] = {**known, **nodes}
        return True

    def forget(self, group: int) -> None:
        """The queue of a group is deleted."""
        self._renamed.pop(group, None)

"""Finds the dead members of a group that one member has to report.

A member watches its neighbours: when the link to a neighbour's node is down, and is still down
after a pause, the neighbour is dead. If the member after it is unreachable too, both are declared
dead together, and so on. A member of an earlier run of a node is dead without a pause: the node's
incarnation shows that that run has ended.
"""

from collections.abc import Sequence

from leveret.cluster.gm.group import Member


class NeighbourWatch:
    """The links of one member's node, and the pauses that are running."""

    __slots__ = ("_declared", "_linked", "_me", "_over", "_pauses", "_waited_for")

    def __init__(self, me: Member) -> None:
        self._me = me
        self._linked: dict[str, int] = {}
        self._pauses: dict[Member, int] = {}
        self._waited_for: set[Member] = set()
        self._over: set[Member] = set()
        self._declared: set[Member] = set()

    def is_reachable(self, member: Member) -> bool:
        """Whether a member's node is linked, in the same run as the member."""
        return self._linked.get(member.node, -1) == member.incarnation

    def link_up(self, node: str, incarnation: int) -> None:
        """A node is linked: its members of that run are alive."""
        self._linked[node] = incarnation
        for members in (self._waited_for, self._over, self._declared):
            for one in [one for one in members if one.node == node]:
                if one.incarnation == incarnation:
                    members.discard(one)

    def link_down(self, node: str) -> None:
        """The link to a node is down."""
        self._linked.pop(node, None)

    def pause_over(self, member: Member) -> None:
        """A pause is over. It counts if the link stayed down, and no other pause has started."""
        self._pauses[member] -= 1
        if self._pauses[member]:
            return
        del self._pauses[member]
        if member in self._waited_for:
            self._waited_for.discard(member)
            self._over.add(member)

    def look(self, others: Sequence[Member]) -> tuple[list[Member], list[Member]]:
        """The members to be waited for, and those to be declared dead; each is returned once.

        others: all other living members, from the right neighbour round to the left one.
        """
        self._over.intersection_update(others)
        self._declared.intersection_update(others)
        to_wait: list[Member] = []
        dead: list[Member] = []
        for side in (others, others[::-1]):
            self._look_along(side, to_wait, dead)
        return to_wait, dead

    def _look_along(
        self, side: Sequence[Member], to_wait: list[Member], dead: list[Member]
    ) -> None:
        is_all_dead = True
        for member in side:
            if self.is_reachable(member):
                return
            if self._has_ended(member) or member in self._over:
                if is_all_dead and member not in self._declared:
                    self._declared.add(member)
                    dead.append(member)
                continue
            is_all_dead = False
            if member not in self._waited_for:
                self._waited_for.add(member)
                self._pauses[member] = self._pauses.get(member, 0) + 1
                to_wait.append(member)

    def _has_ended(self, member: Member) -> bool:
        if member.node == self._me.node:
            return True
        return self._linked.get(member.node, -1) > member.incarnation

"""Groups that have no member here yet, and the nodes that have asked for their leaders.

A node asks each node that is to have a member, and that one may be created later. As soon as it
leads, it tells the nodes that have asked.
"""

AWAITED_MAX = 20_000
"""How many groups may be asked for. A member that is created later than this many others tells all
nodes that it leads (`Groups.tell_all`)."""


class AwaitedGroups:
    """The nodes that have asked, by group."""

    def __init__(self) -> None:
        self.nodes: dict[int, set[str]] = {}

    def add(self, group: int, node: str) -> None:
        """A node has asked for the leader of a group."""
        self.nodes.setdefault(group, set()).add(node)
        if len(self.nodes) > AWAITED_MAX:
            del self.nodes[next(iter(self.nodes))]

    def take(self, group: int) -> set[str]:
        """Remove a group, which has a member now; returns the nodes that have asked for it."""
        return self.nodes.pop(group, set())

    def link_down(self, node: str) -> None:
        """A node asks again once it is linked."""
        for group, nodes in list(self.nodes.items()):
            nodes.discard(node)
            if not nodes:
                del self.nodes[group]

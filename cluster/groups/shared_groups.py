"""Which groups have members on this node and on another one."""

from collections.abc import Collection, Iterable


class SharedGroups:
    """The groups of one node, by the other nodes that have members of them."""

    def __init__(self) -> None:
        self._on_node: dict[str, set[int]] = {}
        self._nodes_of: dict[int, set[str]] = {}

    def set_nodes(self, group: int, nodes: Iterable[str]) -> None:
        """A group has members on these other nodes."""
        before, after = self._nodes_of.get(group, set()), set(nodes)
        self._nodes_of[group] = after
        for node in before - after:
            self._on_node[node].discard(group)
        for node in after - before:
            self._on_node.setdefault(node, set()).add(group)

    def remove(self, group: int) -> None:
        """The node no longer has a member of a group."""
        for node in self._nodes_of.pop(group, ()):
            self._on_node[node].discard(group)

    def on(self, node: str) -> Collection[int]:
        """The groups that have a member on another node."""
        return self._on_node.get(node, ())

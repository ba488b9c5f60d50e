"""The companions of a node: the nodes that may continue to run when it stops, as on its disk.

A restart uses them to decide whether to wait (membership/start_order.py). The set is widened before
other nodes are told to run with this one, and narrowed when all of them are known to do so. Until a
view is established it is unknown whether its members follow it, so the set includes the members of
earlier views.

A requested write may reach the disk at any time, and has reached it when `written` is called. So a
restart may find one of several sets.
"""

from collections import deque
from collections.abc import Callable

Names = frozenset[str]


class Companions:
    """me: this node, always a companion. names: the companions on disk before this run.

    write: requests the write of a set, and returns the number of the output.
    """

    def __init__(self, me: str, names: Names, write: Callable[[Names], int]) -> None:
        self._write = write
        self._possible = deque([(0, names | {me})])

    @property
    def names(self) -> Names:
        """The set whose write was requested last."""
        return self._possible[-1][1]

    def widen(self, names: Names) -> None:
        """Write nodes that are about to run with this one, unless the set includes them."""
        if not names <= self.names:
            self.replace(self.names | names)

    def replace(self, names: Names) -> None:
        """Write that only these nodes can continue to run, unless that set is written."""
        if names != self.names:
            self.are_written_by(self._write(names), names)

    def are_written_by(self, number: int, names: Names) -> None:
        """The output with this number writes these names."""
        self._possible.append((number, names))

    def written(self, number: int) -> None:
        """Outputs up to this number are on disk."""
        while len(self._possible) > 1 and self._possible[1][0] <= number:
            self._possible.popleft()

    def hold(self, names: Names) -> bool:
        """Whether every set that a restart may find includes these names."""
        return all(names <= possible for _, possible in self._possible)

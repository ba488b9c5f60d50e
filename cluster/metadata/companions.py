"""The companions of a node: those that may run on when it stops, as its disk names them.

By them a restart decides whether to wait (membership/start_order.py). They are widened before
others are told to run with this node, and narrowed when all of them are known to do so: until a
view is established nobody can tell whether its members follow it, so those of the views before it
are among them.

What was asked to be written may be on disk at any time, and is there for certain when `written`
says so. So several sets may be what a restart finds.
"""

from collections import deque
from collections.abc import Callable

Names = frozenset[str]


class Companions:
    """me: the node, which is always among them. names: as they were written before this run.

    write: asks for a set to be written, and returns the number of the output.
    """

    def __init__(self, me: str, names: Names, write: Callable[[Names], int]) -> None:
        self._write = write
        self._possible = deque([(0, names | {me})])

    @property
    def names(self) -> Names:
        """As they were asked to be written last."""
        return self._possible[-1][1]

    def widen(self, names: Names) -> None:
        """These are about to run with the node: write them, if they are not among those written."""
        if not names <= self.names:
            self.replace(self.names | names)

    def replace(self, names: Names) -> None:
        """Nobody but these can run on: write that, if it is not written."""
        if names != self.names:
            self.are_written_by(self._write(names), names)

    def are_written_by(self, number: int, names: Names) -> None:
        """The output of this number writes them."""
        self._possible.append((number, names))

    def written(self, number: int) -> None:
        """Outputs up to this number are on disk."""
        while len(self._possible) > 1 and self._possible[1][0] <= number:
            self._possible.popleft()

    def hold(self, names: Names) -> bool:
        """Whether a restart finds these for certain."""
        return all(names <= possible for _, possible in self._possible)

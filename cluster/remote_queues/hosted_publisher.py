"""The publisher that a queue sees instead of another node's publishers.

The outcomes of runs are gathered, and sent once a round: ranges of sequence numbers that are safe,
and messages that the queue refused (`take`).

Invariants:
HP1. `take` returns a run once: when it is published, if the queue does not hold it, or when its
     last holder has confirmed it or died.
HP2. The refusals of a run are in the same `take` as the run, or in an earlier one.
"""

from collections.abc import Callable


class HostedPublisher:
    """The `Publisher` at a queue of this node, for the publishers of another node.

    Numbers are the sequence numbers of the client's node (owed_confirms.py). due: called when
    `take` has outcomes to return.
    """

    __slots__ = ("_due", "_ends", "_held", "_refused", "due")

    def __init__(self, due: Callable[[], object]) -> None:
        self.due = due
        self._ends: dict[int, int] = {}
        self._held: dict[int, list[object]] = {}
        self._due: list[tuple[int, int]] = []
        self._refused: list[tuple[int, int]] = []

    @property
    def has_due(self) -> bool:
        """Whether a run has an outcome since the last `take`."""
        return bool(self._due or self._refused)

    def holds(self, first: int) -> bool:
        """Whether a run that begins with this number is not safe yet."""
        return first in self._ends

    def begin(self, first: int, count: int) -> None:
        """Hold a run that is about to be published for the publish itself, until `end`."""
        self._ends[first] = first + count
        self._held[first] = [self]

    def end(self, first: int) -> None:
        """The queue has been given the run."""
        self.confirm(first, self)

    def hold(self, first: int, count: int, holder: object) -> None:
        """The holder will confirm the run later."""
        assert first + count == self._ends[first], "a run is held as it was published"
        self._held[first].append(holder)

    def confirm(self, first: int, holder: object) -> None:
        """The holder has stored the run safely."""
        holders = self._held.get(first)
        if holders is None or holder not in holders:
            return
        holders.remove(holder)
        if not holders:
            del self._held[first]
            self._note_safe(first, self._ends.pop(first))
            self.due()

    def _note_safe(self, first: int, end: int) -> None:
        due = self._due
        if due and due[-1][1] == first:
            due[-1] = due[-1][0], end
        else:
            due.append((first, end))

    def refuse(self, number: int) -> None:
        """The queue refuses a message."""
        for first in reversed(self._ends):
            if first <= number < self._ends[first]:
                self._refused.append((first, number))
                self.due()
                return
        raise AssertionError(f"HP2: message {number} is refused after its run")

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The holder will confirm nothing more."""
        for first in [first for first, holders in self._held.items() if holder in holders]:
            if not is_settled:
                self._refused += [(first, number) for number in range(first, self._ends[first])]
            self.confirm(first, holder)

    def take(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """The ranges of runs that are safe, and the (run, message) pairs that are refused."""
        taken = self._due, self._refused
        self._due, self._refused = [], []
        return taken

"""Runs by the positions of their messages: what a consumer holds, and the dead letters.

Invariants:

QM11  A run that is held is not changed: effects and snapshots may have it.
"""

from leveret.cluster.quorum.machine.runs import Run


class HeldRuns:
    """Runs that are held. runs: in the order of positions. count: how many messages they have."""

    __slots__ = ("bytes", "count", "runs")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.count = 0
        self.bytes = 0

    def add(self, run: Run) -> None:
        """Add a run, of whose messages there are none."""
        runs = self.runs
        self.count += run.count
        self.bytes += run.count * run.size
        if not runs or runs[-1].position < run.position:
            runs.append(run)
        else:
            runs.insert(self._after(run.position), run)

    def take(self, first: int, last: int) -> list[Run]:
        """Take the messages of an interval of positions; those that are not there are ignored."""
        runs = self.runs
        start = self._after(first)
        if start > 0 and runs[start - 1].last >= first:
            start -= 1
        end = start
        while end < len(runs) and runs[end].position <= last:
            end += 1
        if start == end:
            return []
        taken = runs[start:end]
        left: list[Run] = []
        head = taken[0]
        if head.position < first:
            left.append(head.part(0, first - head.position))
            taken[0] = head.part(first - head.position, head.last - first + 1)
        tail = taken[-1]
        if tail.last > last:
            left.append(tail.part(last - tail.position + 1, tail.last - last))
            taken[-1] = tail.part(0, last - tail.position + 1)
        runs[start:end] = left
        for run in taken:
            self.count -= run.count
            self.bytes -= run.count * run.size
        return taken

    def take_all(self) -> list[Run]:
        """Take everything."""
        taken, self.runs = self.runs, []
        self.count = self.bytes = 0
        return taken

    def in_order_of_delivery(self) -> list[Run]:
        """All runs in the order of their delivery numbers."""
        return in_order_of_delivery(self.runs)

    def _after(self, position: int) -> int:
        """The place of the first run whose position is above this one."""
        runs = self.runs
        low, high = 0, len(runs)
        while low < high:
            middle = (low + high) >> 1
            if runs[middle].position > position:
                high = middle
            else:
                low = middle + 1
        return low


def in_order_of_delivery(runs: list[Run]) -> list[Run]:
    """Runs in the order of their delivery numbers."""
    if all(runs[at].delivery < runs[at + 1].delivery for at in range(len(runs) - 1)):
        return runs
    return sorted(runs, key=_delivery)


def _delivery(run: Run) -> int:
    return run.delivery

"""Runs in the order of their positions: the messages that a consumer holds, and dead letters.

Invariants:

QM11  A held run is not changed, because effects and snapshots may refer to it.
"""

from leveret.cluster.quorum.machine.runs import Run


class OrderedRuns:
    """Held runs. runs: in the order of positions. count: of messages."""

    __slots__ = ("bytes", "count", "runs")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.count = 0
        self.bytes = 0

    def add(self, run: Run) -> None:
        """Add a run. None of its messages may be here already."""
        runs = self.runs
        self.count += run.count
        self.bytes += run.count * run.size
        if not runs or runs[-1].position < run.position:
            runs.append(run)
        else:
            runs.insert(self._after(run.position), run)

    def take(self, first: int, last: int) -> list[Run]:
        """Take the messages in an interval of positions. Positions without one are ignored."""
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
        """The place of the first run that begins after this position."""
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

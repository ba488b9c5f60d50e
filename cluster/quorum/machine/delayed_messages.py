"""Returned messages that become ready again after a delay (x-delayed-retry-type)."""

from bisect import bisect_right
from collections.abc import Sequence

from leveret.cluster.quorum.machine.runs import Run


class DelayedRuns:
    """Delayed messages. runs: by time, then by position. count: of messages."""

    __slots__ = ("bytes", "count", "runs")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.count = 0
        self.bytes = 0

    def add(self, run: Run) -> None:
        """Add messages that become ready at the `time_ms` of the run."""
        runs = self.runs
        low, high = 0, len(runs)
        while low < high:
            middle = (low + high) >> 1
            other = runs[middle]
            if other.time_ms > run.time_ms or (
                other.time_ms == run.time_ms and other.position > run.position
            ):
                high = middle
            else:
                low = middle + 1
        runs.insert(low, run)
        self.count += run.count
        self.bytes += run.count * run.size

    def take_ready(self, now_ms: int) -> list[Run]:
        """Take the messages that are due."""
        end = 0
        while end < len(self.runs) and self.runs[end].time_ms <= now_ms:
            end += 1
        taken = self.runs[:end]
        del self.runs[:end]
        for run in taken:
            self.count -= run.count
            self.bytes -= run.count * run.size
        return taken

    def take(self, positions: Sequence[int]) -> list[Run]:
        """Take the messages in intervals of positions, in the order of their times; all of them if
        there is no interval.
        """
        left: list[Run] = []
        taken: list[Run] = []
        for run in self.runs:
            if positions:
                _divide(run, positions, left, taken)
            else:
                taken.append(run)
        self.runs = left
        for run in taken:
            self.count -= run.count
            self.bytes -= run.count * run.size
        return taken

    def next_ms(self) -> int:
        """When the first message becomes ready; 0 if there is none."""
        return self.runs[0].time_ms if self.runs else 0

    def last_ms(self) -> int:
        """When the last message becomes ready; 0 if there is none."""
        return self.runs[-1].time_ms if self.runs else 0

    def clear(self) -> int:
        """Drop all messages. Returns how many there were."""
        count = self.count
        self.runs = []
        self.count = self.bytes = 0
        return count


def _divide(run: Run, positions: Sequence[int], left: list[Run], taken: list[Run]) -> None:
    """Add the parts of a run that are in intervals to `taken`, and the others to `left`."""
    at, end = run.position, run.last + 1
    # The last interval that begins at the run's position or before, or else the first one.
    place = max(0, bisect_right(positions, at) - 1) // 2 * 2
    while at < end and place < len(positions):
        first, after = max(at, positions[place]), min(end, positions[place + 1] + 1)
        if first < after:
            if at < first:
                left.append(run.part(at - run.position, first - at))
            taken.append(run.part(first - run.position, after - first))
            at = after
        place += 2
        if place < len(positions) and positions[place] >= end:
            break
    if at < end:
        left.append(run.part(at - run.position, end - at))

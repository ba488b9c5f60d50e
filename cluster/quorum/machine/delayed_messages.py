"""Messages that wait for a time: returned ones for their retry (x-delayed-retry-type), or all
messages in the queue of a delayed message exchange.

They are in blocks, so that a message in the middle of a million costs the move of a thousand.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from leveret.cluster.quorum.machine.runs import Run

BLOCK_RUNS_MAX: Final = 1000
ALL: Final = 1 << 62
"""More runs than there are."""


class DelayedRuns:
    """Delayed messages, by time, then by position. count: of messages. run_count: of runs.

    No block is empty.
    """

    __slots__ = ("_blocks", "bytes", "count", "run_count")

    def __init__(self) -> None:
        self._blocks: list[list[Run]] = []
        self.count = 0
        self.bytes = 0
        self.run_count = 0

    @property
    def runs(self) -> list[Run]:
        """All runs, in a list of their own."""
        return [run for block in self._blocks for run in block]

    def add(self, run: Run) -> None:
        """Add messages that become ready at the `time_ms` of the run."""
        self._count(run, 1)
        blocks = self._blocks
        if not blocks:
            blocks.append([run])
            return
        low, high = 0, len(blocks) - 1
        while low < high:
            middle = (low + high) >> 1
            if _is_before(blocks[middle][-1], run):
                low = middle + 1
            else:
                high = middle
        block = blocks[low]
        block.insert(_place_of(run, block), run)
        if len(block) > BLOCK_RUNS_MAX:
            half = len(block) >> 1
            blocks.insert(low + 1, block[half:])
            del block[half:]

    def take_ready(self, now_ms: int, runs_max: int = ALL) -> list[Run]:
        """Take the messages that are due: the first `runs_max` runs."""
        taken: list[Run] = []
        while self._blocks:
            block = self._blocks[0]
            end, end_max = 0, min(len(block), runs_max - len(taken))
            while end < end_max and block[end].time_ms <= now_ms:
                end += 1
            taken += block[:end]
            if end < len(block):
                del block[:end]
                break
            del self._blocks[0]
        for run in taken:
            self._count(run, -1)
        return taken

    def take(self, positions: Sequence[int]) -> list[Run]:
        """Take the messages in intervals of positions, in the order of their times; all of them if
        there is no interval.
        """
        if not positions:
            taken = self.runs
            self.clear()
            return taken
        blocks: list[list[Run]] = []
        taken = []
        for block in self._blocks:
            if not _has_some(block, positions[0], positions[-1]):
                blocks.append(block)
                continue
            left: list[Run] = []
            for run in block:
                _divide(run, positions, left, taken)
            if left:
                blocks.append(left)
        self._blocks = blocks
        self.run_count = sum([len(block) for block in blocks])
        for run in taken:
            self.count -= run.count
            self.bytes -= run.count * run.size
        return taken

    def next_ms(self) -> int:
        """When the first message becomes ready; 0 if there is none."""
        return self._blocks[0][0].time_ms if self._blocks else 0

    def last_ms(self) -> int:
        """When the last message becomes ready; 0 if there is none."""
        return self._blocks[-1][-1].time_ms if self._blocks else 0

    def clear(self) -> int:
        """Drop all messages. Returns how many there were."""
        count = self.count
        self._blocks = []
        self.count = self.bytes = self.run_count = 0
        return count

    def _count(self, run: Run, sign: int) -> None:
        self.run_count += sign
        self.count += sign * run.count
        self.bytes += sign * run.count * run.size


def _is_before(one: Run, other: Run) -> bool:
    if one.time_ms == other.time_ms:
        return one.position < other.position
    return one.time_ms < other.time_ms


def _place_of(run: Run, block: list[Run]) -> int:
    """The place of a run in a block."""
    if _is_before(block[-1], run):
        return len(block)
    low, high = 0, len(block)
    while low < high:
        middle = (low + high) >> 1
        if _is_before(block[middle], run):
            low = middle + 1
        else:
            high = middle
    return low


def _has_some(block: list[Run], first: int, last: int) -> bool:
    """Whether a block has messages at positions from `first` to `last`."""
    return any(run.position <= last and run.last >= first for run in block)


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

"""Messages that wait for a time: returned ones for their retry (x-delayed-retry-type), or all
messages in the queue of a delayed message exchange.

They are in blocks, so that a message in the middle of a million costs the move of a thousand. What
operators ask for, and what the log asks for (`shared`, `live`), touches no more than the blocks.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from leveret.cluster.quorum.machine.commands import RUN_FIELDS
from leveret.cluster.quorum.machine.live_entries import CountedEntries
from leveret.cluster.quorum.machine.own_times import lives_of
from leveret.cluster.quorum.machine.runs import Run

BLOCK_RUNS_MAX: Final = 1000
ALL: Final = 1 << 62
"""More runs than there are, and later than all of them."""


class Block:
    """Runs by time, then by position. is_shared: a snapshot has the list, which does not change."""

    __slots__ = ("is_shared", "runs")

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self.is_shared = False

    def own(self) -> list[Run]:
        """The runs, to be changed."""
        if self.is_shared:
            self.runs = self.runs.copy()
            self.is_shared = False
        return self.runs


class DelayedRuns:
    """Delayed messages, by time, then by position. count: of messages. run_count: of runs.

    No block is empty.
    """

    __slots__ = ("_blocks", "_entries", "bytes", "count", "run_count")

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._entries = CountedEntries()
        self.count = 0
        self.bytes = 0
        self.run_count = 0

    @property
    def runs(self) -> list[Run]:
        """All runs, in a list of their own: for few of them, or for work that looks at each."""
        return [run for block in self._blocks for run in block.runs]

    def first_after(self, time_ms: int, position: int, runs_max: int) -> list[Run]:
        """The first runs after the one with this time and position; none if there are no more."""
        found: list[Run] = []
        place = self._block_after(time_ms, position)
        while place < len(self._blocks) and len(found) < runs_max:
            runs = self._blocks[place].runs
            start = 0 if found else _place_after(time_ms, position, runs)
            found += runs[start : start + runs_max - len(found)]
            place += 1
        return found

    def has(self, time_ms: int, position: int) -> bool:
        """Whether the message at a position, whose time this is, waits."""
        place = self._block_after(time_ms, position)
        before = self._blocks[place - 1].runs[-1] if place else None
        if place < len(self._blocks):
            runs = self._blocks[place].runs
            start = _place_after(time_ms, position, runs)
            before = runs[start - 1] if start else before
        return before is not None and before.time_ms == time_ms and position <= before.last

    def shared(self) -> list[list[Run]]:
        """All runs, in lists that stay as they are now."""
        for block in self._blocks:
            block.is_shared = True
        return [block.runs for block in self._blocks]

    def live(self) -> list[int]:
        """The entries that the messages refer to, as intervals of indexes."""
        return self._entries.intervals()

    def add(self, run: Run) -> None:
        """Add messages that become ready at the `time_ms` of the run."""
        self.run_count += 1
        self._count(run, 1)
        blocks = self._blocks
        if not blocks:
            blocks.append(Block([run]))
            return
        low = min(self._block_after(run.time_ms, run.position), len(blocks) - 1)
        runs = blocks[low].own()
        runs.insert(_place_after(run.time_ms, run.position, runs), run)
        if len(runs) > BLOCK_RUNS_MAX:
            half = len(runs) >> 1
            blocks.insert(low + 1, Block(runs[half:]))
            del runs[half:]

    def publish(
        self, position: int, index: int, fields: list[int], times: dict[int, bytes] | None,
        now_ms: int,
    ) -> int:  # fmt: skip
        """Add the runs of a publish until their times to live are over. Returns how many messages
        these are. position: of the first one. fields, times: see `EnqueueTimed`.
        """
        place = 0
        for at in range(0, len(fields), RUN_FIELDS):
            own = None if times is None else times.get(at // RUN_FIELDS)
            lives_ms = [fields[at + 2] - 1] if own is None else lives_of(own)
            count = fields[at] // len(lives_ms)
            for life_ms in lives_ms:
                run = Run(position + place, count, index, place, fields[at + 1], fields[at + 3])
                run.time_ms = now_ms + max(0, life_ms)
                self.add(run)
                place += count
        return place

    def take_ready(self, now_ms: int, runs_max: int = ALL) -> list[Run]:
        """Take the messages that are due: the first `runs_max` runs."""
        taken: list[Run] = []
        emptied = 0
        while emptied < len(self._blocks):
            runs = self._blocks[emptied].runs
            end, end_max = 0, min(len(runs), runs_max - len(taken))
            while end < end_max and runs[end].time_ms <= now_ms:
                end += 1
            taken += runs[:end]
            if end < len(runs):
                del self._blocks[emptied].own()[:end]
                break
            emptied += 1
        del self._blocks[:emptied]
        self.run_count -= len(taken)
        for run in taken:
            self._count(run, -1)
        return taken

    def take(self, positions: Sequence[int], first_ms: int = 0, last_ms: int = ALL) -> list[Run]:
        """Take the messages in intervals of positions, in the order of their times; all of them if
        there is no interval.

        first_ms, last_ms: messages with other times are left, and cost nothing.
        """
        if not positions:
            taken = self.runs
            self.clear()
            return taken
        taken = []
        start = self._block_after(first_ms, 0)
        end = min(len(self._blocks), self._block_after(last_ms, ALL) + 1)
        kept: list[Block] = []
        for block in self._blocks[start:end]:
            if not _has_some(block.runs, positions[0], positions[-1]):
                kept.append(block)
                continue
            left: list[Run] = []
            for run in block.runs:
                if first_ms <= run.time_ms <= last_ms:
                    _divide(run, positions, left, taken)
                else:
                    left.append(run)
            self.run_count += len(left) - len(block.runs)
            if left:
                kept.append(Block(left))
        self._blocks[start:end] = kept
        for run in taken:
            self._count(run, -1)
        return taken

    def next_ms(self) -> int:
        """When the first message becomes ready; 0 if there is none."""
        return self._blocks[0].runs[0].time_ms if self._blocks else 0

    def last_ms(self) -> int:
        """When the last message becomes ready; 0 if there is none."""
        return self._blocks[-1].runs[-1].time_ms if self._blocks else 0

    def clear(self) -> int:
        """Drop all messages. Returns how many there were."""
        count = self.count
        self._blocks = []
        self._entries.clear()
        self.count = self.bytes = self.run_count = 0
        return count

    def _count(self, run: Run, sign: int) -> None:
        self.count += sign * run.count
        self.bytes += sign * run.count * run.size
        if sign > 0:
            self._entries.add(run.index, run.count)
        else:
            self._entries.remove(run.index, run.count)

    def _block_after(self, time_ms: int, position: int) -> int:
        """The place of the first block whose last run is after this time and position."""
        blocks = self._blocks
        low, high = 0, len(blocks)
        while low < high:
            middle = (low + high) >> 1
            if _is_after(blocks[middle].runs[-1], time_ms, position):
                high = middle
            else:
                low = middle + 1
        return low


def chunks(lists: Sequence[list[Run]], size: int) -> Iterator[list[Run]]:
    """The runs of several lists, in lists of this size; the last one may be shorter."""
    chunk: list[Run] = []
    for runs in lists:
        at = 0
        while at < len(runs):
            end = at + size - len(chunk)
            chunk += runs[at:end]
            at = end
            if len(chunk) == size:
                yield chunk
                chunk = []
    if chunk:
        yield chunk


def _is_after(run: Run, time_ms: int, position: int) -> bool:
    if run.time_ms == time_ms:
        return run.position > position
    return run.time_ms > time_ms


def _place_after(time_ms: int, position: int, runs: list[Run]) -> int:
    """The place of the first of these runs that is after this time and position."""
    if not _is_after(runs[-1], time_ms, position):
        return len(runs)
    low, high = 0, len(runs)
    while low < high:
        middle = (low + high) >> 1
        if _is_after(runs[middle], time_ms, position):
            high = middle
        else:
            low = middle + 1
    return low


def _has_some(runs: list[Run], first: int, last: int) -> bool:
    """Whether these runs have messages at positions from `first` to `last`."""
    return any(run.position <= last and run.last >= first for run in runs)


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

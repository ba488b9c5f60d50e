"""The records of a purge of a tiered queue: the positions that are gone, and the bytes that left
segments.

Usually the positions are recorded at once, so that no restart brings a purged message back. But a
queue may have very many unacked messages with ready ones between them. Then an interval for each is
recorded, in steps: a kill before the last step, about a second later, brings some of the messages
back.

The bytes of messages that are both in memory and in segments are always counted in steps, as these
messages are freed; until then the ledger reports the count as unknown.

Invariant PU1: while positions are left to be recorded, no slice is planned, and `flushed_to` does
not change. So a position below it that is not gone is in a segment, as in a STATE.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.message import Entry
from leveret.storage.queue.delta import Delta
from leveret.storage.queue.in_memory import InMemory
from leveret.storage.segments.ledger import Ledger

RECORDED_AT_ONCE = 4096
"""The intervals of a step, which takes some milliseconds."""
STEPS_AT_ONCE = 4


class Purges:
    """The purges of one queue, with the parts of that queue.

    left_segment: called with the position and the size of each entry that is in a segment, too.
    gone: called with gone entries, in the order of their positions. noted: called when positions
    were recorded.
    """

    __slots__ = (
        "_delta", "_gone", "_ledger", "_left_segment", "_memory", "_noted", "_steps", "_unacked",
    )  # fmt: skip

    def __init__(
        self,
        ledger: Ledger,
        memory: InMemory,
        delta: Delta,
        unacked: dict[int, Entry],
        left_segment: Callable[[int, int], None],
        gone: Callable[[list[Entry]], None],
        noted: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._memory = memory
        self._delta = delta
        self._unacked = unacked
        self._left_segment = left_segment
        self._gone = gone
        self._noted = noted
        self._steps: deque[Iterator[int]] = deque()

    def __bool__(self) -> bool:
        """Whether positions are left to be recorded."""
        return bool(self._steps)

    def begin(self, end: int, hand_over: Callable[[], Iterator[list[Entry]]]) -> Iterator[int]:
        """Note all but unacked messages below `end` as gone (TQ1). Returns the steps of freeing.

        hand_over: takes all entries out of memory.
        """
        ledger = self._ledger
        ledger.segment_bytes -= self._delta.size
        on_disk = self._delta.clear()
        is_noted = self._note_at_once(on_disk, end)
        self._noted()
        if is_noted:
            return _freeing(ledger, hand_over(), self._left_segment)
        ledger.begin_count()
        self._steps.append(self._record(hand_over(), on_disk))
        return self._work()

    def _note_at_once(self, on_disk: Intervals, end: int) -> bool:
        """Record the positions, unless that takes long either way. Returns whether it did.

        They are collected from the smaller set: entries between which there may be gaps, or
        unacked entries.
        """
        fresh, memory, unacked = self._ledger.fresh, self._memory, self._unacked
        loose = memory.loose_count + on_disk.interval_count
        if min(len(unacked), loose) > RECORDED_AT_ONCE:
            return False
        if len(unacked) < loose:
            held = Intervals((position, position + 1) for position in sorted(unacked))
            fresh.update(Intervals(held.gaps(0, end)))
        else:
            fresh.update(on_disk)
            fresh.update(memory.positions())
        return True

    def _record(self, pieces: Iterator[list[Entry]], on_disk: Intervals) -> Iterator[int]:
        ledger = self._ledger
        for entries in pieces:
            self._gone(entries)
            yield len(entries)
        while on_disk:
            block = on_disk.pop_block()
            ledger.fresh.add_block(block)
            yield len(block.starts)
        ledger.end_count()

    def _work(self) -> Iterator[int]:
        """Record all positions in steps. Yields the number of entries or intervals in each."""
        while self._steps:
            work = next(self._steps[0], None)
            if work is None:
                self._steps.popleft()
                continue
            self._noted()
            yield work

    def go_on(self, steps: int | None = STEPS_AT_ONCE) -> None:
        """Carry out this number of steps; None: all."""
        for _ in islice(self._work(), steps):
            pass


def _freeing(
    ledger: Ledger, pieces: Iterator[list[Entry]], left_segment: Callable[[int, int], None]
) -> Iterator[int]:
    """The steps of freeing entries that were in memory and are gone.

    left_segment: called with the position and size of each entry that is also in a segment.
    """
    flushed_to = ledger.flushed_to
    if not flushed_to:
        return map(len, pieces)
    ledger.begin_count()
    return _counted(ledger, flushed_to, pieces, left_segment)


def _counted(
    ledger: Ledger,
    flushed_to: int,
    pieces: Iterator[list[Entry]],
    left_segment: Callable[[int, int], None],
) -> Iterator[int]:
    for entries in pieces:
        for entry in entries:
            if entry.position < flushed_to:
                left_segment(entry.position, len(entry.message.body))
        yield len(entries)
    ledger.end_count()

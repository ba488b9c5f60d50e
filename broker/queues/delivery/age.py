"""The ages of a queue's messages, without a timestamp in each message.

Positions in a queue grow as messages are published, so a few marks (messages from this position on
were published at that time) give the age of any message. At most one mark is made per millisecond.
When there are `MARKS_MAX`, marks whose neighbours are close together for their age are removed, so
marks get sparser with age. An age is at most an eighth too high (more only after months), at four
kilobytes for a busy queue. The age of a recovered message counts from the restart.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from leveret.broker.queues.contract.priority_levels import PriorityLevels
from leveret.storage.contract.backing_queue import FirstReady
from leveret.storage.messages.message import Entry, Message

MARKS_MAX: Final = 256
MARKS_KEPT: Final = 192
SPARSENESS: Final = 8
"""A mark is removed if its neighbours are less than an eighth of their age apart."""
BOUND_MIN_MS: Final = 1
BOUNDS_MS: Final[tuple[int, ...]] = (
    BOUND_MIN_MS, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000,
)  # fmt: skip
"""Upper bounds, inclusive, of the histogram of the time that delivered messages had waited."""


class Ages:
    """The ages of one queue, or of one priority of a queue.

    marked_ms: the time of the last mark.
    counts: a histogram of delivered messages by waiting time; it has one number more than there are
    bounds.
    """

    __slots__ = ("_marked_from", "_positions", "_times_ms", "counts", "marked_ms", "sum_ms")

    def __init__(self, now_ms: int) -> None:
        self._positions = array("q", [0])
        self._times_ms = array("q", [now_ms])
        self.marked_ms = now_ms
        # The last position: reading it from an array takes a call of the interpreter.
        self._marked_from = 0
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.sum_ms = 0

    def mark(self, now_ms: int, position: int) -> None:
        """Messages from this position on are published now."""
        self.marked_ms = now_ms
        self._marked_from = position
        self._positions.append(position)
        self._times_ms.append(now_ms)
        if len(self._positions) > MARKS_MAX:
            self._thin(now_ms)

    def _thin(self, now_ms: int) -> None:
        # Lists, since a compiled loop reads them without a call.
        positions: list[int] = self._positions.tolist()
        times_ms: list[int] = self._times_ms.tolist()
        sparseness = float(SPARSENESS)
        kept = _places_kept(times_ms, now_ms, sparseness)
        while len(kept) > MARKS_KEPT:
            sparseness /= 2
            kept = _places_kept(times_ms, now_ms, sparseness)
        self._positions = array("q", [positions[place] for place in kept])
        self._times_ms = array("q", [times_ms[place] for place in kept])

    def age_ms(self, position: int, now_ms: int) -> int:
        """The time since the message at this position was published."""
        place = bisect_right(self._positions, position) - 1
        return max(0, now_ms - self._times_ms[max(0, place)])

    def delivered(self, first: int, count: int, now_ms: int) -> None:
        """Messages left the queue: the one at `first`, and those that follow it."""
        if first >= self._marked_from:
            self._note(count, now_ms - self.marked_ms)
            return
        positions = self._positions
        end = first + count
        place = max(0, bisect_right(positions, first) - 1)
        while first < end:
            next_mark = positions[place + 1] if place + 1 < len(positions) else end
            upto = min(end, max(next_mark, first))
            self._note(upto - first, now_ms - self._times_ms[place])
            first = upto
            place += 1

    def _note(self, count: int, waited_ms: int) -> None:
        # Nearly all messages are delivered at once, and those need no search.
        place = bisect_left(BOUNDS_MS, waited_ms) if waited_ms > BOUND_MIN_MS else 0
        self.counts[place] += count
        self.sum_ms += count * waited_ms


def _places_kept(times_ms: list[int], now_ms: int, sparseness: float) -> list[int]:
    last = len(times_ms) - 1
    kept_ms = times_ms[0]
    kept = [0]
    for place in range(1, last):
        next_ms = times_ms[place + 1]
        if (next_ms - kept_ms) * sparseness > now_ms - next_ms:
            kept.append(place)
            kept_ms = times_ms[place]
    kept.append(last)
    return kept


class QueueAges:
    """The ages of a queue's messages: one `Ages`, or one for each of its levels.

    Positions count from 0 in each level, so the marks of one level do not apply to another.
    """

    __slots__ = ("_level_of", "_levels", "plain")

    def __init__(self, levels: PriorityLevels | None, now_ms: int) -> None:
        self._level_of = levels.of if levels is not None else None
        self._levels: dict[int, Ages] | None = {} if levels is not None else None
        self.plain = Ages(now_ms)
        """The ages of a queue without priorities; read directly on the message path."""

    def __iter__(self) -> Iterator[Ages]:
        yield self.plain
        if self._levels is not None:
            yield from self._levels.values()

    def of_message(self, message: Message, now_ms: int) -> Ages:
        """The ages of the message's level."""
        if self._level_of is None:
            return self.plain
        return self._at(self._level_of(message), now_ms)

    def _at(self, priority: int, now_ms: int) -> Ages:
        if self._levels is None:
            return self.plain
        ages = self._levels.get(priority)
        if ages is None:
            ages = self._levels[priority] = Ages(now_ms)
        return ages

    def note_left(self, entries: list[Entry], now_ms: int) -> None:
        """Entries leave the queue, in the order of their positions."""
        if self._levels is not None:
            for entry in entries:
                self.of_message(entry.message, now_ms).delivered(entry.position, 1, now_ms)
        elif entries:
            self.plain.delivered(entries[0].position, len(entries), now_ms)

    def oldest_ms(self, heads: Iterable[FirstReady], now_ms: int) -> int | None:
        """The age of the oldest of the messages at the heads; None if there is none."""
        return max(
            (self._at(head.priority, now_ms).age_ms(head.position, now_ms) for head in heads),
            default=None,
        )

"""When the messages of one queue expire: their positions, by time, in bounded memory.

Time is divided into ticks of 64 ms, and 256 ticks are a period of 16 s. The positions of messages
that expire in one tick are in one bucket; so are those that expire in a later period, each with its
tick. When a period begins, its bucket is spread over those of its ticks. A tick that is over is due
as a whole. So nothing is sorted or searched, and a message costs 9 bytes.

    ticks of open periods         later periods
    | 3 | 4 | 5 | 6 | 7 |         |      8 ... 15     |     16 ... 23     |
      x  xx      x    x            x x  xx   x  xx x    xx   x              horizon

A queue with very many messages keeps those that expire first. The others are not in memory here,
whether they are in the queue's memory or on disk: when the horizon is reached, the queue is read
from its head to its end, and the earliest times are added again. Each reading of the queue serves
`COUNT_MAX // 2` expiries at least, unless messages are consumed first.

A message that leaves the queue stays in its bucket until its time: the caller finds out that it is
gone. So nothing is searched when messages are delivered. When there are many more positions than
messages in the queue, the caller drops those before the queue's head (`forget_before`). A position
may be added more than once: it is due once.

Invariants:

ES1  Each ready message that expires before the horizon is in a bucket, except those that a reading
     of the queue has yet to reach.
ES2  The buckets have at most COUNT_MAX positions, and there are at most PERIODS_MAX of later
     periods.
ES3  A tick is due when it is over, so that none of its messages is due before its time.
"""

from array import array
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Final

COUNT_MAX: Final = 4_000_000
"""36 MB at most for a queue."""
PERIODS_MAX = 4096
"""18 hours. A bucket of one position takes 250 bytes."""
TICK_BITS: Final = 6
TICK_MS: Final = 1 << TICK_BITS
PERIOD_BITS: Final = 8
"""A period has 256 ticks."""
TICK_MASK: Final = (1 << PERIOD_BITS) - 1
PERIOD_MS_BITS: Final = TICK_BITS + PERIOD_BITS
LEVEL_BITS: Final = 48
"""A position is a level of 8 bits and a position in the level (classic/priority.py)."""
PACKED_AT: Final = 64
"""A bucket packs this many integers together. One takes 40 bytes before that, and 8 then."""
NO_HORIZON: Final = 0
SPREAD_STEP: Final = 1000
"""This many positions of a period are spread over its ticks at a time."""


class ExpiryBucket:
    """Integers in the order in which they were added."""

    __slots__ = ("_fresh", "_packed")

    def __init__(self) -> None:
        self._fresh: list[int] = []
        self._packed: array[int] | None = None

    def __len__(self) -> int:
        return len(self._fresh) + (len(self._packed) if self._packed is not None else 0)

    def add(self, item: int) -> None:
        """Add one integer, of 64 bits at most."""
        fresh = self._fresh
        fresh.append(item)
        if len(fresh) >= PACKED_AT:
            self.extend(fresh)
            fresh.clear()

    def extend(self, items: "list[int] | range") -> None:
        """Add integers, packed."""
        if self._packed is None:
            self._packed = array("Q")
        self._packed.extend(items)

    def items(self) -> list[int]:
        """All of them."""
        return [*(self._packed or ()), *self._fresh]

    def keep(self, items: list[int]) -> None:
        """Replace all of them."""
        self._fresh.clear()
        self._packed = array("Q", items)


class ExpirySchedule:
    """The earliest expiry times of one queue.

    horizon_ms: messages that expire then or later are not in a bucket; `NO_HORIZON` if all are.
    count: how many positions there are.
    """

    __slots__ = (
        "_count_max", "_open_to", "_periods", "_periods_in_order", "_spreading", "_ticks",
        "_ticks_in_order", "count", "horizon_ms",
    )  # fmt: skip

    def __init__(self, count_max: int = COUNT_MAX) -> None:
        self._count_max = count_max
        # By tick, and the ticks as a heap. Those below `_open_to` are in open periods.
        self._ticks: dict[int, ExpiryBucket] = {}
        self._ticks_in_order: list[int] = []
        self._open_to: int = 0
        # The same for later periods.
        self._periods: dict[int, ExpiryBucket] = {}
        self._periods_in_order: list[int] = []
        # The end of a period that is being opened: ticks and positions.
        self._spreading: list[tuple[int, list[int]]] = []
        self.horizon_ms: int = NO_HORIZON
        self.count: int = 0

    @property
    def next_ms(self) -> int:
        """When there is something to do: the next tick is over, a period begins, or the first tick
        behind the horizon is over; 0 for never.
        """
        if self._spreading:
            return 1
        if self._ticks_in_order:
            return (self._ticks_in_order[0] + 1) << TICK_BITS
        if self._periods_in_order:
            return max(1, self._periods_in_order[0] << PERIOD_MS_BITS)
        return self.horizon_ms and self.horizon_ms + TICK_MS

    # Adding

    def add(self, expires_at_ms: int, position: int, count: int = 1) -> None:
        """Add messages at consecutive positions that expire at the same time."""
        if self.horizon_ms and expires_at_ms >= self.horizon_ms:
            return
        tick = expires_at_ms >> TICK_BITS
        self.count += count
        if tick < self._open_to:
            bucket = self._tick(tick)
            if count == 1:
                bucket.add(position)
            else:
                bucket.extend(range(position, position + count))
        else:
            bucket = self._period(tick >> PERIOD_BITS)
            first = position << PERIOD_BITS | tick & TICK_MASK
            if count == 1:
                bucket.add(first)
            else:
                bucket.extend(range(first, first + (count << PERIOD_BITS), 1 << PERIOD_BITS))
        self._bound()

    def _tick(self, tick: int) -> ExpiryBucket:
        bucket = self._ticks.get(tick)
        if bucket is None:
            bucket = self._ticks[tick] = ExpiryBucket()
            heappush(self._ticks_in_order, tick)
        return bucket

    def _period(self, period: int) -> ExpiryBucket:
        bucket = self._periods.get(period)
        if bucket is None:
            bucket = self._periods[period] = ExpiryBucket()
            heappush(self._periods_in_order, period)
        return bucket

    # Taking

    def take_due(self, now_ms: int) -> list[int]:
        """Remove the positions of the first tick that is over, in order, each once; none if there
        is none, or if `spread` has more to do first.
        """
        in_order, present = self._ticks_in_order, now_ms >> TICK_BITS
        positions: list[int] = []
        while not (self._spreading or positions) and in_order and in_order[0] < present:
            positions = self._ticks.pop(heappop(in_order)).items()
        self.count -= len(positions)
        return sorted(set(positions))

    def spread(self, now_ms: int) -> int:
        """Do a part of opening the periods that have begun. Returns how many positions were
        handled; 0 when nothing is left to do.
        """
        if not self._spreading and not self._open_next(now_ms >> PERIOD_MS_BITS):
            return 0
        period, items = self._spreading[-1]
        part = items[-SPREAD_STEP:]
        del items[-SPREAD_STEP:]
        if not items:
            self._spreading.pop()
        first = period << PERIOD_BITS
        for item in part:
            self._tick(first | item & TICK_MASK).add(item >> PERIOD_BITS)
        return len(part)

    def _open_next(self, present: int) -> bool:
        """Open the periods up to the present one; whether one of them has messages."""
        end = (present + 1) << PERIOD_BITS
        self._open_to = max(self._open_to, end)
        in_order = self._periods_in_order
        while in_order and in_order[0] <= present:
            period = heappop(in_order)
            items = self._periods.pop(period).items()
            items.reverse()
            if items:
                self._spreading.insert(0, (period, items))
        return bool(self._spreading)

    # Forgetting

    def _bound(self) -> None:
        """Keep the earlier half of too many positions, or of too many later periods (ES2)."""
        if len(self._periods) > PERIODS_MAX:
            self._forget_periods(PERIODS_MAX // 2)
        if self.count > self._count_max:
            self._forget_latest()

    def _forget_latest(self) -> None:
        self._forget_periods(0, self._count_max // 2)
        in_order = sorted(self._ticks)
        while in_order and self.count > self._count_max // 2:
            tick = in_order.pop()
            self.count -= len(self._ticks.pop(tick))
            self.horizon_ms = max(1, tick << TICK_BITS)
        self._ticks_in_order = in_order

    def _forget_periods(self, periods_max: int, count_max: int = 0) -> None:
        """Forget the latest periods until so few of them, or so few positions, are left."""
        in_order = sorted(self._periods)
        while len(in_order) > periods_max and self.count > count_max:
            period = in_order.pop()
            self.count -= len(self._periods.pop(period))
            self.horizon_ms = max(1, period << PERIOD_MS_BITS)
        self._periods_in_order = in_order

    def forget_before(self, firsts: Mapping[int, int]) -> Iterator[int]:
        """Forget positions before the first ready ones, a bucket in each step; yields the number of
        positions that it had.

        firsts: the first position of each level that has ready messages.
        """
        for shift, buckets in ((0, self._ticks), (PERIOD_BITS, self._periods)):
            for key in list(buckets):
                bucket = buckets.get(key)
                if bucket is None:
                    continue
                items = bucket.items()
                kept = _from(items, shift, firsts)
                if len(kept) < len(items):
                    bucket.keep(kept)
                    self.count -= len(items) - len(kept)
                yield len(items)

    def is_at_horizon(self, now_ms: int) -> bool:
        """Whether the queue has to be read: messages that are in no bucket have expired."""
        if self.horizon_ms == NO_HORIZON or self.count:
            return False
        return self.horizon_ms + TICK_MS <= now_ms

    def begin_reading(self) -> None:
        """The queue is about to be read: messages of any time are added again (ES1)."""
        self.horizon_ms = NO_HORIZON

    def clear(self) -> None:
        """The queue is empty."""
        self._ticks.clear()
        self._ticks_in_order.clear()
        self._periods.clear()
        self._periods_in_order.clear()
        self._spreading.clear()
        self.horizon_ms = NO_HORIZON
        self.count = 0


def _from(items: list[int], shift: int, firsts: Mapping[int, int]) -> list[int]:
    """The items, positions that are shifted by some bits, from the first of their level on."""
    if len(firsts) == 1:
        ((level, first),) = firsts.items()
        lowest, end = first << shift, (level + 1) << LEVEL_BITS + shift
        return [item for item in items if lowest <= item < end]
    kept = []
    for item in items:
        position = item >> shift
        first_of_level = firsts.get(position >> LEVEL_BITS)
        if first_of_level is not None and position >= first_of_level:
            kept.append(item)
    return kept

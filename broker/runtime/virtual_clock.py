"""A clock that a test moves by hand: time stands still until `advance` is called.

All timers that become due (a message's TTL, a delayed message, a heartbeat, a consumer timeout) are
called at once, in the order of their times.
"""

import math
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from leveret.broker.runtime.clock import Timer


class VirtualTimer:
    """A call that is made when the clock is moved past its time."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Do not make the call."""
        self.callback = None


class VirtualClock:
    """A clock for tests, which starts at the real date."""

    def __init__(self) -> None:
        # Not 0: a deadline of 0 stands for none.
        self._now_ms = 1.0
        self._started_at_s = time.time()
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._order = count()

    def now_ms(self) -> int:
        """The milliseconds by which the clock was moved, plus one."""
        return int(self._now_ms)

    def wall_time_s(self) -> float:
        """Seconds since 1970 on this clock."""
        return self._started_at_s + self._now_ms / 1000

    def call_later_ms(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        """Call back when the clock has been moved by the delay."""
        timer = VirtualTimer(callback)
        heappush(self._timers, (self._now_ms + max(0.0, delay_ms), next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Move the clock, and make all calls that become due, in order.

        Raises TypeError and ValueError unless the seconds are a finite number from 0.
        """
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise TypeError(
                f"advance({seconds!r}): the clock is advanced by a number of seconds, such as 3600 "
                "or 0.5"
            )
        if not 0 <= seconds < math.inf:
            raise ValueError(f"advance({seconds!r}): the clock goes forward, by 0 seconds or more")
        end_ms = self._now_ms + seconds * 1000
        while self._timers and self._timers[0][0] <= end_ms:
            self._now_ms, _, timer = heappop(self._timers)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
        self._now_ms = end_ms

"""The times at which members want to be woken: one heap and one timer for all groups."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from leveret.broker.runtime.clock import Clock, Timer


class Wakes:
    """Times with callbacks. There is no timer if there are no times."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Callable[[int], object]]] = []
        self._order = count()
        self._timer: Timer | None = None
        self._timer_ms = 0

    def at(self, at_ms: int, callback: Callable[[int], object]) -> None:
        """Call back with the current time, at this time or later."""
        heappush(self._heap, (at_ms, next(self._order), callback))
        self._set_timer()

    def _set_timer(self) -> None:
        if not self._heap:
            return
        at_ms = self._heap[0][0]
        if self._timer is not None:
            if self._timer_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_ms = at_ms
        self._timer = self._clock.call_later_ms(max(0, at_ms - self._clock.now_ms()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        heap = self._heap
        try:
            while heap and heap[0][0] <= now_ms:
                _, _, callback = heappop(heap)
                callback(now_ms)
        finally:
            # Other groups have times, too.
            self._set_timer()

    def close(self) -> None:
        """Forget all times."""
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

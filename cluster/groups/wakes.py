"""The times at which members want to be woken: one heap and one timer for all groups.

A time that is cancelled drops its callback at once. Its place in the heap stays until it is due, or
until most of the heap is of cancelled times.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

from leveret.broker.runtime.clock import Clock, Timer


class Wakes:
    """Times with callbacks. There is no timer if there are no times.

    After the last time was cancelled, the timer rings once more.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int]] = []
        """Times and their numbers."""
        self._callbacks: dict[int, Callable[[int], object]] = {}
        self._numbers = count(1)
        self._timer: Timer | None = None
        self._timer_ms = 0

    def at(self, at_ms: int, callback: Callable[[int], object]) -> int:
        """Call back with the current time, at this time or later. Returns the number to cancel."""
        number = next(self._numbers)
        self._callbacks[number] = callback
        heappush(self._heap, (at_ms, number))
        self._set_timer()
        return number

    def cancel(self, number: int) -> None:
        """Do not call back. Does nothing after the call."""
        callbacks, heap = self._callbacks, self._heap
        callbacks.pop(number, None)
        if len(heap) > 2 * len(callbacks):
            heap[:] = [one for one in heap if one[1] in callbacks]
            heapify(heap)

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
                _, number = heappop(heap)
                callback = self._callbacks.pop(number, None)
                if callback is not None:
                    callback(now_ms)
        finally:
            # Other groups have times, too.
            self._set_timer()

    def close(self) -> None:
        """Forget all times."""
        self._heap.clear()
        self._callbacks.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

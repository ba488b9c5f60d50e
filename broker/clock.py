"""The broker's time: every deadline, timer and timestamp comes from here.

`SystemClock` is the event loop's time. A broker that is embedded in a test may run on a
`VirtualClock` instead (broker/testing.py), which the test moves forward by hand; nothing else in
the broker asks the operating system for the time.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Forget it. Cancelling twice, or after the call, does nothing."""


class Clock(Protocol):
    """What a broker needs of time."""

    def now_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes back."""

    def wall_time_s(self) -> float:
        """Seconds since 1970."""

    def call_later_ms(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        """Call back once, when the delay is over."""


class SystemClock:
    """Real time, and the timers of the running event loop."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        """Milliseconds of the monotonic clock."""
        return int(time.monotonic() * 1000)

    def wall_time_s(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def call_later_ms(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        """A timer of the event loop."""
        return self._loop.call_later(delay_ms / 1000, callback)

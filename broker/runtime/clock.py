"""The broker's time: every deadline, timer and timestamp comes from a `Clock`.

`SystemClock` (system_clock.py) is the event loop's time. A broker that is embedded in a test may
run on a `VirtualClock` (virtual_clock.py), which the test moves by hand. Nothing else in the broker
asks the operating system for the time.
"""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Do not make the call. Cancelling twice, or after the call, does nothing."""


class Clock(Protocol):
    """A source of time and timers."""

    def now_ms(self) -> int:
        """Milliseconds since a fixed moment; never decreases."""

    def wall_time_s(self) -> float:
        """Seconds since 1970."""

    def call_later_ms(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        """Call back once, after the delay."""

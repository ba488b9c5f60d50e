"""Plans the next tick of a leader, at the time that its machine asks for."""

from collections.abc import Callable
from typing import Protocol


class Times(Protocol):
    """The times of a node. holds_ticks: no member ticks for now."""

    holds_ticks: bool

    def now_ms(self) -> int:
        """A time that never goes backwards."""

    def wall_ms(self) -> int:
        """The wall clock."""

    def wall_time_s(self) -> float:
        """The wall clock, with microseconds."""

    def wake_at(self, at_ms: int, wake: Callable[[int], object]) -> int:
        """Call back with the current time, at this time or later. Returns the number to cancel."""

    def cancel_wake(self, number: int) -> None:
        """Do not call back. Does nothing after the call."""


class MemberTick:
    """The next tick of one member."""

    __slots__ = ("_number", "_times", "_wakes_ms")

    def __init__(self, times: Times) -> None:
        self._times = times
        self._number = self._wakes_ms = 0

    def plan(self, at_ms: int, wake: Callable[[int], object]) -> None:
        """Have the member woken at a time of the wall clock, or earlier; 0: not at all."""
        times = self._times
        if not at_ms or times.holds_ticks:
            self.cancel()
            return
        now_ms = times.now_ms()
        due_ms = now_ms + max(1, at_ms - times.wall_ms())
        if not now_ms < self._wakes_ms <= due_ms:
            self.cancel()
            self._wakes_ms = due_ms
            self._number = times.wake_at(due_ms, wake)

    def cancel(self) -> None:
        """The member is not woken, so nothing refers to it."""
        if self._wakes_ms:
            self._times.cancel_wake(self._number)
            self._wakes_ms = 0

    def is_due(self, now_ms: int) -> bool:
        """Whether the time has come. The tick counts as proposed then."""
        if not 0 < self._wakes_ms <= now_ms:
            return False
        self.cancel()
        return True

"""Limits how fast members that are behind are sent entries and snapshots while clients publish.

A member that comes back takes as much as its node can, and uses the processors, links and disks
that confirms wait for. So this node sends at a limited rate while entries are appended to any of
its groups. The limit grows with the rate of these, so that a member always catches up. Otherwise
there is no limit. Transfers that have to wait are called in turn, with one timer for all.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

BYTES_A_MS: Final = 80 * 1024
"""80 MB a second: a million messages of 1 KB in 15 seconds."""
FASTER_THAN_APPENDS: Final = 2
"""The minimum number of bytes that may be sent for each byte that is appended meanwhile."""
MEASURED_MS: Final = 1000
"""The limit depends on the appends in the last interval of this length."""
LATE_MS: Final = 20
"""The longest delay of a timer that is made up for."""


class PaceTimes(Protocol):
    """The times of a node."""

    def now_ms(self) -> int:
        """A time that never goes backwards."""

    def wake_at(self, at_ms: int, wake: Callable[[int], object]) -> int:
        """Call back with the current time, at this time or later."""


class CatchUpPace:
    """The pace of all groups of a node. appended_bytes: the bytes appended to the logs of all
    members so far.

    Before each piece `may_send` is called, and after it `sent` with its size.
    """

    def __init__(self, times: PaceTimes, appended_bytes: Callable[[], int]) -> None:
        self._times = times
        self._appended_bytes = appended_bytes
        self._measured_ms = self._measured_bytes = 0
        self._bytes_a_ms = 0.0
        """The limit; 0 for none."""
        self._next_ms = 0.0
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_planned = False

    def may_send(self, go_on: Callable[[], object]) -> bool:
        """Whether a piece may be sent now. Otherwise `go_on` is called when it may."""
        now_ms = self._times.now_ms()
        if self._is_due(now_ms):
            return True
        self._waiting.append(go_on)
        self._plan()
        return False

    def sent(self, octets: int) -> None:
        """A piece of this size was sent."""
        if self._bytes_a_ms:
            earliest_ms = self._times.now_ms() - LATE_MS
            self._next_ms = max(self._next_ms, earliest_ms) + octets / self._bytes_a_ms

    def _is_due(self, now_ms: int) -> bool:
        elapsed_ms = now_ms - self._measured_ms
        if elapsed_ms >= MEASURED_MS:
            appended_bytes = self._appended_bytes()
            appended = appended_bytes - self._measured_bytes
            limit = max(BYTES_A_MS, FASTER_THAN_APPENDS * appended / elapsed_ms)
            self._bytes_a_ms = limit if appended else 0.0
            self._measured_ms, self._measured_bytes = now_ms, appended_bytes
        return not self._bytes_a_ms or now_ms >= self._next_ms

    def _plan(self) -> None:
        if self._waiting and not self._is_planned:
            self._is_planned = True
            self._times.wake_at(int(self._next_ms) + 1, self._wake)

    def _wake(self, now_ms: int) -> None:
        self._is_planned = False
        try:
            for _ in range(len(self._waiting)):
                if not self._is_due(now_ms):
                    break
                self._waiting.popleft()()
        finally:
            self._plan()

"""The wall clock of a node's groups, which does not go back when the system's clock does.

Entries have times, and the machine of a queue never returns to an earlier one. So if the system's
clock was set back by an hour, no message would expire and no delay end for an hour. Instead, this
clock goes on from the time that it had, by a hundredth slower than the monotonic clock, until the
system's clock is there, too. It follows at once if the system's clock is set forward, as after a
suspension of the machine.
"""

from typing import Final

from leveret.broker.runtime.clock import Clock

SLOWER: Final = 0.99


class SteadyWall:
    """The clock of one node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._read_ms = clock.now_ms()
        self._wall_ms = clock.wall_time_s() * 1000

    def ms(self) -> int:
        """Milliseconds since 1970."""
        now_ms = self._clock.now_ms()
        least_ms = self._wall_ms + SLOWER * (now_ms - self._read_ms)
        self._read_ms = now_ms
        self._wall_ms = max(self._clock.wall_time_s() * 1000, least_ms)
        return int(self._wall_ms)

"""Values that change with time, and the number of messages due at a rate. Pure.

PerfTest's variable options are lists of value:seconds; after the last part the first begins again.
A fixed value is a schedule of one part.
"""

import math
from collections.abc import Sequence

Part = tuple[float, float]
"""A value, and for how many seconds."""

NO_LIMIT = -1.0
TICK_SECONDS_MIN, TICK_SECONDS_MAX = 0.001, 0.1


class Schedule:
    """A value as a function of the time in seconds since the start."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = list(parts)
        self._seconds = sum(seconds for _, seconds in parts)
        self._whole = sum(value * seconds for value, seconds in parts)

    @staticmethod
    def of(parts: Sequence[Part], fixed: float) -> "Schedule":
        """Return the schedule of the parts, or of the fixed value if there are none."""
        return Schedule(parts or [(fixed, 1.0)])

    def value_at(self, elapsed_s: float) -> float:
        """Return the value at a time."""
        left = elapsed_s % self._seconds
        for value, seconds in self._parts:
            if left < seconds:
                return value
            left -= seconds
        return self._parts[-1][0]

    def sum_until(self, elapsed_s: float) -> float:
        """Return the integral of the value up to a time."""
        rounds, left = divmod(elapsed_s, self._seconds)
        total = rounds * self._whole
        for value, seconds in self._parts:
            total += value * min(left, seconds)
            left = max(0.0, left - seconds)
        return total


class Pace:
    """Computes how many messages are due. rates: messages per second; negative is unlimited."""

    def __init__(self, rates: Schedule) -> None:
        self._rates = rates
        self.is_limited = rates.value_at(0.0) >= 0

    def due(self, elapsed_s: float) -> int:
        """Return how many messages should have been published by now. The first is due at once."""
        return math.ceil(self._rates.sum_until(elapsed_s))

    def tick_s(self, elapsed_s: float) -> float:
        """Return after how many seconds to check again."""
        rate = self._rates.value_at(elapsed_s)
        wait = 1 / rate if rate > 0 else TICK_SECONDS_MAX
        return min(max(wait, TICK_SECONDS_MIN), TICK_SECONDS_MAX)

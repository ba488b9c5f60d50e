"""A histogram of durations with an error of at most 1 %, which can be sent and added up. Pure.

Values are microseconds. Each power of two is divided into `STEPS` buckets, and a value is taken as
the middle of its bucket. Values from one microsecond to days need a few hundred counters.
"""

from collections.abc import Iterable
from typing import Any

STEPS = 64
PERCENTILES = {"median": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def bucket_of(value: int) -> int:
    """Return the number of a value's bucket."""
    if value < STEPS:
        return max(0, value)
    shift = value.bit_length() - STEPS.bit_length()
    return (shift + 1) * STEPS + (value >> shift) - STEPS


def value_of(bucket: int) -> float:
    """Return the middle of a bucket."""
    if bucket < STEPS:
        return float(bucket)
    shift, step = divmod(bucket, STEPS)
    low = (step + STEPS) << (shift - 1)
    return low + ((1 << (shift - 1)) - 1) / 2


class LatencyHistogram:
    """Counts by bucket. minimum and maximum are exact; None if it is empty."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.total = 0
        self.minimum: int | None = None
        self.maximum: int | None = None

    def add(self, value: int, count: int = 1) -> None:
        """Add a value `count` times. Negative values, from clocks that differ, count as 0."""
        value = max(0, value)
        bucket = bucket_of(value)
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.total += count
        self._widen(value)

    def merge(self, other: "LatencyHistogram") -> None:
        """Add the counts of another histogram."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.total += other.total
        for value in (other.minimum, other.maximum):
            if value is not None:
                self._widen(value)

    def _widen(self, value: int) -> None:
        if self.minimum is None or value < self.minimum:
            self.minimum = value
        if self.maximum is None or value > self.maximum:
            self.maximum = value

    def percentile(self, share: float) -> float:
        """Return the value that a share (0 to 1) of all values do not exceed; 0 if it is empty."""
        if self.minimum is None or self.maximum is None:
            return 0.0
        wanted = share * self.total
        running = 0
        for bucket in sorted(self.counts):
            running += self.counts[bucket]
            if running >= wanted:
                return min(max(value_of(bucket), float(self.minimum)), float(self.maximum))
        return float(self.maximum)

    def summary(self) -> dict[str, float]:
        """Return minimum, percentiles and maximum, in microseconds."""
        values = {name: self.percentile(share) for name, share in PERCENTILES.items()}
        return {"min": float(self.minimum or 0), **values, "max": float(self.maximum or 0)}

    def to_json(self) -> dict[str, Any]:
        """Encode for the parent process."""
        counts = [[bucket, count] for bucket, count in self.counts.items()]
        return {"counts": counts, "minimum": self.minimum, "maximum": self.maximum}

    @staticmethod
    def from_json(
        counts: Iterable[tuple[int, int]], minimum: int | None, maximum: int | None
    ) -> "LatencyHistogram":
        """Decode what `to_json` encoded."""
        made = LatencyHistogram()
        made.counts = {bucket: count for bucket, count in counts}  # noqa: C416 - pairs are lists
        made.total = sum(made.counts.values())
        made.minimum, made.maximum = minimum, maximum
        return made

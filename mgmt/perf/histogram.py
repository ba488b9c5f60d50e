"""A histogram of times that is exact to a hundredth, and can be sent and added up. Pure.

Values are microseconds. Each power of two is divided into `STEPS` buckets, so a value is known to
1 part in `STEPS`, and the middle of its bucket is at most half of that away, from one microsecond
to days, in a few hundred counts.
"""

from collections.abc import Iterable
from typing import Any

STEPS = 64
PERCENTILES = {"median": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def bucket_of(value: int) -> int:
    """The number of the bucket that a value is in."""
    if value < STEPS:
        return max(0, value)
    shift = value.bit_length() - STEPS.bit_length()
    return (shift + 1) * STEPS + (value >> shift) - STEPS


def value_of(bucket: int) -> float:
    """The middle of a bucket."""
    if bucket < STEPS:
        return float(bucket)
    shift, step = divmod(bucket, STEPS)
    low = (step + STEPS) << (shift - 1)
    return low + ((1 << (shift - 1)) - 1) / 2


class Histogram:
    """Counts by bucket. minimum and maximum are exact; None if there is nothing."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.total = 0
        self.minimum: int | None = None
        self.maximum: int | None = None

    def add(self, value: int, count: int = 1) -> None:
        """Add a value so many times. Negative ones, of clocks that differ, count as 0."""
        value = max(0, value)
        bucket = bucket_of(value)
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.total += count
        self._widen(value)

    def merge(self, other: "Histogram") -> None:
        """Add all of another."""
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
        """The value that this share (0 to 1) of all are not above; 0 if there is nothing."""
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
        """Minimum, percentiles and maximum, in microseconds."""
        values = {name: self.percentile(share) for name, share in PERCENTILES.items()}
        return {"min": float(self.minimum or 0), **values, "max": float(self.maximum or 0)}

    def to_json(self) -> dict[str, Any]:
        """To be sent."""
        counts = [[bucket, count] for bucket, count in self.counts.items()]
        return {"counts": counts, "minimum": self.minimum, "maximum": self.maximum}

    @staticmethod
    def from_json(
        counts: Iterable[tuple[int, int]], minimum: int | None, maximum: int | None
    ) -> "Histogram":
        """What was sent."""
        made = Histogram()
        made.counts = {bucket: count for bucket, count in counts}  # noqa: C416 - pairs are lists
        made.total = sum(made.counts.values())
        made.minimum, made.maximum = minimum, maximum
        return made

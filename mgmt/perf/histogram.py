"""A histogram of times, a few percent exact at any size, that can be sent and added up. Pure.

Values are microseconds. Each power of two is divided into `STEPS` buckets, so a value is known to
1 part in `STEPS`, from one microsecond to days, in a few hundred counts.
"""

from collections.abc import Iterable

STEPS = 64


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
        """Add a value so many times."""
        value = max(0, value)
        bucket = bucket_of(value)
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.total += count
        if self.minimum is None or value < self.minimum:
            self.minimum = value
        if self.maximum is None or value > self.maximum:
            self.maximum = value

    def merge(self, other: "Histogram") -> None:
        """Add all of another."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.total += other.total
        for value in (other.minimum, other.maximum):
            if value is not None:
                self.minimum = value if self.minimum is None else min(self.minimum, value)
                self.maximum = value if self.maximum is None else max(self.maximum, value)

    def percentile(self, share: float) -> float:
        """The value below which this share (0 to 1) of all are; 0 if there is nothing."""
        if not self.total:
            return 0.0
        wanted = share * self.total
        running = 0
        for bucket in sorted(self.counts):
            running += self.counts[bucket]
            if running >= wanted:
                return min(value_of(bucket), float(self.maximum or 0))
        return float(self.maximum or 0)

    def to_json(self) -> dict[str, object]:
        """To be sent."""
        return {
            "counts": [[bucket, count] for bucket, count in self.counts.items()],
            "minimum": self.minimum, "maximum": self.maximum,
        }  # fmt: skip

    @staticmethod
    def from_json(
        counts: Iterable[Iterable[int]], minimum: int | None, maximum: int | None
    ) -> "Histogram":
        """What was sent."""
        made = Histogram()
        made.counts = {bucket: count for bucket, count in counts}  # noqa: C416 - pairs are lists
        made.total = sum(made.counts.values())
        made.minimum, made.maximum = minimum, maximum
        return made

    def summary(self) -> dict[str, float]:
        """Minimum, percentiles and maximum, in microseconds."""
        return {
            "min": float(self.minimum or 0), "median": self.percentile(0.5),
            "p75": self.percentile(0.75), "p95": self.percentile(0.95),
            "p99": self.percentile(0.99), "p999": self.percentile(0.999),
            "max": float(self.maximum or 0),
        }  # fmt: skip

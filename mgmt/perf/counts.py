"""Counts and latencies of a part of a run, which can be added up. Pure."""

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from leveret.mgmt.perf.histogram import LatencyHistogram

NUMBERS = ("sent", "confirmed", "nacked", "returned", "received")


@dataclass
class PerfCounts:
    """Numbers of messages, and their latencies.

    latency: from producer to consumer; confirm_latency: of confirms; both in microseconds. sent_at,
    received_at: time of the last such message, monotonic clock; 0 if there was none. cpu_s:
    processor time of the workers, in seconds.
    """

    sent: int = 0
    confirmed: int = 0
    nacked: int = 0
    returned: int = 0
    received: int = 0
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    confirm_latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    sent_at: float = 0.0
    received_at: float = 0.0
    cpu_s: float = 0.0

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing was counted."""
        return not any(getattr(self, name) for name in NUMBERS)

    def add(self, other: "PerfCounts") -> None:
        """Add the counts of another interval or worker."""
        for name in NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.latency.merge(other.latency)
        self.confirm_latency.merge(other.confirm_latency)
        self.sent_at = max(self.sent_at, other.sent_at)
        self.received_at = max(self.received_at, other.received_at)
        self.cpu_s += other.cpu_s

    def to_json(self) -> dict[str, Any]:
        """Encode for the parent process."""
        histograms = {"latency": self.latency, "confirm_latency": self.confirm_latency}
        return asdict(self) | {name: one.to_json() for name, one in histograms.items()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Decode what `to_json` encoded."""
        histograms = {
            name: LatencyHistogram.from_json(**content[name])
            for name in ("latency", "confirm_latency")
        }
        return cls(**(content | histograms))

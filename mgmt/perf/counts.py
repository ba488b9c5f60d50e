"""What was counted and timed over some stretch of a run, and adding that up. Pure."""

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from mgmt.perf.histogram import Histogram

NUMBERS = ("sent", "confirmed", "nacked", "returned", "received")


@dataclass
class Counts:
    """Numbers of messages, and how long they took.

    latency: of messages from producer to consumer; confirm_latency: of confirms. Microseconds.
    sent_at, received_at: when the last of these was, on the monotonic clock; 0 if there was none.
    cpu_s: seconds of processor time that the workers needed.
    """

    sent: int = 0
    confirmed: int = 0
    nacked: int = 0
    returned: int = 0
    received: int = 0
    latency: Histogram = field(default_factory=Histogram)
    confirm_latency: Histogram = field(default_factory=Histogram)
    sent_at: float = 0.0
    received_at: float = 0.0
    cpu_s: float = 0.0

    @property
    def is_empty(self) -> bool:
        """Nothing happened."""
        return not any(getattr(self, name) for name in NUMBERS)

    def add(self, other: "Counts") -> None:
        """Add another stretch, or what another worker did."""
        for name in NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.latency.merge(other.latency)
        self.confirm_latency.merge(other.confirm_latency)
        self.sent_at = max(self.sent_at, other.sent_at)
        self.received_at = max(self.received_at, other.received_at)
        self.cpu_s += other.cpu_s

    def to_json(self) -> dict[str, Any]:
        """To be sent."""
        histograms = {"latency": self.latency, "confirm_latency": self.confirm_latency}
        return asdict(self) | {name: one.to_json() for name, one in histograms.items()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """What was sent."""
        histograms = {
            name: Histogram.from_json(**content[name]) for name in ("latency", "confirm_latency")
        }
        return cls(**(content | histograms))

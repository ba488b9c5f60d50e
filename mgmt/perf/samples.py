"""The results of an interval, and of a whole run. Pure."""

from dataclasses import dataclass
from typing import Any

from leveret.mgmt.perf.counts import NUMBERS, PerfCounts
from leveret.mgmt.perf.histogram import LatencyHistogram


@dataclass(frozen=True)
class Sample:
    """The results of an interval. elapsed_s: from the start of the run to its end. seconds: its
    length.
    """

    elapsed_s: float
    seconds: float
    counts: PerfCounts

    def rate(self, name: str) -> float:
        """Return messages per second."""
        return float(getattr(self.counts, name)) / max(self.seconds, 1e-9)

    def to_json(self) -> dict[str, Any]:
        """Return counts, rates, and latencies in microseconds."""
        rates = {name: round(self.rate(name), 1) for name in NUMBERS}
        return {"time": round(self.elapsed_s, 3), **_counts(self.counts, self.seconds, rates)}


@dataclass(frozen=True)
class Summary:
    """The results of a run.

    seconds: its duration; sending_s, receiving_s: the time in which messages were sent and
    received, which is the base of their rates.
    """

    counts: PerfCounts
    sending_s: float
    receiving_s: float
    seconds: float

    def rate(self, name: str) -> float:
        """Return messages per second."""
        seconds = self.receiving_s if name == "received" else self.sending_s
        return float(getattr(self.counts, name)) / seconds

    @property
    def cpu_share(self) -> float:
        """Return how many processors the workers used; too low for runs below a second."""
        return self.counts.cpu_s / max(self.sending_s, self.receiving_s, 1.0)

    def to_json(self) -> dict[str, Any]:
        """Return counts, rates, and latencies in microseconds."""
        rates = {name: round(self.rate(name), 1) for name in NUMBERS}
        return {
            **_counts(self.counts, self.seconds, rates),
            "sending_seconds": round(self.sending_s, 3),
            "receiving_seconds": round(self.receiving_s, 3),
            "cpu_share": round(self.cpu_share, 3),
        }


def _counts(counts: PerfCounts, seconds: float, rates: dict[str, float]) -> dict[str, Any]:
    return {
        "seconds": round(seconds, 3),
        **{name: getattr(counts, name) for name in NUMBERS},
        "rates": rates,
        "latency_us": _latencies(counts.latency),
        "confirm_latency_us": _latencies(counts.confirm_latency),
        "cpu_seconds": round(counts.cpu_s, 3),
    }


def _latencies(histogram: LatencyHistogram) -> dict[str, float] | None:
    return histogram.summary() if histogram.total else None

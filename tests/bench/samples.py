"""What the benchmark has measured: samples of loads, single values, and what they should be."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from .loads import Target

MIB = 1 << 20


@dataclass(frozen=True)
class LoadSample:
    """One round of one load scenario on one broker."""

    publish_rate: float
    rate: float
    """Deliveries a second; published messages where nothing is delivered."""
    delivered: float
    """Deliveries over those due by what was published meanwhile; 0 if nothing is delivered."""
    cpu_us: float
    p50_us: float
    p95_us: float
    p99_us: float
    p999_us: float
    full_p99_us: float
    """At full speed; the other latencies are at the fixed rate."""
    peak_mib: float
    paced_rate: float
    drained: bool
    generator_cpu_us: float


@dataclass(frozen=True)
class SingleSample:
    """A single measurement: a value and its unit."""

    value: float
    unit: str


@dataclass
class Results:
    """All samples, by scenario and then by broker."""

    brokers: list[str]
    loads: dict[str, dict[str, list[LoadSample]]] = field(default_factory=dict)
    singles: dict[str, dict[str, SingleSample]] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    """Of loads."""
    limits: dict[str, float] = field(default_factory=dict)
    """The most that a single measurement may be on the first broker."""
    notes: list[str] = field(default_factory=list)


def median(samples: Sequence[LoadSample], attribute: str) -> float:
    """Return the median of a value over the rounds."""
    return statistics.median(float(getattr(sample, attribute)) for sample in samples)

"""Duration and number of measurements, and progress messages on stderr."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from .brokers import Broker

DRAIN_SECONDS = 30
"""Ends early when all is consumed; unconsumed messages would cost CPU time uncounted."""


@dataclass(frozen=True)
class Plan:
    """Duration and number of measurements."""

    program: Path
    seconds: float
    warmup: float
    rounds: int

    def common(self, broker: Broker) -> list[str]:
        """Return the options of every run of the generator."""
        limit = int(self.seconds + self.warmup) + DRAIN_SECONDS + 60
        words = [f"--seconds={self.seconds}", f"--warmup={self.warmup}", f"--limit={limit}"]
        return [*broker.address, *words, f"--drain={DRAIN_SECONDS}"]


def progress(line: str) -> None:
    """Print a progress message on stderr."""
    print(f"bench: {line}", file=sys.stderr, flush=True)

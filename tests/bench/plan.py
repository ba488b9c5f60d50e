"""How long and how often things are measured, and a word on stderr about how far that is."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from .brokers import Broker

DRAIN_SECONDS = 30
"""Ends early when all is consumed; what is left would have cost CPU time and not be counted."""


@dataclass(frozen=True)
class Plan:
    """How long and how often things are measured."""

    program: Path
    seconds: float
    warmup: float
    rounds: int

    def common(self, broker: Broker) -> list[str]:
        """The options that every run of the generator has."""
        limit = int(self.seconds + self.warmup) + DRAIN_SECONDS + 60
        words = [f"--seconds={self.seconds}", f"--warmup={self.warmup}", f"--limit={limit}"]
        return [*broker.address, *words, f"--drain={DRAIN_SECONDS}"]


def progress(line: str) -> None:
    """Says on stderr what is going on."""
    print(f"bench: {line}", file=sys.stderr, flush=True)

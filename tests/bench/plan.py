"""Duration and number of measurements, and progress messages on stderr."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .brokers import Broker

DRAIN_SECONDS = 30
"""Ends early when all is consumed; unconsumed messages would cost CPU time uncounted."""


@dataclass(frozen=True)
class Plan:
    """Duration and number of measurements."""

    program: Path
    directory: Path
    """For files that programs are given."""
    seconds: float
    warmup: float
    rounds: int

    def common(self, broker: Broker, *, tls: bool = False) -> list[str]:
        """Return the options of every run of the generator."""
        limit = int(self.seconds + self.warmup) + DRAIN_SECONDS + 60
        address = broker.tls_address if tls else broker.address
        words = [f"--seconds={self.seconds}", f"--warmup={self.warmup}", f"--limit={limit}"]
        return [*address, *words, f"--drain={DRAIN_SECONDS}"]


def progress(line: str) -> None:
    """Print a progress message on stderr."""
    print(f"bench: {line}", file=sys.stderr, flush=True)


def chosen(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a scenario's name matches one of the patterns of --only."""
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)

"""Compares the cost per message of this project's load generator with another one.

Both run alternately against the same broker under the same load. The kernel's CPU time of each
process is divided by the number of messages that it consumed. The other generator is one C file
with one-letter options: -h host, -p port, -s size, -z seconds, -W warm-up, -a auto-ack, -c window.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from . import generator
from .brokers import Broker


@dataclass(frozen=True)
class Timing:
    """Duration and number of runs."""

    seconds: float
    warmup: float
    rounds: int


@dataclass(frozen=True)
class Case:
    """One load as options of both generators."""

    title: str
    own: tuple[str, ...]
    other: tuple[str, ...]


CASES = (
    Case("16 B, auto-ack", ("--size=16", "--auto-ack"), ("-s16", "-a")),
    Case("1 KB, auto-ack", ("--size=1024", "--auto-ack"), ("-s1024", "-a")),
    Case("1 KB, confirms, ack each", ("--size=1024", "--window=1000"), ("-s1024", "-c1000")),
    Case("100 KB, auto-ack", ("--size=102400", "--auto-ack"), ("-s102400", "-a")),
)


def _cost_and_rate(outcomes: list[generator.Outcome]) -> tuple[float, float]:
    cost = statistics.median(outcome.cpu_us_per_message for outcome in outcomes)
    return cost, statistics.median(float(outcome.result["consume_rate"]) for outcome in outcomes)


def table(own: Path, other: Path, broker: Broker, timing: Timing) -> Table:
    """Run all cases and return the comparison."""
    result = Table(title=f"Load generators on {broker.name}", title_justify="left")
    result.add_column("load")
    for heading in ("own CPU µs/msg", "other's", "own / other", "own msg/s", "other's"):
        result.add_column(heading, justify="right")
    seconds, warmup = timing.seconds, timing.warmup
    own_words = [*broker.address, f"--seconds={seconds}", f"--warmup={warmup}"]
    other_words = [f"-h{broker.host}", f"-p{broker.port}", f"-z{seconds}", f"-W{warmup}"]
    for case in CASES:
        mine, its = [], []
        for _ in range(timing.rounds):
            mine.append(generator.run(own, [*own_words, *case.own]))
            its.append(generator.run(other, [*other_words, *case.other]))
        (cost, rate), (its_cost, its_rate) = _cost_and_rate(mine), _cost_and_rate(its)
        ratio = f"{cost / its_cost:.2f}"
        costs = (f"{cost:.3f}", f"{its_cost:.3f}", ratio)
        result.add_row(case.title, *costs, f"{rate:,.0f}", f"{its_rate:,.0f}")
    return result

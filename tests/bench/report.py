"""The results of a run, as tables and as JSON.

A load scenario has one row per broker and, for every broker after the first, a row of ratios: the
first broker's value over the other's, so "2.00" means twice as fast for a rate, and twice as much
for a time, a cost or memory. A number is the median of the rounds.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

MIB = 1 << 20


@dataclass(frozen=True)
class LoadSample:
    """One round of one load scenario on one broker."""

    rate: float
    cpu_us: float
    p50_us: float
    p95_us: float
    p99_us: float
    p999_us: float
    peak_mib: float
    paced_rate: float
    drained: bool


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
    notes: list[str] = field(default_factory=list)


COLUMNS = (
    ("rate", "msg/s", ",.0f"),
    ("cpu_us", "CPU µs/msg", ",.2f"),
    ("p50_us", "p50 µs", ",.0f"),
    ("p95_us", "p95 µs", ",.0f"),
    ("p99_us", "p99 µs", ",.0f"),
    ("peak_mib", "RSS MiB", ",.0f"),
)


def machine() -> dict[str, Any]:
    """Describe the machine."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "name": platform.node(),
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "uvloop": importlib.metadata.version("uvloop"),
    }


def median(samples: Sequence[LoadSample], attribute: str) -> float:
    """Return the median of a value over the rounds."""
    return statistics.median(float(getattr(sample, attribute)) for sample in samples)


def _quotient(first: float, other: float) -> str:
    return f"{first / other:.2f}" if other else "-"


def load_table(results: Results) -> Table:
    """Return the table of load scenarios."""
    table = Table(title="Load; latency at 5,000 deliveries a second", title_justify="left")
    table.add_column("scenario")
    table.add_column("broker")
    for _, heading, _ in COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for title, by_broker in results.loads.items():
        rows = {
            name: [median(samples, attribute) for attribute, _, _ in COLUMNS]
            for name, samples in by_broker.items()
        }
        first = results.brokers[0]
        for name, row in rows.items():
            cells = (format(value, column[2]) for value, column in zip(row, COLUMNS, strict=True))
            table.add_row(title if name == first else "", name, *cells)
        for name in list(rows)[1:]:
            cells = (
                _quotient(mine, its) for mine, its in zip(rows[first], rows[name], strict=True)
            )
            table.add_row("", f"{first} / {name}", *cells, style="bold")
        table.add_section()
    return table


def single_table(results: Results) -> Table:
    """Return the table of single measurements."""
    table = Table(title="Once", title_justify="left")
    table.add_column("scenario")
    for name in results.brokers:
        table.add_column(name, justify="right")
    first, *others = results.brokers
    for name in others:
        table.add_column(f"{first} / {name}", justify="right", style="bold")
    for title, by_broker in results.singles.items():
        values = [
            f"{by_broker[name].value:,.2f} {by_broker[name].unit}" if name in by_broker else "-"
            for name in results.brokers
        ]
        ratios = [
            _quotient(by_broker[first].value, by_broker[name].value)
            if {first, name} <= by_broker.keys()
            else "-"
            for name in others
        ]
        table.add_row(title, *values, *ratios)
    return table


def show(results: Results, console: Console) -> None:
    """Print all tables."""
    where = machine()
    console.print(
        f"{where['name']}: {where['cpu']}, {where['cores']} cores, Linux {where['kernel']}, "
        f"Python {where['python']}, uvloop {where['uvloop']}",
        highlight=False,
    )
    if results.singles:
        console.print(single_table(results))
    if results.loads:
        console.print(load_table(results))
    for note in results.notes:
        console.print(f"Note: {note}", highlight=False)


def write_json(results: Results, settings: dict[str, Any], target: Path) -> None:
    """Write all samples of all rounds."""
    document = {"machine": machine(), "settings": settings, **asdict(results)}
    target.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")

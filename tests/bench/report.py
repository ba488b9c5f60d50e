"""The results of a run, as tables and as JSON.

A load has one row per broker and, for every broker after the first, a row of ratios: the first
broker's value over the other's, so "2.00" means twice as fast for a rate, and twice as much for a
time, a cost or memory. A number is the median of the rounds. The ratio to RabbitMQ is followed by
what the load's target says of it (verdicts.py).
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .samples import Results, median
from .verdicts import RABBITMQ, limit_verdict, verdict

COLUMNS = (
    ("publish_rate", "published/s", ",.0f"),
    ("rate", "msg/s", ",.0f"),
    ("delivered", "deliv.", ".0%"),
    ("cpu_us", "CPU µs", ",.2f"),
    ("p50_us", "p50 µs", ",.0f"),
    ("p95_us", "p95 µs", ",.0f"),
    ("p99_us", "p99 µs", ",.0f"),
    ("full_p99_us", "full p99", ",.0f"),
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


def _quotient(first: float, other: float) -> str:
    return f"{first / other:.2f}" if other else "-"


def load_table(results: Results) -> Table:
    """Return the table of load scenarios."""
    title = "Loads; latency at 5,000 deliveries a second, or the rate of the row"
    table = Table(title=title, title_justify="left")
    table.add_column("load")
    table.add_column("broker", no_wrap=True)
    for _, heading, _ in COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for title in results.loads:
        _add_load(table, results, title)
        table.add_section()
    return table


def _add_load(table: Table, results: Results, title: str) -> None:
    by_broker, first = results.loads[title], results.brokers[0]
    rows = {
        name: [median(samples, attribute) for attribute, _, _ in COLUMNS]
        for name, samples in by_broker.items()
    }
    for number, (name, row) in enumerate(rows.items()):
        cells = (format(value, column[2]) for value, column in zip(row, COLUMNS, strict=True))
        table.add_row("" if number else title, name, *cells)
    if first not in rows:
        return
    for name, row in rows.items():
        if name == first:
            continue
        cells = (_quotient(mine, its) for mine, its in zip(rows[first], row, strict=True))
        said = ""
        if name == RABBITMQ:
            said = verdict(results.targets[title], by_broker[first], by_broker[name]).text
        table.add_row(said, f"/ {name}", *cells, style="bold")


def single_table(results: Results) -> Table:
    """Return the table of single measurements."""
    table = Table(title="Once", title_justify="left")
    table.add_column("scenario")
    measured = {name for by_broker in results.singles.values() for name in by_broker}
    first, *others = [*results.brokers, *sorted(measured - {*results.brokers})]
    for name in (first, *others):
        table.add_column(name, justify="right")
    table.add_column("at most", justify="right")
    for name in others:
        table.add_column(f"{first} / {name}", justify="right", style="bold")
    for title, by_broker in results.singles.items():
        values = [
            f"{by_broker[name].value:,.2f} {by_broker[name].unit}" if name in by_broker else "-"
            for name in (first, *others)
        ]
        ratios = [
            _quotient(by_broker[first].value, by_broker[name].value)
            if {first, name} <= by_broker.keys()
            else "-"
            for name in others
        ]
        said = limit_verdict(results.limits.get(title), by_broker.get(first))
        table.add_row(title, *values, said, *ratios)
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

"""The options of the benchmark."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from . import brokers
from .brokers import Source


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.run", description="Compare brokers."
    )
    parser.add_argument("--quick", action="store_true", help="one short round, fewer queues")
    parser.add_argument("--seconds", type=float, help="length of one measurement (4; quick: 2)")
    parser.add_argument(
        "--rounds", type=int, help="rounds of which the median counts (3; quick: 1)"
    )
    parser.add_argument(
        "--only", nargs="+", default=["*"], metavar="PATTERN", help="rows by name; --list has them"
    )
    parser.add_argument("--list", action="store_true", help="print the rows' names, and end")
    parser.add_argument("--without-rabbitmq", action="store_true", help="this broker alone")
    parser.add_argument(
        "--without-bound", action="store_true", help="do not measure the relay (relay.c)"
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="TREE",
        help="measure the Leveret of another source tree, with its .venv, as well",
    )
    parser.add_argument(
        "--leveret-command",
        type=shlex.split,
        default=[],
        metavar="COMMAND",
        help="what serves this broker; --bind, --port and so on are put behind it",
    )
    parser.add_argument(
        "--attach",
        action="append",
        type=brokers.attached,
        metavar="HOST:PORT:PID:NAME",
        help="measure a broker that runs already, and start none; repeatable",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a table there")
    parser.add_argument(
        "--compare-generators",
        type=Path,
        metavar="SOURCE",
        help="compare what this load generator costs with another, on the first broker",
    )
    options = parser.parse_args(arguments)
    options.sources = [Source(command=tuple(options.leveret_command))]
    if options.before:
        options.sources.append(Source("before", options.before.resolve()))
    return options

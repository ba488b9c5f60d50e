"""Measures another protocol than AMQP: a listener of each broker, one program of load, rows.

mqtt_figures.py and stomp_figures.py say what is measured. CPU is user and system time of the
broker's processes, divided by the messages that subscribers got. If BENCH_RABBITMQ_ROOT is set,
another RabbitMQ runs, too (other_rabbitmq.py).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from . import brokers, generator
from .brokers import HOST, Broker, Source, free_port
from .measure import Watch
from .other_rabbitmq import root_of_other

PAUSE_SECONDS = 0.5


class Listening(NamedTuple):
    """A protocol: the plugin that RabbitMQ needs for it, and its prefix in the configuration.

    other: runs a broker of this protocol alone on a port; None if it is not installed.
    """

    plugin: str
    prefix: str
    port: int
    source: Path
    other: Callable[[int], contextlib.AbstractContextManager[Broker]] | None = None


class Row(NamedTuple):
    """title: what is shown beside the name. words: of the program, after the port. messages: that
    subscribers should get in total.
    """

    title: str
    words: Sequence[object]
    messages: int


@dataclass(frozen=True)
class Node:
    """A broker with its port for the protocol."""

    broker: Broker
    port: int


@contextlib.contextmanager
def running(options: argparse.Namespace, protocol: Listening) -> Iterator[list[Node]]:
    """Run all brokers."""
    source = Source(tree=options.tree.resolve()) if options.tree else brokers.THIS_TREE
    with contextlib.ExitStack() as stack:
        nodes: list[Node] = []

        def settings() -> str:
            nodes.append(Node(Broker("", 0, 0), free_port(protocol.port)))
            return f"{protocol.prefix}.listeners.tcp.1 = {HOST}:{nodes[-1].port}\n"

        def run(started: contextlib.AbstractContextManager[Broker]) -> None:
            nodes[-1] = Node(stack.enter_context(started), nodes[-1].port)

        run(brokers.leveret(source, settings()))
        if not options.without_rabbitmq:
            roots = [None] if root_of_other() is None else [None, root_of_other()]
            for root in roots:
                run(brokers.rabbitmq(settings(), plugins=[protocol.plugin], root=root))
        if protocol.other is not None:
            settings()
            run(protocol.other(nodes[-1].port))
        yield nodes


def measure(node: Node, program: Path, name: str, row: Row) -> None:
    """Run one row, and print it."""
    with Watch(*node.broker.pids) as watch:
        outcome = generator.run(program, [str(node.port), *map(str, row.words)])
    result = outcome.result
    consumed = max(1, int(result["consumed"]))
    print(
        f"{name:8} {row.title} {node.broker.name:10} {consumed / result['seconds']:>10,.0f}/s   "
        f"CPU {watch.cpu_seconds * 1e6 / consumed:7.2f} us   "
        f"lost {1 - consumed / row.messages:.0%}   load: {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def main(module: str, protocol: Listening, rows: Mapping[str, Sequence[Row]]) -> None:
    """Measure, and print the figures. module: whose options these are."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{module}")
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(rows))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tree", type=Path, help="the source tree to measure")
    parser.add_argument("--without-rabbitmq", action="store_true")
    options = parser.parse_args()
    wanted = options.names or tuple(rows)
    if not set(wanted) <= set(rows):
        parser.error(f"the measurements are {' '.join(rows)}")
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as directory,
        running(options, protocol) as nodes,
    ):
        program = generator.build(protocol.source, Path(directory) / "load")
        for name in wanted:
            for row in rows[name]:
                for _ in range(options.rounds):
                    for node in nodes:
                        measure(node, program, name, row)
                        time.sleep(PAUSE_SECONDS)

"""Streams by their own protocol, beside RabbitMQ with its stream plugin.

    python -m tests.bench.stream_figures [NAME ...] [--seconds 4] [--rounds 1] [--stored 5000000]

Each broker is one node. The generator is stream_load.c, and its readers read what is published.

    small        100 B in frames of 100, at full speed
    kilobyte     1 KB in frames of 100, at full speed
    paced        100 B in frames of 10, 10,000 messages a second: latencies
    readers      ten readers from the beginning of a stream of many messages of 100 B

CPU is user and system time of the broker's processes, from the start of the run until all was read,
divided by the messages that were read. `--tree` measures the compiled build of another source tree;
`--without-rabbitmq` only that of Leveret.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import brokers, generator
from .brokers import Broker, Source, free_port
from .measure import Watch
from .samples import MIB

SOURCE = Path(__file__).with_name("stream_load.c")
PREFERRED_PORT = 5552
PLUGIN = "rabbitmq_stream"


class Node:
    """A broker with its port for streams."""

    def __init__(self, broker: Broker, port: int) -> None:
        self.broker = broker
        self.port = port

    def run(self, program: Path, *words: str) -> tuple[dict[str, float], Watch]:
        """Run the generator."""
        with Watch(*self.broker.pids) as watch:
            outcome = generator.run(program, [f"--port={self.port}", *words])
        return outcome.result, watch


@contextlib.contextmanager
def leveret(source: Source, home: Path | None = None) -> Iterator[Node]:
    """Run Leveret."""
    port = free_port(PREFERRED_PORT)
    settings = f"stream.listeners.tcp.1 = {brokers.HOST}:{port}\n"
    with brokers.leveret(source, settings, home) as broker:
        yield Node(broker, port)


@contextlib.contextmanager
def rabbitmq() -> Iterator[Node]:
    """Run RabbitMQ."""
    port = free_port(PREFERRED_PORT)
    settings = f"stream.listeners.tcp.1 = {brokers.HOST}:{port}\n"
    with brokers.rabbitmq(settings, plugins=[PLUGIN]) as broker:
        yield Node(broker, port)


def show(node: Node, what: str, value: str) -> None:
    """Print a figure."""
    load = os.getloadavg()[0]
    print(f"{what:34} {node.broker.name:10} {value}   load: {load:.1f}", flush=True)


def measure_speed(node: Node, program: Path, what: str, *words: str) -> None:
    """Publish and read at once."""
    result, watch = node.run(program, *words)
    read = max(1.0, result["consumed"])
    cpu_us = watch.cpu_seconds * 1e6 / read
    own_us = result["generator_cpu_seconds"] * 1e6 / read
    latency = result["latency_us"]
    assert isinstance(latency, dict)
    value = (
        f"confirmed {result['publish_rate']:>10,.0f}/s   read {result['consume_rate']:>10,.0f}/s   "
        f"CPU {cpu_us:6.2f} us   generator {own_us:5.2f} us   "
        f"p50/p99 {latency['p50']:,.0f}/{latency['p99']:,.0f} us   "
        f"memory {watch.peak_bytes / MIB:,.0f} MiB   drained {result['drained']}"
    )
    show(node, what, value)


def measure_small(node: Node, program: Path, options: argparse.Namespace) -> None:
    """Small messages."""
    measure_speed(node, program, "100 B", "--size=100", f"--seconds={options.seconds}")


def measure_kilobyte(node: Node, program: Path, options: argparse.Namespace) -> None:
    """Messages of 1 KB."""
    measure_speed(node, program, "1 KB", "--size=1024", f"--seconds={options.seconds}")


def measure_paced(node: Node, program: Path, options: argparse.Namespace) -> None:
    """Latencies."""
    words = ["--size=100", "--batch=10", "--rate=10000", f"--seconds={options.seconds}"]
    measure_speed(node, program, "10,000 messages a second", *words)


def measure_readers(node: Node, program: Path, options: argparse.Namespace) -> None:
    """Readers from the beginning."""
    count = options.stored
    words = ["--size=100", "--stream=stored", "--keep"]
    _, watch = node.run(program, *words, "--readers=0", f"--count={count}", "--limit=600")
    show(node, f"{count:,} are published", f"CPU {watch.cpu_seconds * 1e6 / count:6.2f} us")
    words += ["--declared", "--publishers=0", "--readers=10", f"--stored={count}", "--limit=600"]
    result, watch = node.run(program, *words)
    read = result["consumed"]
    value = f"{read / result['seconds']:,.0f}/s   CPU {watch.cpu_seconds * 1e6 / read:6.3f} us"
    show(node, "ten readers from the beginning", value)


MEASUREMENTS: dict[str, Callable[[Node, Path, argparse.Namespace], None]] = {
    "small": measure_small, "kilobyte": measure_kilobyte, "paced": measure_paced,
    "readers": measure_readers,
}  # fmt: skip


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stream_figures")
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(MEASUREMENTS))
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--stored", type=int, default=5_000_000, help="messages for readers")
    parser.add_argument("--tree", type=Path, help="the source tree to measure")
    parser.add_argument("--without-rabbitmq", action="store_true")
    options = parser.parse_args()
    if not set(options.names) <= MEASUREMENTS.keys():
        parser.error(f"the measurements are {' '.join(MEASUREMENTS)}")
    source = Source(tree=options.tree.resolve()) if options.tree else brokers.THIS_TREE
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        program = generator.build(SOURCE, Path(directory) / "stream_load")
        with contextlib.ExitStack() as stack:
            running = [stack.enter_context(leveret(source))]
            if not options.without_rabbitmq:
                running.append(stack.enter_context(rabbitmq()))
            for name in options.names or MEASUREMENTS:
                for _ in range(options.rounds):
                    for node in running:
                        MEASUREMENTS[name](node, program, options)
                        time.sleep(0.5)


if __name__ == "__main__":
    main()

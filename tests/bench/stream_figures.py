"""Streams by their own protocol, beside RabbitMQ with its stream plugin.

    python -m tests.bench.stream_figures [NAME ...] [--seconds 4] [--rounds 1] [--stored 5000000]

The generator is stream_load.c, and its readers read what is published. One node:

    small        100 B in frames of 100, at full speed
    kilobyte     1 KB in frames of 100, at full speed
    paced        100 B in frames of 10, 10,000 messages a second: latencies
    readers      ten readers from the beginning of a stream of many messages of 100 B

Three nodes, a publisher at the leader, and a reader at another member:

    three-small, three-kilobyte, three-paced    the same

Without a broker:

    disk         what the disk takes, 8 MB at a time, each synced

CPU is user and system time of the broker's processes, from the start of the run until all was read,
divided by the messages that were read. *Disk* is what they have the system write, which RabbitMQ
does not wait for. `--tree` measures the compiled build of another source tree; `--without-rabbitmq`
only that of Leveret. If BENCH_RABBITMQ_ROOT is set, another RabbitMQ runs, too (other_rabbitmq.py).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import brokers, clusters, generator
from .brokers import STREAM_PLUGIN, Broker, Source, free_port, stream_listener
from .measure import Watch
from .other_rabbitmq import root_of_other
from .samples import MIB

SOURCE = Path(__file__).with_name("stream_load.c")
PREFERRED_PORT = 5552
DISK_PIECE = b"x" * (8 * MIB)
ROUNDS = itertools.count(1)
"""A stream that is read from the beginning is one of its round."""


@dataclass(frozen=True)
class Node:
    """A broker with its ports for streams: of publishers, and of readers."""

    broker: Broker
    port: int
    reader_port: int

    def run(self, program: Path, *words: str) -> tuple[dict[str, float], Watch]:
        """Run the generator."""
        ports = [f"--port={self.port}", f"--reader-port={self.reader_port}"]
        with Watch(*self.broker.pids) as watch:
            outcome = generator.run(program, [*ports, *words])
        return outcome.result, watch


@contextlib.contextmanager
def one_node(source: Source, other: Path | None, *, is_rabbitmq: bool) -> Iterator[Node]:
    """Run a node. other: the root of another RabbitMQ."""
    port = free_port(PREFERRED_PORT)
    settings = stream_listener(port)
    started = (
        brokers.rabbitmq(settings, plugins=[STREAM_PLUGIN], root=other)
        if is_rabbitmq
        else brokers.leveret(source, settings)
    )
    with started as broker:
        yield Node(broker, port, port)


@contextlib.contextmanager
def three_nodes(source: Source, other: Path | None, *, is_rabbitmq: bool) -> Iterator[Node]:
    """Run a cluster."""
    ports = [free_port(0) for _ in range(clusters.NODES)]
    started = (
        clusters.rabbitmq(other, ports)
        if is_rabbitmq
        else clusters.leveret(source, stream_ports=ports)
    )
    with started as cluster:
        yield Node(cluster.broker, ports[0], ports[1])


def show(name: str, what: str, value: str) -> None:
    """Print a figure."""
    print(f"{what:34} {name:10} {value}   load: {os.getloadavg()[0]:.1f}", flush=True)


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
        f"disk {watch.written_bytes / read:,.0f} B   "
        f"memory {watch.peak_bytes / MIB:,.0f} MiB   drained {result['drained']}"
    )
    show(node.broker.name, what, value)


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
    words = ["--size=100", f"--stream=stored-{next(ROUNDS)}", "--keep"]
    _, watch = node.run(program, *words, "--readers=0", f"--count={count}", "--limit=600")
    cpu_us = watch.cpu_seconds * 1e6 / count
    show(node.broker.name, f"{count:,} are published", f"CPU {cpu_us:6.2f} us")
    words += ["--declared", "--publishers=0", "--readers=10", f"--stored={count}", "--limit=600"]
    result, watch = node.run(program, *words)
    read = result["consumed"]
    value = f"{read / result['seconds']:,.0f}/s   CPU {watch.cpu_seconds * 1e6 / read:6.3f} us"
    show(node.broker.name, "ten readers from the beginning", value)


Measure = Callable[[Node, Path, argparse.Namespace], None]
ONE_NODE: dict[str, Measure] = {
    "small": measure_small, "kilobyte": measure_kilobyte, "paced": measure_paced,
    "readers": measure_readers,
}  # fmt: skip
THREE_NODES: dict[str, Measure] = {
    "three-small": measure_small, "three-kilobyte": measure_kilobyte, "three-paced": measure_paced,
}  # fmt: skip
DISK = "disk"
NAMES = (*ONE_NODE, *THREE_NODES, DISK)


def measure_disk(seconds: float) -> None:
    """Write and sync, without a broker."""
    written, began = 0, time.monotonic()
    with tempfile.TemporaryFile() as file:
        while (elapsed := time.monotonic() - began) < seconds:
            written += file.write(DISK_PIECE)
            file.flush()
            os.fdatasync(file.fileno())
    show("", "written and synced", f"{written / elapsed / 1e6:,.0f} MB/s")


def run(measurements: dict[str, Measure], program: Path, options: argparse.Namespace) -> None:
    """Run all brokers, and measure them in turn."""
    if not measurements:
        return
    nodes = one_node if measurements.keys() <= ONE_NODE.keys() else three_nodes
    source = Source(tree=options.tree.resolve()) if options.tree else brokers.THIS_TREE
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(nodes(source, None, is_rabbitmq=False))]
        if not options.without_rabbitmq:
            other = root_of_other()
            for root in (None,) if other is None else (None, other):
                running.append(stack.enter_context(nodes(source, root, is_rabbitmq=True)))
        for measure in measurements.values():
            for _ in range(options.rounds):
                for node in running:
                    measure(node, program, options)
                    time.sleep(0.5)


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stream_figures")
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(NAMES))
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--stored", type=int, default=5_000_000, help="messages for readers")
    parser.add_argument("--tree", type=Path, help="the source tree to measure")
    parser.add_argument("--without-rabbitmq", action="store_true")
    options = parser.parse_args()
    wanted = options.names or NAMES
    if not set(wanted) <= set(NAMES):
        parser.error(f"the measurements are {' '.join(NAMES)}")
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        program = generator.build(SOURCE, Path(directory) / "stream_load")
        for measurements in (ONE_NODE, THREE_NODES):
            chosen = {name: measurements[name] for name in measurements if name in wanted}
            run(chosen, program, options)
    if DISK in wanted:
        measure_disk(options.seconds)


if __name__ == "__main__":
    main()

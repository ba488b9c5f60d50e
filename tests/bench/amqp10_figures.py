"""AMQP 1.0 beside RabbitMQ.

    python -m tests.bench.amqp10_figures [NAME ...] [--seconds 4] [--rounds 1] [--tree TREE]

The generator is amqp10_load.c, one thread for all clients. Messages have 512 to 1,535 bytes, a
content type, a unique message id, a time and four application properties; a publisher has 1,000
that are not settled, a consumer a credit of 1,000, and it settles 50 at a time. The queue is
durable and classic.

    amqp10-transient    one publisher, one consumer; messages that are not durable
    amqp10-durable      the same, durable messages
    amqp10-four         four publishers, consumers and queues
    amqp10-each         durable messages, which the consumer settles one by one
    amqp10-from-091     AMQP 0-9-1 publishes, with confirms
    amqp10-to-091       AMQP 0-9-1 consumes
    amqp10-paced        2,000 messages a second: for latencies

RabbitMQ runs if BENCH_RABBITMQ_ROOT names one of version 4 (other_rabbitmq.py): before that, it has
AMQP 1.0 in a plugin, with other addresses. Leveret runs with `compat = 4.0`. CPU is user and system
time of the broker's processes, divided by the messages that consumers got.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from . import brokers, generator
from .brokers import Broker, Source
from .measure import Watch
from .other_rabbitmq import root_of_other
from .samples import MIB

SOURCE = Path(__file__).with_name("amqp10_load.c")
ROWS: dict[str, tuple[str, ...]] = {
    "amqp10-transient": ("--transient",),
    "amqp10-durable": (),
    "amqp10-four": ("--publishers=4", "--consumers=4", "--queues=4"),
    "amqp10-each": ("--settle-every=1",),
    "amqp10-from-091": ("--publish-091",),
    "amqp10-to-091": ("--consume-091",),
    "amqp10-paced": ("--rate=2000", "--settle-every=1"),
}


@contextlib.contextmanager
def running(options: argparse.Namespace) -> Iterator[list[Broker]]:
    """Run all brokers."""
    source = Source(tree=options.tree.resolve()) if options.tree else brokers.THIS_TREE
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(brokers.leveret(source, "compat = 4.0\n"))]
        root = root_of_other()
        if root is not None:
            started.append(stack.enter_context(brokers.rabbitmq("", root=root)))
        yield started


def measure(broker: Broker, program: Path, name: str, seconds: float) -> None:
    """Run one row, and print it."""
    words = [f"--port={broker.port}", f"--seconds={seconds}", *ROWS[name]]
    with Watch(*broker.pids) as watch:
        result = generator.run(program, words).result
    consumed = max(1, int(result["consumed"]))
    latency = result["latency_us"]
    print(
        f"{name:17} {broker.name:10} {result['consume_rate']:>9,.0f}/s   "
        f"CPU {watch.cpu_seconds * 1e6 / consumed:7.2f} us   "
        f"generator {result['generator_cpu_seconds'] * 1e6 / consumed:5.2f} us   "
        f"p50/p99 {latency['p50']:,.0f}/{latency['p99']:,.0f} us   "
        f"memory {watch.peak_bytes / MIB:,.0f} MiB   drained {result['drained']}   "
        f"load: {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.amqp10_figures")
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(ROWS))
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tree", type=Path, help="the source tree to measure")
    options = parser.parse_args()
    wanted = options.names or tuple(ROWS)
    if not set(wanted) <= set(ROWS):
        parser.error(f"the measurements are {' '.join(ROWS)}")
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, running(options) as started:
        program = generator.build(SOURCE, Path(directory) / "amqp10_load")
        for name in wanted:
            for _ in range(options.rounds):
                for broker in started:
                    measure(broker, program, name, options.seconds)
                    time.sleep(0.5)


if __name__ == "__main__":
    main()

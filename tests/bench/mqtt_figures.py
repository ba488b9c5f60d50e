"""MQTT 3.1.1 beside RabbitMQ and mosquitto.

    python -m tests.bench.mqtt_figures [NAME ...] [--rounds 1] [--tree TREE] [--without-rabbitmq]

The generator is mqtt_load.c, one thread for all clients. Messages have 256 bytes; with QoS 1 a
publisher has 200 that are not acknowledged. Each row is measured with QoS 0 and with QoS 1:

    one        one publisher, one subscriber
    fan-out    one publisher, 1,000 subscribers
    fan-in     1,000 publishers, one subscriber

CPU is user and system time of the broker's processes, divided by the messages that subscribers got.
Mosquitto, which is written in C and stores nothing, runs if it is installed. If BENCH_RABBITMQ_ROOT
is set, another RabbitMQ runs, too (other_rabbitmq.py).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from . import brokers, generator
from .brokers import HOST, Broker, BrokerFailed, Source, free_port
from .measure import Watch
from .other_rabbitmq import root_of_other

SOURCE = Path(__file__).with_name("mqtt_load.c")
PLUGIN = "rabbitmq_mqtt"
MOSQUITTO = """
listener {port} 127.0.0.1
allow_anonymous true
max_queued_messages 1000000
"""
PREFERRED_PORT = 1883
PAYLOAD_BYTES = 256
WINDOW = 200


class Shape(NamedTuple):
    """How many clients there are, and how many messages each publisher publishes."""

    publishers: int
    subscribers: int
    messages: int


SHAPES = {
    "one": Shape(1, 1, 200_000),
    "fan-out": Shape(1, 1_000, 500),
    "fan-in": Shape(1_000, 1, 200),
}


@dataclass(frozen=True)
class Node:
    """A broker with its port for MQTT."""

    broker: Broker
    port: int


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port)).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def mosquitto(port: int) -> Iterator[Broker]:
    """Run mosquitto."""
    with tempfile.TemporaryDirectory(prefix="bench-mosquitto-") as directory:
        config = Path(directory) / "mosquitto.conf"
        config.write_text(MOSQUITTO.format(port=port))
        command = ["mosquitto", "-c", str(config)]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
            while not _accepts(port):
                if process.poll() is not None:
                    raise BrokerFailed("mosquitto did not start")
                time.sleep(0.05)
            yield Broker("mosquitto", port, process.pid)
            process.terminate()


@contextlib.contextmanager
def running(options: argparse.Namespace) -> Iterator[list[Node]]:
    """Run all brokers."""
    source = Source(tree=options.tree.resolve()) if options.tree else brokers.THIS_TREE
    with contextlib.ExitStack() as stack:
        nodes: list[Node] = []

        def settings() -> str:
            nodes.append(Node(Broker("", 0, 0), free_port(PREFERRED_PORT)))
            return f"mqtt.listeners.tcp.1 = {HOST}:{nodes[-1].port}\n"

        def run(started: contextlib.AbstractContextManager[Broker]) -> None:
            nodes[-1] = Node(stack.enter_context(started), nodes[-1].port)

        run(brokers.leveret(source, settings()))
        if not options.without_rabbitmq:
            roots = [None] if root_of_other() is None else [None, root_of_other()]
            for root in roots:
                run(brokers.rabbitmq(settings(), plugins=[PLUGIN], root=root))
        if shutil.which("mosquitto"):
            settings()
            run(mosquitto(nodes[-1].port))
        yield nodes


def measure(node: Node, program: Path, name: str, shape: Shape, qos: int) -> None:
    """Run one row, and print it."""
    words = [node.port, *shape, PAYLOAD_BYTES, qos, WINDOW]
    with Watch(*node.broker.pids) as watch:
        outcome = generator.run(program, list(map(str, words)))
    result = outcome.result
    consumed = max(1, int(result["consumed"]))
    wanted = shape.publishers * shape.subscribers * shape.messages
    print(
        f"{name:8} QoS {qos} {node.broker.name:10} {consumed / result['seconds']:>10,.0f}/s   "
        f"CPU {watch.cpu_seconds * 1e6 / consumed:7.2f} us   lost {1 - consumed / wanted:.0%}   "
        f"load: {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.mqtt_figures")
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(SHAPES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tree", type=Path, help="the source tree to measure")
    parser.add_argument("--without-rabbitmq", action="store_true")
    options = parser.parse_args()
    wanted = options.names or tuple(SHAPES)
    if not set(wanted) <= set(SHAPES):
        parser.error(f"the measurements are {' '.join(SHAPES)}")
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, running(options) as nodes:
        program = generator.build(SOURCE, Path(directory) / "mqtt_load")
        for name in wanted:
            for qos in (0, 1):
                for _ in range(options.rounds):
                    for node in nodes:
                        measure(node, program, name, SHAPES[name], qos)
                        time.sleep(0.5)


if __name__ == "__main__":
    main()

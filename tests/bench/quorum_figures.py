"""What replicated quorum queues do beside full speed: many queues, nodes that die, long queues.

    python -m tests.bench.quorum_figures [NAME ...] [--queues 1000] [--messages 1000000]

Each measurement has three fresh nodes. Without names all are made:

    many         queues that are idle; their leader is killed; it starts again with messages in them
    leader       the leader of one queue is killed, again and again, while a client of another node
                 publishes 200 messages a second
    suspended    the same for a leader that is suspended
    majority     all nodes are killed and start again, one after the other
    backlog      memory of each member of a queue with unread messages; a node comes back to it
                 while a client publishes
    converted    a classic queue becomes a quorum queue while clients of another node publish 200
                 messages a second: without messages, with 20,000, and with all
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from leveret.mgmt.ctl.client import Client

from . import clusters, generator
from .brokers import HOST
from .clusters import Cluster, Node
from .measure import cpu_seconds, exact_resident_bytes, tree
from .neighbours import Generator
from .synchronising import p99_ms

ARGUMENTS = {"x-queue-type": "quorum"}
CLASSIC = {"x-queue-type": "classic"}
IDLE_SECONDS = 10
SETTLE_SECONDS = 3
WAIT_SECONDS = 300
POLL_SECONDS = 0.02
PROBE_RATE = 200
CATCH_UP_RATE = 50_000
MIB = 1024 * 1024
SIZE = 1024


def until(happened: Callable[[], object], what: str) -> None:
    """Wait for something. Raises GeneratorFailed."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise generator.GeneratorFailed(f"{what} took more than {WAIT_SECONDS} s")
        time.sleep(POLL_SECONDS)


def show(what: str, value: str, target: str) -> None:
    """Print a figure and what it is to be."""
    print(f"{what:70} {value:>24}   target: {target}", flush=True)


def channel_to(node: Node) -> BlockingChannel:
    """A channel with confirms."""
    parameters = pika.ConnectionParameters(HOST, node.port, heartbeat=0)
    channel = pika.BlockingConnection(parameters).channel()
    channel.confirm_delivery()
    return channel


def declare(node: Node, names: list[str], arguments: dict[str, str] = ARGUMENTS) -> None:
    """Declare queues that a node leads, by default quorum queues."""
    channel = channel_to(node)
    for name in names:
        channel.queue_declare(name, durable=True, arguments=arguments)
    channel.connection.close()


def send(node: Node, number: int) -> None:
    """Send a signal to a node's process."""
    assert node.process is not None
    os.kill(node.process.pid, number)


def kill(node: Node) -> None:
    """Kill a node."""
    send(node, signal.SIGKILL)
    assert node.process is not None
    node.process.wait()
    node.process = None


def start(node: Node) -> None:
    """Start a node, and wait until it answers."""
    node.start()
    node.await_start()


def shown(node: Node, queue: str) -> dict[str, Any]:
    """A queue as a node shows it."""
    client = Client(data_dir=node.home / "data", url="", username="", password="", timeout=60)
    found: dict[str, Any] = client.get("queues", "/", queue)
    return found


def leader_of(cluster: Cluster, asked: Node, queue: str) -> Node:
    """The node that leads a queue."""
    names: list[str] = []

    def is_known() -> bool:
        names[:] = [shown(asked, queue).get("leader") or ""]
        return bool(names[0])

    until(is_known, f"the election for {queue}")
    number = int(names[0].removeprefix("bench").partition("@")[0])
    return cluster.nodes[number]


def publish_to_each(node: Node, names: list[str]) -> float:
    """Publish a message to each queue; returns the seconds until all are confirmed."""
    since = time.monotonic()
    channel = channel_to(node)
    for name in names:
        channel.basic_publish("", name, b"one", mandatory=True)
    channel.connection.close()
    return time.monotonic() - since


def fill(program: Path, node: Node, names: list[str], count: int) -> None:
    """Publish messages of 1 KB to queues in turn, with confirms."""
    with tempfile.NamedTemporaryFile() as addresses:
        addresses.write("".join(f"\t{name}\n" for name in names).encode())
        addresses.flush()
        words = [f"--host={HOST}", f"--port={node.port}", f"--count={count}", "--consumers=0"]
        words += [f"--size={SIZE}", "--window=1000", "--durable", "--declared", "--limit=900"]
        words += [f"--addresses={addresses.name}", "--copies=0"]
        generator.run(program, words)


def measure_many(program: Path, cluster: Cluster, options: argparse.Namespace) -> None:
    """Idle queues, the death of their leader, and its return."""
    names = [f"many-{number}" for number in range(options.queues)]
    first, second, third = cluster.nodes
    declare(first, names)
    time.sleep(SETTLE_SECONDS)
    pids = [tree(node.process.pid) for node in cluster.nodes if node.process is not None]
    before = [cpu_seconds(one) for one in pids]
    time.sleep(IDLE_SECONDS)
    used = [cpu_seconds(one) - spent for one, spent in zip(pids, before, strict=True)]
    shares = " ".join(f"{one / IDLE_SECONDS:.1%}" for one in used)
    show(f"{options.queues:,} idle queues: cores of each node", shares, "1%")
    fill(program, first, names, options.messages)
    kill(first)
    show("their leader is killed: a message to each is confirmed after",
         f"{publish_to_each(second, names):.2f} s", "2 s")  # fmt: skip
    since = time.monotonic()
    start(first)
    ready = time.monotonic() - since
    kill(third)
    publish_to_each(second, names)
    caught_up = time.monotonic() - since
    show(f"it starts with {options.messages:,} messages in them: ready", f"{ready:.1f} s", "5 s")
    show("and has caught up, so that the third node may die", f"{caught_up:.1f} s", "20 s")


def longest_waits(
    cluster: Cluster, rounds: int, fail: Callable[[Node], None], mend: Callable[[Node], None]
) -> list[float]:
    """The longest time that a confirm took while a leader failed, for each round, in seconds."""
    waits = []
    declare(cluster.nodes[0], ["led"])
    for number in range(rounds):
        leader = leader_of(cluster, cluster.nodes[number % 3], "led")
        other = next(node for node in cluster.nodes if node is not leader)
        words = ["--port", str(other.port), "--queue", "led", "--durable"]
        command = [sys.executable, "-m", "tests.bench.confirm_probe", *words]
        probe = Generator([*command, "--rate", str(PROBE_RATE)], is_first=True)
        try:
            time.sleep(SETTLE_SECONDS)
            failed_at = time.time()
            fail(leader)
            time.sleep(SETTLE_SECONDS + 2)
        finally:
            probe.stop()
        samples = probe.result["samples"]
        waits.append(max(wait for due, wait in samples if due > failed_at - 1) / 1e6)
        mend(leader)
        time.sleep(SETTLE_SECONDS)
    return waits


def measure_leader(program: Path, cluster: Cluster, options: argparse.Namespace) -> None:
    """A leader that is killed."""
    waits = longest_waits(cluster, options.rounds, kill, start)
    value = f"{statistics.median(waits):.3f}, at most {max(waits):.3f} s"
    show(f"a leader is killed: publishing goes on (median of {len(waits)})", value, "0.2 s")


def measure_suspended(program: Path, cluster: Cluster, options: argparse.Namespace) -> None:
    """A leader that is suspended."""
    waits = longest_waits(
        cluster, max(1, options.rounds // 4), lambda node: send(node, signal.SIGSTOP),
        lambda node: send(node, signal.SIGCONT),
    )  # fmt: skip
    show("a leader is suspended: publishing goes on", f"{max(waits):.2f} s", "3 s")


def measure_majority(program: Path, cluster: Cluster, options: argparse.Namespace) -> None:
    """All nodes are killed, and start again."""
    names = [f"majority-{number}" for number in range(100)]
    declare(cluster.nodes[0], names)
    publish_to_each(cluster.nodes[1], names)
    for number in range(3):
        for node in cluster.nodes:
            send(node, signal.SIGKILL)
        for node in cluster.nodes:
            kill(node)
        first, second, third = cluster.nodes[number:] + cluster.nodes[:number]
        first.start()
        second.start()
        first.await_start()
        second.await_start()
        since = time.monotonic()
        publish_to_each(second, names)
        show("all nodes are killed: two of three have leaders after their start in",
             f"{time.monotonic() - since:.2f} s", "always")  # fmt: skip
        start(third)
        publish_to_each(third, names)


def measure_backlog(program: Path, cluster: Cluster, options: argparse.Namespace) -> None:
    """Memory of a long queue, and a member that comes back to it."""
    first, second, third = cluster.nodes
    declare(first, ["long"])
    fill(program, first, ["long"], 1000)
    pids = [tree(node.process.pid) for node in cluster.nodes if node.process is not None]
    before = [exact_resident_bytes(one) for one in pids]
    fill(program, first, ["long"], options.messages)
    memory = [exact_resident_bytes(one) for one in pids]
    grown = " ".join(f"{now / MIB:.0f}" for now in memory)
    show(f"{options.messages:,} unread messages of 1 KB: MiB of each node", grown, "250")
    show("of which before", " ".join(f"{one / MIB:.0f}" for one in before), "")
    _measure_confirms(program, cluster, options.messages)
    kill(third)
    fill(program, first, ["long"], options.messages)
    start(third)
    since = time.monotonic()
    kill(second)
    publish_to_each(first, ["long"])
    rate = options.messages / (time.monotonic() - since)
    show(f"a node was away for {options.messages:,} messages: catches up at", f"{rate:,.0f}/s",
         "50,000/s")  # fmt: skip


def _measure_confirms(program: Path, cluster: Cluster, count: int) -> None:
    """The p99 of confirms while a node that was away catches up."""
    first, _, third = cluster.nodes
    kill(third)
    fill(program, first, ["long"], count)
    words = ["--port", str(first.port), "--queue", "long", "--durable"]
    probe = Generator([sys.executable, "-m", "tests.bench.confirm_probe", *words], is_first=True)
    try:
        time.sleep(SETTLE_SECONDS * 2)
        third.start()
        since = time.time()
        third.await_start()
        started = time.time()
        time.sleep(count / CATCH_UP_RATE)
    finally:
        probe.stop()
    samples = probe.result["samples"]
    quiet = p99_ms(samples, (since - SETTLE_SECONDS, since))
    busy = p99_ms(samples, (started, started + count / CATCH_UP_RATE))
    show("p99 of confirms before and meanwhile", f"{quiet:.1f}, {busy:.1f} ms", "twice")


def measure_converted(program: Path, cluster: Cluster, options: argparse.Namespace) -> None:
    """The longest wait for a confirm while a queue is converted."""
    first, second, _ = cluster.nodes
    client = Client(data_dir=first.home / "data", url="", username="", password="", timeout=600)
    for count in (0, 20_000, options.messages):
        name = f"converted-{count}"
        declare(first, [name], CLASSIC)
        if count:
            fill(program, first, [name], count)
        words = ["--port", str(second.port), "--queue", name, "--durable"]
        command = [sys.executable, "-m", "tests.bench.confirm_probe", *words]
        probe = Generator([*command, "--rate", str(PROBE_RATE)], is_first=True)
        try:
            time.sleep(SETTLE_SECONDS)
            since = time.time()
            client.post("queues", "/", name, "actions", body={"action": "convert", "to": "quorum"})
            took = time.time() - since
            time.sleep(SETTLE_SECONDS)
        finally:
            probe.stop()
        longest = max(wait for due, wait in probe.result["samples"] if due > since - 1) / 1e6
        show(f"{count:,} messages are converted in {took:.1f} s: longest wait for a confirm",
             f"{longest:.3f} s", "1 s")  # fmt: skip


MEASUREMENTS = {
    "many": measure_many, "leader": measure_leader, "suspended": measure_suspended,
    "majority": measure_majority, "backlog": measure_backlog,
    "converted": measure_converted,
}  # fmt: skip


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.quorum_figures")
    parser.add_argument("names", nargs="*", choices=[*MEASUREMENTS], help="what to measure")
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20, help="leaders that are killed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        program = generator.build(generator.SOURCE, Path(directory) / "load")
        for name in options.names or MEASUREMENTS:
            with clusters.leveret() as cluster:
                time.sleep(SETTLE_SECONDS)
                MEASUREMENTS[name](program, cluster, options)


if __name__ == "__main__":
    main()

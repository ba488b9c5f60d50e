"""What replicated quorum queues do beside full speed: many queues, nodes that die, long queues.

    python -m tests.bench.quorum_figures [NAME ...] [--queues 1000] [--messages 1000000]

Each measurement has three fresh nodes. Without names all are made:

    backlog      memory of each member of a queue with unread messages; a node comes back to it
                 while a client publishes
    many         queues that are idle; their leader is killed; it starts again with messages in them
    majority     all nodes are killed, and two of them start again, in a cluster in which minorities
                 pause: in others, the two wait for the third, which may have continued to run
    leader       the leader of one queue is killed, again and again, while a client of another node
                 publishes 200 messages a second
    suspended    the same for a leader that is suspended
    converted    a classic queue becomes a quorum queue and then a classic one again, and a mirrored
                 queue a quorum queue, while clients of another node publish 200 messages a second:
                 without messages, with 20,000, and with all

A figure has the load of the machine with it, and the longest turns of the nodes' event loops.
`--tree` measures the compiled build of another source tree.
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

from . import clusters, generator
from .brokers import THIS_TREE, Source
from .clusters import Cluster, Node
from .failing_nodes import (
    Turns,
    client_of,
    declare,
    fill,
    kill,
    lag_of,
    leader_of,
    processor_seconds,
    publish_to_each,
    send,
    start,
)
from .measure import exact_resident_bytes, tree
from .neighbours import Generator
from .synchronising import p99_ms

CLASSIC = {"x-queue-type": "classic"}
IDLE_SECONDS = 10
SETTLE_SECONDS = 3
PROBE_RATE = 200
LAG_MAX = 100
"""Entries that a member lacks while a client publishes, although it has caught up."""
ASK_SECONDS = 0.2
"""How often the leader is asked for the lag: an answer takes as long as some publishes."""
MIB = 1024 * 1024


def show(what: str, value: str, target: str = "") -> None:
    """Print a figure and what it is to be."""
    print(f"{what:70} {value:>24}   target: {target:10} load: {os.getloadavg()[0]:.1f}", flush=True)


def show_turns(turns: Turns) -> None:
    """Print the longest turns since they were printed last."""
    for number, longest in enumerate(turns.longest()):
        if longest:
            print(f"    longest turn of node {number}: {longest}", flush=True)


def used_since(nodes: list[Node], before: list[float]) -> str:
    """The processor time that each node has used since, as text."""
    now = processor_seconds(nodes)
    return " ".join(f"{after - spent:.1f}" for after, spent in zip(now, before, strict=True))


def measure_many(program: Path, cluster: Cluster, options: argparse.Namespace) -> None:
    """Idle queues, the death of their leader, and its return."""
    names = [f"many-{number}" for number in range(options.queues)]
    first, second, third = cluster.nodes
    turns = Turns(cluster.nodes)
    declare(first, names)
    time.sleep(SETTLE_SECONDS)
    show_turns(turns)
    before = processor_seconds(cluster.nodes)
    time.sleep(IDLE_SECONDS)
    used = [
        now - spent for now, spent in zip(processor_seconds(cluster.nodes), before, strict=True)
    ]
    shares = " ".join(f"{one / IDLE_SECONDS:.1%}" for one in used)
    show(f"{options.queues:,} idle queues: cores of each node", shares, "1%")
    rate = fill(program, first, names, options.messages)
    show(f"{options.messages:,} messages are published to them", f"{rate:,.0f}/s")
    show_turns(turns)
    before = processor_seconds([second, third])
    kill(first)
    show("their leader is killed: a message to each is confirmed after",
         f"{publish_to_each(program, second, names):.2f} s", "2 s")  # fmt: skip
    show("processor time of the two others", f"{used_since([second, third], before)} s")
    show_turns(turns)
    since = time.monotonic()
    start(first)
    ready = time.monotonic() - since
    used_first = processor_seconds([first])[0]
    show(f"it starts with {options.messages:,} messages in them: ready", f"{ready:.1f} s", "5 s")
    show("processor time of the start", f"{used_first:.1f} s")
    kill(third)
    publish_to_each(program, second, names)
    caught_up = time.monotonic() - since
    show("and has caught up, so that the third node may die", f"{caught_up:.1f} s", "20 s")
    show_turns(turns)


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


PAUSES = "cluster_partition_handling = pause_minority\n"


def measure_majority(program: Path, cluster: Cluster, options: argparse.Namespace) -> None:
    """All nodes are killed, and a majority starts again."""
    names = [f"majority-{number}" for number in range(100)]
    declare(cluster.nodes[0], names)
    publish_to_each(program, cluster.nodes[1], names)
    for number in range(3):
        for node in cluster.nodes:
            send(node, signal.SIGKILL)
        for node in cluster.nodes:
            kill(node)
        first, second, third = cluster.nodes[number:] + cluster.nodes[:number]
        since = time.monotonic()
        first.start()
        second.start()
        first.await_start()
        second.await_start()
        started = time.monotonic() - since
        publish_to_each(program, second, names)
        took = time.monotonic() - since
        show(f"all nodes are killed: two of three are ready in {started:.1f} s, with leaders in",
             f"{took:.1f} s", "always")  # fmt: skip
        start(third)
        publish_to_each(program, third, names)


def measure_backlog(program: Path, cluster: Cluster, options: argparse.Namespace) -> None:
    """Memory of a long queue, and a member that comes back to it."""
    nodes, count = cluster.nodes, options.messages
    turns = Turns(nodes)
    declare(nodes[0], ["long"])
    fill(program, nodes[0], ["long"], 1000)
    pids = [tree(node.process.pid) for node in nodes if node.process is not None]
    before = [exact_resident_bytes(one) for one in pids]
    rate = fill(program, nodes[0], ["long"], count)
    grown = " ".join(f"{exact_resident_bytes(one) / MIB:.0f}" for one in pids)
    show(f"{count:,} unread messages of 1 KB: MiB of each node", grown, "250")
    show("of which before", " ".join(f"{one / MIB:.0f}" for one in before))
    show("they are published at", f"{rate:,.0f}/s")
    show_turns(turns)
    _measure_return(program, cluster, count, turns)
    kill(nodes[2])
    fill(program, nodes[0], ["long"], count)
    start(nodes[2])
    since = time.monotonic()
    kill(nodes[1])
    publish_to_each(program, nodes[0], ["long"])
    seconds = time.monotonic() - since
    show("the same without a client: it catches up at", f"{count / seconds:,.0f}/s", "50,000/s")
    show_turns(turns)


def _measure_return(program: Path, cluster: Cluster, count: int, turns: Turns) -> None:
    """A node that was away catches up while a client publishes."""
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
        while (lag_of(first, "long", 2) or count) >= LAG_MAX:
            time.sleep(ASK_SECONDS)
        ended = time.time()
    finally:
        probe.stop()
    samples = probe.result["samples"]
    quiet = p99_ms(samples, (since - SETTLE_SECONDS, since))
    busy = p99_ms(samples, (started, ended))
    rate = count / (ended - started)
    show(f"a node was away for {count:,} messages: catches up at", f"{rate:,.0f}/s", "50,000/s")
    show("p99 of 1,000 confirms a second before and meanwhile", f"{quiet:.1f}, {busy:.1f} ms",
         "twice")  # fmt: skip
    show_turns(turns)


def measure_converted(program: Path, cluster: Cluster, options: argparse.Namespace) -> None:
    """The longest wait for a confirm while a queue is converted."""
    first, second, _ = cluster.nodes
    policy = {"pattern": "^mirrored", "definition": {"ha-mode": "all"}, "apply-to": "queues"}
    client_of(first).put("policies", "/", "mirrors", body=policy)
    for count in (0, 20_000, options.messages):
        for before, kinds in (("classic", ("quorum", "classic")), ("mirrored", ("quorum",))):
            name = f"{before}-{count}"
            declare(first, [name], CLASSIC)
            if count:
                fill(program, first, [name], count)
            for kind in kinds:
                took, longest = _wait_while_converted(first, second, name, kind)
                what = f"{name} becomes {kind} in {took:.1f} s"
                show(f"{what}: longest wait for a confirm", f"{longest:.3f} s", "1 s")


def _wait_while_converted(node: Node, other: Node, queue: str, kind: str) -> tuple[float, float]:
    """The duration of a conversion, and the longest time that a confirm took, in seconds."""
    words = ["--port", str(other.port), "--queue", queue, "--durable"]
    command = [sys.executable, "-m", "tests.bench.confirm_probe", *words]
    probe = Generator([*command, "--rate", str(PROBE_RATE)], is_first=True)
    try:
        time.sleep(SETTLE_SECONDS)
        since = time.time()
        asked = {"action": "convert", "to": kind}
        client_of(node).post("queues", "/", queue, "actions", body=asked)
        took = time.time() - since
        time.sleep(SETTLE_SECONDS)
    finally:
        probe.stop()
    return took, max(wait for due, wait in probe.result["samples"] if due > since - 1) / 1e6


MEASUREMENTS = {
    "backlog": measure_backlog, "many": measure_many, "majority": measure_majority,
    "leader": measure_leader, "suspended": measure_suspended,
    "converted": measure_converted,
}  # fmt: skip


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.quorum_figures")
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(MEASUREMENTS))
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20, help="leaders that are killed")
    parser.add_argument("--tree", type=Path, help="the source tree to measure")
    options = parser.parse_args()
    if not set(options.names) <= MEASUREMENTS.keys():
        parser.error(f"the measurements are {' '.join(MEASUREMENTS)}")
    source = Source(tree=options.tree.resolve()) if options.tree else THIS_TREE
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        program = generator.build(generator.SOURCE, Path(directory) / "load")
        for name in options.names or MEASUREMENTS:
            settings = PAUSES if name == "majority" else ""
            with clusters.leveret(source, settings) as cluster:
                time.sleep(SETTLE_SECONDS)
                MEASUREMENTS[name](program, cluster, options)


if __name__ == "__main__":
    main()

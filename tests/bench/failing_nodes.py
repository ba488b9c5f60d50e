"""Kills, suspends and starts the nodes of a cluster, and waits for their quorum queues.

`Turns` gathers what the logs of nodes say about long turns of the event loop. A turn is counted by
its processor time, but while other programs use the processors a node may count several short turns
as a long one (broker/runtime/loop_watch.py).
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika

from leveret.mgmt.ctl.client import NodeClient

from . import generator
from .brokers import HOST, OUTPUT
from .clusters import Cluster, Node
from .measure import cpu_seconds, tree
from .properties import encoded

ARGUMENTS = {"x-queue-type": "quorum"}
WAIT_SECONDS = 300
POLL_SECONDS = 0.02
SIZE_MIN, SIZE_VARIES = 512, 1024
IN_A_ROW = 100
"""How many messages a queue gets before the next one, if several queues are filled."""
LONG_TURN = re.compile(r"turns of the event loop took more than .* them (\d+) ms, for (.*)")


def until(happened: Callable[[], object], what: str) -> None:
    """Wait for something. Raises GeneratorFailed."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise generator.GeneratorFailed(f"{what} took more than {WAIT_SECONDS} s")
        time.sleep(POLL_SECONDS)


def declare(node: Node, names: list[str], arguments: dict[str, str] = ARGUMENTS) -> None:
    """Declare queues that a node leads, by default quorum queues."""
    parameters = pika.ConnectionParameters(HOST, node.port, heartbeat=0)
    channel = pika.BlockingConnection(parameters).channel()
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


def client_of(node: Node) -> NodeClient:
    """A client of the node's management."""
    return NodeClient(
        data_dir=node.home / "data", url="", username="", password="", timeout=WAIT_SECONDS
    )


def shown(node: Node, queue: str) -> dict[str, Any]:
    """A queue as a node shows it."""
    found: dict[str, Any] = client_of(node).get("queues", "/", queue)
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


def lag_of(asked: Node, queue: str, number: int) -> int | None:
    """The entries that the member on a node lacks; None if the asked node does not know."""
    for member in shown(asked, queue)["raft"]["members"]:
        if member["node"].startswith(f"bench{number}@") and member["lag"]:
            lag: int = member["lag"]["entries"]
            return lag
    return None


def publish_to_each(program: Path, node: Node, names: list[str]) -> float:
    """Publish a message to each queue at once; returns the seconds until all are confirmed."""
    return _publish(program, node, names, len(names))


def fill(program: Path, node: Node, names: list[str], count: int) -> float:
    """Publish messages of about 1 KB, all different, to queues in turn, with confirms.

    Returns how many were confirmed in a second.
    """
    in_a_row = IN_A_ROW if len(names) > 1 else 1
    return count / _publish(program, node, [name for name in names for _ in range(in_a_row)], count)


def _publish(program: Path, node: Node, keys: list[str], count: int) -> float:
    """Publish messages with these keys in turn; returns the seconds until all are confirmed."""
    with tempfile.NamedTemporaryFile() as addresses, tempfile.NamedTemporaryFile() as properties:
        addresses.write("".join([f"\t{key}\n" for key in keys]).encode())
        addresses.flush()
        properties.write(encoded("varied", True))
        properties.flush()
        words = [f"--host={HOST}", f"--port={node.port}", f"--count={count}", "--consumers=0"]
        words += [f"--size={SIZE_MIN}", f"--vary={SIZE_VARIES}", "--window=1000", "--durable"]
        words += ["--declared", f"--limit={WAIT_SECONDS}", "--copies=0"]
        words += [f"--addresses={addresses.name}", f"--properties={properties.name}"]
        since = time.monotonic()
        generator.run(program, words)
        return time.monotonic() - since


def processor_seconds(nodes: list[Node]) -> list[float]:
    """The processor time of each node so far."""
    return [cpu_seconds(tree(node.process.pid)) for node in nodes if node.process is not None]


class Turns:
    """The long turns that nodes have logged since this was made, or since the last `longest`."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._read = [0 for _ in nodes]
        self.longest()

    def longest(self) -> list[str]:
        """The longest turn of each node in milliseconds, and its cause; "" if none was long."""
        found = []
        for place, node in enumerate(self._nodes):
            text = (node.home / OUTPUT).read_text(errors="replace")
            if len(text) < self._read[place]:
                self._read[place] = 0  # The node has started again.
            turns = LONG_TURN.findall(text, self._read[place])
            self._read[place] = len(text)
            longest = max(turns, key=lambda turn: int(turn[0]), default=None)
            found.append("" if longest is None else f"{longest[0]} ms, {longest[1]}")
        return found

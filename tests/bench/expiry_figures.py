"""What messages that expire cost, beside messages that do not: instructions, or processor time.

    python -m tests.bench.expiry_figures [--messages 100000] [--instructions]

A client without a socket publishes messages to one queue, with confirms, and consumes them with
acks. Each has a size and an id of its own. The broker's clock is moved: as many milliseconds pass
as messages at a rate of 50,000 a second take. What is measured: messages that are published and
consumed; those that are consumed a minute later; and those that all expire.

Instructions are those of callgrind, of all threads, outside the kernel. The command starts itself
with valgrind, and has it count while messages are published, consumed or expire. Without that, it
measures the processor time of the process, which a busy machine changes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import typer
from pamqp import commands

from leveret.broker.config import Config, TcpSettings
from leveret.broker.node.broker import Broker
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.node.lone_node import LoneNode
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.protocol.raw_client import publish_bytes
from tests.protocol.socketless import READ_BYTES, Client

QUEUE = "expiring"
FORMS = 2048
"""As many messages, which differ, are published again and again."""
RATE = 50_000
UP_S = 100_000
"""How long the node has been running: times have as many digits as usual."""
WAIT_S = 60
STEP_S = 0.1
PREFETCH = 1000
FIRST_MS, LAST_MS = 1000, 3_600_000
CALLGRIND = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet")
INSIDE = "EXPIRY_FIGURES_INSIDE"
"""The variable that is set when valgrind runs the command."""


@dataclass(frozen=True)
class Case:
    """Messages, and the arguments of their queue. ttl_ms: of message n; None if it has none."""

    name: str
    expiration: str
    arguments: dict[str, Any]

    def ttl_ms(self, random: Random, last_ms: int) -> int | None:
        """The expiration of a message."""
        if self.expiration == "own":
            return random.randrange(min(FIRST_MS, last_ms), last_ms + 1)
        return 60_000 if self.expiration == "same" else None


ON_TIME = {"x-expire-on-time": ("t", True)}
TTL = {"x-message-ttl": ("I", 60_000)}
CASES = [
    Case("none", "", {}),
    Case("none, on time", "", ON_TIME),
    Case("one time, at the head", "same", {}),
    Case("one time, on time", "same", ON_TIME),
    Case("own times, at the head", "own", {}),
    Case("own times, on time", "own", ON_TIME),
    Case("the queue's, at the head", "", TTL),
    Case("the queue's, on time", "", {**TTL, **ON_TIME}),
]


class Meter:
    """Processor time, in seconds."""

    unit = "us"

    def __init__(self) -> None:
        self.taken = 0.0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what happens within."""
        begin = time.process_time()
        yield
        self.taken = (time.process_time() - begin) * 1e6


class InstructionMeter(Meter):
    """Instructions, which valgrind counts for this process."""

    unit = "instructions"

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what happens within."""
        self._tell("instrumentation on")
        self._tell("zero")
        yield
        self._tell("dump")
        self._tell("instrumentation off")
        dump = max(self._directory.glob("counted.*"), key=lambda path: path.stat().st_mtime_ns)
        totals = re.findall(r"^(?:summary|totals): (\d+)", dump.read_text(), re.MULTILINE)
        self.taken = max(map(float, totals))

    def _tell(self, command: str) -> None:
        with subprocess.Popen(
            ["vgdb", f"--pid={os.getpid()}", *command.split()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as told:
            # Valgrind takes a command between two system calls of this process.
            while told.poll() is None:
                time.sleep(0.001)


class Node:
    """A node with its files in a directory, whose clock is moved."""

    def __init__(self, directory: Path) -> None:
        self.clock = VirtualClock()
        config = Config(tcp=TcpSettings(listeners=()))
        self.broker = Broker(
            config, SqliteMetadata(directory / "metadata.sqlite"), clock=self.clock,
            data_dir=directory, clustering=LoneNode(config, directory),
        )  # fmt: skip

    @property
    def queue(self) -> Any:
        """The queue."""
        return self.broker.services.vhosts["/"].queues[QUEUE]


async def call(client: Client, method: type, **arguments: Any) -> None:
    """Call a method, and wait until it is done."""
    client.send_method(method, **arguments)
    while not client.is_done or client.waits:
        client.be_read()
        await asyncio.sleep(0.001)
    client.socket.written.clear()


async def published(node: Node, client: Client, reads: list[bytes], count: int) -> None:
    """Publish messages, in reads as a socket has them, and wait for the confirms."""
    queue = node.queue
    before = last = queue.counts.published
    for data in reads:
        client.connection.data_received(data)
        await asyncio.sleep(0)
        while not (client.is_done and client.socket.is_read):
            await asyncio.sleep(0)
        node.clock.advance((queue.counts.published - last) / RATE)
        last = queue.counts.published
        client.socket.written.clear()
    assert last == before + count, "not all were published"
    while client.channel.confirms.unconfirmed_count:
        await asyncio.sleep(0.001)
    client.socket.written.clear()


async def consumed(node: Node, client: Client) -> None:
    """Have the queue deliver what it has, and acknowledge that."""
    queue = node.queue
    client.send_method(commands.Basic.Qos, prefetch_size=0, prefetch_count=PREFETCH)
    client.send_method(commands.Basic.Consume, queue=QUEUE, consumer_tag="c")
    acked = queue.counts.delivered
    first = acked
    while queue.backing.ready_count or queue.backing.unacked_count:
        client.be_read()
        await asyncio.sleep(0)
        delivered = queue.counts.delivered
        if delivered > acked:
            tag = delivered - first
            client.send_method(commands.Basic.Ack, delivery_tag=tag, multiple=True)
            node.clock.advance((delivered - acked) / RATE)
            acked = delivered
        client.socket.written.clear()


async def passed(node: Node, seconds: float, step_s: float) -> None:
    """Let time pass."""
    for _ in range(int(seconds / step_s)):
        node.clock.advance(step_s)
        await asyncio.sleep(0)
    while node.broker.services.turns.waiting:
        await asyncio.sleep(0)


def reads_of(case: Case, count: int, last_ms: int, is_persistent: bool) -> list[bytes]:
    """The frames of as many messages, as they are read."""
    random = Random(1)
    frames = []
    for number in range(min(FORMS, count)):
        properties: dict[str, Any] = {
            "content_type": "application/json",
            "headers": {"source": ("S", f"service-{number % 20}"), "attempt": ("I", number)},
            "delivery_mode": 2 if is_persistent else 1,
            "message_id": f"{number:032x}",
            "timestamp": 1_763_760_000 + number,
        }
        ttl_ms = case.ttl_ms(random, last_ms)
        if ttl_ms is not None:
            properties["expiration"] = str(ttl_ms)
        frames.append(publish_bytes(1, QUEUE, bytes(512 + number % 1024), **properties))
    data = b"".join(frames[number % len(frames)] for number in range(count))
    return [data[at : at + READ_BYTES] for at in range(0, len(data), READ_BYTES)]


async def measured(case: Case, count: int, meter: Meter, is_persistent: bool, way: str) -> float:
    """What one message takes. way: `kept`, `later` or `expired`."""
    span_ms = LAST_MS if way != "expired" else LAST_MS * count // 1_000_000
    reads = reads_of(case, count, span_ms, is_persistent)
    with tempfile.TemporaryDirectory(dir=storage()) as name:
        node = Node(Path(name))
        node.clock.advance(UP_S)
        await node.broker.start()
        client, consumer = Client(node.broker), Client(node.broker)
        await call(
            client, commands.Queue.Declare, queue=QUEUE, durable=True,
            arguments=case.arguments,
        )  # fmt: skip
        await call(client, commands.Confirm.Select)
        # The first messages find routes, and make the parts of the queue.
        await published(node, client, reads_of(case, 64, span_ms, is_persistent), 64)
        await consumed(node, consumer)
        await call(consumer, commands.Basic.Cancel, consumer_tag="c")
        with meter.counting():
            await published(node, client, reads, count)
            if way == "later":
                await passed(node, WAIT_S, STEP_S)
            if way == "expired":
                await passed(node, max(span_ms, 61_000) / 1000 + 1, STEP_S)
                assert not node.queue.backing.ready_count, "not all have expired"
            else:
                consumer = Client(node.broker)
                await consumed(node, consumer)
        for connection in tuple(node.broker.connections):
            connection.connection_lost(None)
        await node.broker.stop()
    return meter.taken / count


def storage() -> str:
    """A directory in memory."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()


def again_with_valgrind(directory: str) -> int:
    """Run this command with valgrind."""
    file = f"--callgrind-out-file={directory}/counted"
    words = [*CALLGRIND, file, sys.executable, "-m", "tests.bench.expiry_figures", *sys.argv[1:]]
    return subprocess.run(words, env={**os.environ, INSIDE: directory}, check=False).returncode


def main(
    messages: int = 100_000,
    instructions: bool = False,
    persistent: bool = False,
    only: list[str] | None = None,
    ways: str = "kept,later,expired",
    keep: Path | None = None,
) -> None:
    """Print what a message takes, and its ratio to one that does not expire.

    only: the numbers of the cases. keep: the directory for the profiles.
    """
    directory = os.environ.get(INSIDE)
    if instructions and directory is None:
        if keep is not None:
            raise SystemExit(again_with_valgrind(str(keep)))
        with tempfile.TemporaryDirectory() as made:
            raise SystemExit(again_with_valgrind(made))
    logging.disable()
    meter = InstructionMeter(Path(directory)) if directory else Meter()
    build = "interpreted" if hasattr(ClassicQueue.publish, "__code__") else "compiled"
    what = "persistent" if persistent else "transient"
    print(f"{messages:,} {what} messages, {build}: {meter.unit} a message", flush=True)
    chosen = [case for number, case in enumerate(CASES) if not only or str(number) in only]
    # The first run makes what later ones find.
    asyncio.run(measured(CASES[0], min(messages, FORMS), Meter(), persistent, "kept"))
    first = 0.0
    for way in ways.split(","):
        for case in chosen:
            if way == "expired" and not case.expiration and "x-message-ttl" not in case.arguments:
                continue
            taken = asyncio.run(measured(case, messages, meter, persistent, way))
            first = first or taken
            print(f"{way:8} {case.name:26} {taken:9.2f} {taken / first:6.2f}", flush=True)


if __name__ == "__main__":
    typer.run(main)

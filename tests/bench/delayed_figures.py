"""What a million messages cost that wait at an exchange of the type x-delayed-message.

    python -m tests.bench.delayed_figures [--messages 1000000] [--kinds classic,quorum]

For each kind of queue in which they wait, a node of its own gets them with confirms, one message a
publish, with delays between one and 24 hours, in no order. Then they are listed, sent now and
cancelled, and the node is killed and starts again. Shown are the time of each request, the
processor time of the node, its resident memory, and its longest turn of the event loop since it
started.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.cluster.managed_nodes import ManagedNode
from tests.protocol.raw_client import publish_bytes

HOUR_MS = 3_600_000
WINDOW = 2000
"""Messages without a confirm."""
BODY = bytes(100)
WHERE = "exchanges/%2F/later"
MARKED_DELAY, MARKED_ID, MARKED_CUSTOMER = 0x71727374, "id-00000000", "cu-00000"


class Figures:
    """The figures of one node."""

    def __init__(self, node: ManagedNode) -> None:
        self._node = node

    @property
    def _process(self) -> Path:
        return Path("/proc", str(self._node.process.pid))

    def processor_seconds(self) -> float:
        """The processor time of the node so far."""
        fields = (self._process / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self) -> float:
        """Its memory."""
        lines = (self._process / "status").read_text().splitlines()
        (line,) = [one for one in lines if one.startswith("VmRSS")]
        return int(line.split()[1]) / 1024

    def longest_ms(self) -> float:
        """The longest turn of its event loop."""
        lines = [one for one in self._node.metrics() if "longest" in one and one[0] != "#"]
        return float(lines[0].split()[-1]) * 1000 if lines else -1.0

    def show(self, what: str, work: Callable[[], Any]) -> Any:
        """Do something, and print what it took."""
        used, began = self.processor_seconds(), time.perf_counter()
        done = work()
        seconds, used = time.perf_counter() - began, self.processor_seconds() - used
        print(
            f"  {what:34} {seconds:8.2f} s  processor {used:7.2f} s  memory "
            f"{self.resident_mib():6.0f} MiB  longest turn {self.longest_ms():6.0f} ms",
            flush=True,
        )
        return done


def template() -> list[bytes]:
    """The frames of a message, cut at its delay, its id and its customer."""
    headers = {"x-delay": ("I", MARKED_DELAY), "customer": ("S", MARKED_CUSTOMER)}
    made = publish_bytes(
        1, "k", BODY, "later", headers=headers, message_id=MARKED_ID, delivery_mode=2
    )
    pieces = []
    marks = (struct.pack(">i", MARKED_DELAY), MARKED_CUSTOMER.encode(), MARKED_ID.encode())
    for mark in marks:
        before, found, made = made.partition(mark)
        assert found, "the order of the fields has changed"
        pieces.append(before)
    return [*pieces, made]


def publish(node: ManagedNode, kind: str, count: int) -> None:
    """Publish messages with confirms, without waiting for each."""
    connection = node.connect()
    channel = connection.channel()
    arguments = {"x-delayed-type": "fanout", "x-delayed-queue-type": kind}
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "later")
    channel.confirm_delivery()
    plain: socket.socket = connection._impl._transport._sock
    plain.setblocking(True)
    random, pieces = Random(1), template()
    confirmed, buffer = 0, b""
    for start in range(0, count, WINDOW):
        end = min(count, start + WINDOW)
        frames = []
        for number in range(start, end):
            delay = struct.pack(">i", random.randrange(HOUR_MS, 24 * HOUR_MS))
            values = (delay, b"cu-%05d" % (number % 100_000), b"id-%08d" % number)
            frames += [part for pair in zip(pieces, values, strict=False) for part in pair]
            frames.append(pieces[-1])
        plain.sendall(b"".join(frames))
        while confirmed < end:
            buffer += plain.recv(1 << 16)
            while len(buffer) >= 21:
                assert buffer[7:11] == b"\0\x3c\0\x50", "a message is not confirmed"
                tag = int.from_bytes(buffer[11:19])
                confirmed = tag if buffer[19] else confirmed + 1
                buffer = buffer[21:]
    plain.close()


def wait_until_released(node: ManagedNode) -> None:
    """Wait until a queue gets no more messages."""
    counts = [-1]
    with node.connect() as connection:
        channel = connection.channel()
        while len(counts) < 3 or counts[-1] != counts[-3]:
            counts.append(channel.queue_declare("q", passive=True).method.message_count)
            time.sleep(0.5)
    print("   ", counts[-1], "messages")


def measure(kind: str, count: int, directory: Path) -> None:
    """Measure one kind."""
    node = ManagedNode(directory, kind)
    figures = Figures(node)
    print(f"{kind}: {count:,} messages, {figures.resident_mib():.0f} MiB without", flush=True)

    def ask(act: str, body: dict[str, Any]) -> None:
        print("   ", node.post(f"{WHERE}/delayed/{act}", body).body)

    def use() -> None:
        figures.show("list the first 100", lambda: node.get(f"{WHERE}/delayed"))
        figures.show("list the first 1000", lambda: node.get(f"{WHERE}/delayed?count=1000"))
        figures.show("find one by id", lambda: node.get(f"{WHERE}/delayed?message_id=id-00000077"))

    try:
        figures.show("publish", lambda: publish(node, kind, count))
        use()
        last = f"id-{count - 1:08d}"
        figures.show("send one now by id", lambda: ask("send", {"message_ids": [last]}))
        figures.show("cancel one by id", lambda: ask("cancel", {"message_ids": ["id-00000001"]}))
        chosen = {"header": ["customer:^cu-00002$"]}
        figures.show("cancel some by header", lambda: ask("cancel", chosen))
        used = figures.processor_seconds()
        time.sleep(5)
        print(f"  idle: {(figures.processor_seconds() - used) / 5:.1%} of a processor", flush=True)
        node.process.send_signal(signal.SIGKILL)
        node.process.wait()
        began = time.perf_counter()
        node.start()
        print(f"  ready after {time.perf_counter() - began:.1f} s", flush=True)
        node.wait_to_see(f"{WHERE}/delayed?count=0", lambda shown: shown["messages"] > 0)
        figures.show("after the start", use)
        half = {"header": ["customer:[02468]$"]}
        figures.show("send half of them now by header", lambda: ask("send", half))
        figures.show("all of these are in their queue", lambda: wait_until_released(node))
        figures.show("cancel all", lambda: ask("cancel", {"all": True}))
    finally:
        node.process.send_signal(signal.SIGKILL)
        node.process.wait()


def main() -> None:
    """Measure each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--kinds", default="classic,quorum")
    options = parser.parse_args()
    for kind in options.kinds.split(","):
        with tempfile.TemporaryDirectory() as directory:
            measure(kind, options.messages, Path(directory))


if __name__ == "__main__":
    main()

"""Publishes to one queue at a steady rate with confirms, and measures how long each one takes.

A process of its own: `python -m tests.bench.confirm_probe --port 5672 --queue name`. A message is
due at its own time, and its wait begins then, whether the broker takes it at once or not. SIGTERM
ends it: it awaits the confirms that are missing, and prints a sample for each message, which is the
time when it was due, by the system's clock, and the wait in microseconds.
"""

from __future__ import annotations

import argparse
import gc
import json
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass, field

import pika

from .brokers import HOST
from .properties import MARK, encoded

RATE = 1000
SIZES = range(512, 1537)
READ_BYTES = WRITE_BYTES = 65_536
DRAIN_SECONDS = 120
"""RabbitMQ confirms nothing while it synchronises a queue."""
METHOD, HEADER, BODY, END = 1, 2, 3, 0xCE
HEAD_BYTES, FRAME_BYTES = 7, 8
BASIC_ACK = b"\0\x3c\0\x50"
NOTICES = b"\0\x0a\0\x3c", b"\0\x0a\0\x3d"
"""connection.blocked and connection.unblocked."""


def frame(kind: int, payload: bytes) -> bytes:
    """Return a frame of the first channel."""
    return bytes((kind, 0, 1)) + len(payload).to_bytes(4, "big") + payload + bytes((END,))


def property_sets(is_durable: bool) -> list[bytes]:
    """Return the encoded properties that messages have in turn."""
    rest, found = encoded("varied", is_durable), []
    while rest:
        size = 2 + int.from_bytes(rest[:2], "big")
        found.append(rest[2:size])
        rest = rest[size:]
    return found


@dataclass
class Probe:
    """What was published, and what of it is confirmed. Message n has the delivery tag n + 1."""

    queue: str
    is_durable: bool
    due: list[float] = field(default_factory=list)
    """When each message is to be published; seconds of `time.perf_counter`."""
    waits: dict[int, float] = field(default_factory=dict)
    """Seconds until each delivery tag was confirmed."""
    oldest: int = 1
    """The lowest delivery tag that is not confirmed."""
    _input: bytes = b""

    def __post_init__(self) -> None:
        name = self.queue.encode()
        self._method = b"\0\x3c\0\x28\0\0\0" + bytes((len(name),)) + name + b"\0"
        self._properties = property_sets(self.is_durable)

    def publish(self, due: float) -> bytes:
        """Return the frames of the next message, which has a size and an id of its own."""
        number = len(self.due)
        self.due.append(due)
        size = SIZES[number * 389 % len(SIZES)]
        properties = self._properties[number % len(self._properties)]
        mark = b"%0*x" % (len(MARK), number)
        header = b"\0\x3c\0\0" + size.to_bytes(8, "big") + properties.replace(MARK.encode(), mark)
        return frame(METHOD, self._method) + frame(HEADER, header) + frame(BODY, bytes(size))

    def take(self, octets: bytes, now: float) -> None:
        """Take what the broker has sent."""
        self._input += octets
        at = 0
        while len(self._input) - at >= HEAD_BYTES:
            size = int.from_bytes(self._input[at + 3 : at + HEAD_BYTES], "big")
            if len(self._input) - at < size + FRAME_BYTES:
                break
            self._take_method(self._input[at + HEAD_BYTES : at + HEAD_BYTES + size], now)
            at += size + FRAME_BYTES
        self._input = self._input[at:]

    def _take_method(self, payload: bytes, now: float) -> None:
        if payload[:4] in NOTICES:
            return
        if payload[:4] != BASIC_ACK:
            sys.exit(f"confirm_probe: the broker sent {payload!r}")
        tag, is_multiple = int.from_bytes(payload[4:12], "big"), payload[12] & 1
        for one in range(self.oldest, tag + 1) if is_multiple else (tag,):
            self.waits.setdefault(one, now - self.due[one - 1])
        while self.oldest in self.waits:
            self.oldest += 1

    @property
    def is_confirmed(self) -> bool:
        """Whether nothing is missing."""
        return len(self.waits) == len(self.due)

    def samples(self, offset: float) -> list[tuple[float, float]]:
        """Return what is printed. offset: of the system's clock to `time.perf_counter`."""
        return [(self.due[tag - 1] + offset, wait * 1e6) for tag, wait in self.waits.items()]


class Stop:
    """Whether SIGTERM has been received."""

    def __init__(self) -> None:
        self.has_come = False
        signal.signal(signal.SIGTERM, self._come)

    def _come(self, number: int, where: object) -> None:
        self.has_come = True


def run(probe: Probe, plain: socket.socket, rate: float, stop: Stop) -> None:
    """Publish until SIGTERM, and await the confirms."""
    started_at = time.perf_counter()
    output = bytearray()  # a broker that takes nothing for seconds leaves megabytes in it
    until = float("inf")
    while not (stop.has_come and probe.is_confirmed):
        now = time.perf_counter()
        if stop.has_come:
            until = min(until, now + DRAIN_SECONDS)
            if now > until:
                sys.exit(f"confirm_probe: {len(probe.due) - len(probe.waits)} confirms are missing")
        while not stop.has_come and (due := started_at + len(probe.due) / rate) <= now:
            output += probe.publish(due)
        pause = 0.05 if stop.has_come else max(0.0, due - time.perf_counter())
        readable, writable, _ = select.select([plain], [plain] if output else [], [], pause)
        if writable:
            del output[: plain.send(output[:WRITE_BYTES])]
        if readable:
            octets = plain.recv(READ_BYTES)
            if not octets:
                sys.exit("confirm_probe: the broker closed the connection")
            probe.take(octets, time.perf_counter())


def main() -> None:
    """Run the probe."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.confirm_probe")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--durable", action="store_true", help="persistent messages")
    options = parser.parse_args()
    stop = Stop()
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, options.port, heartbeat=0))
    connection.channel().confirm_delivery()
    plain: socket.socket = connection._impl._transport._sock
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    gc.disable()
    offset = time.time() - time.perf_counter()
    probe = Probe(options.queue, options.durable)
    run(probe, plain, options.rate, stop)
    print(json.dumps({"samples": probe.samples(offset)}))


if __name__ == "__main__":
    main()

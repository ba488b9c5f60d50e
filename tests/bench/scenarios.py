"""The scenarios: one declaration each.

A `Load` runs twice per round on each broker, first at full speed, for the rate, the CPU time per
message and the memory, and then at a fixed rate, for the latencies. `Idle` and `Declare` are
measured once, before any load, while the brokers' memory is fresh. The "varied" loads send messages
as programs do: each has its size, a content type, two headers, a message id and a timestamp. In the
others a publisher's messages are equal except for their bodies, from which a broker may benefit; in
"mixed" and "topic" consecutive messages differ, too. All numbers are of delivered messages: with a
fan-out to ten queues each published message counts ten times, and its fixed rate is set
accordingly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LATENCY_RATE = 5000
"""Messages delivered per second while latency is measured."""


@dataclass(frozen=True)
class Load:
    """Publishers and consumers on queues of their own."""

    name: str
    title: str
    size: int = 1024
    vary: int = 0
    pairs: int = 1
    publishers: int = 0
    """By default as many as `pairs`."""
    window: int = 0
    auto_ack: bool = True
    topology: str = "queues"
    bindings: int = 1000
    durable: bool = False
    ack_every: int = 1
    own_properties: bool = False

    @property
    def copies(self) -> int:
        """Number of deliveries of a published message."""
        return self.pairs if self.topology == "fanout" else 1

    @property
    def arguments(self) -> list[str]:
        """The scenario as options of the load generator."""
        words = [f"--size={self.size}", f"--vary={self.vary}"]
        words += [f"--publishers={self.publishers or self.pairs}"]
        words += [f"--consumers={self.pairs}", f"--queues={self.pairs}"]
        words += [f"--window={self.window}", f"--topology={self.topology}"]
        words += [f"--bindings={self.bindings}", f"--ack-every={self.ack_every}"]
        if self.durable:
            words.append("--durable")
        if self.own_properties:
            words.append("--own-properties")
        return [*words, "--auto-ack"] if self.auto_ack else words

    @property
    def paced_arguments(self) -> list[str]:
        """The same at the fixed rate."""
        return [*self.arguments, f"--rate={LATENCY_RATE / self.copies:g}"]


@dataclass(frozen=True)
class Idle:
    """Idle connections with one channel each."""

    name: str
    title: str
    connections: int


@dataclass(frozen=True)
class Declare:
    """Transient queues declared one after the other on one channel."""

    name: str
    title: str
    queues: int


def varied(name: str, title: str, **options: Any) -> Load:
    """A load of messages as programs send them, of 1 KB on average."""
    return Load(f"varied-{name}", title, 512, 1024, own_properties=True, **options)


LOADS = (
    varied("auto-ack", "varied, auto-ack"),
    varied("confirms", "varied, confirms (1,000 open), ack each", window=1000, auto_ack=False),
    varied(
        "pairs-8",
        "varied, 8 publishers, 8 consumers, 8 queues, confirms, ack each",
        pairs=8,
        window=1000,
        auto_ack=False,
    ),
    varied(
        "durable",
        "varied, persistent, confirms (1,000 open), an ack for 50",
        window=1000,
        auto_ack=False,
        durable=True,
        ack_every=50,
    ),
    Load("small", "16 B, auto-ack", size=16),
    Load("kilobyte", "1 KB, auto-ack"),
    Load("mixed", "16 B to 1 KB, taking turns, auto-ack", size=16, vary=1008),
    Load("confirms", "1 KB, confirms (1,000 open), ack each", window=1000, auto_ack=False),
    Load("pairs-1", "1 KB, 1 publisher, 1 consumer, 1 queue", pairs=1),
    Load("pairs-2", "1 KB, 2 publishers, 2 consumers, 2 queues", pairs=2),
    Load("pairs-4", "1 KB, 4 publishers, 4 consumers, 4 queues", pairs=4),
    Load("pairs-8", "1 KB, 8 publishers, 8 consumers, 8 queues", pairs=8),
    Load("fanout", "1 KB, fan-out to 10 queues", pairs=10, publishers=1, topology="fanout"),
    Load("topic", "16 B, topic over 1,000 bindings", 16, 10, publishers=1, topology="topic"),
    Load("large", "100 KB, auto-ack", size=102400),
    Load(
        "durable",
        "1 KB persistent, confirms (1,000 open), an ack for 50",
        window=1000,
        auto_ack=False,
        durable=True,
        ack_every=50,
    ),
)
IDLE = Idle("idle", "an idle connection", 1000)
DECLARE = Declare("declare", "queues declared", 10000)
QUICK_DECLARE = Declare("declare", "queues declared", 1000)


@dataclass(frozen=True)
class Backlog:
    """Persistent messages of 1 KB, published to one durable queue and then consumed."""

    name: str
    title: str
    messages: int
    is_lazy: bool = False


BACKLOGS = (
    Backlog("backlog", "a backlog", 1_000_000),
    Backlog("backlog-lazy", "a backlog in a lazy queue", 1_000_000, is_lazy=True),
)
QUICK_SHARE = 10
"""Divisor of the size of backlogs in a quick run."""
BACKLOG_MEMORY = "400MB"
MANY_QUEUES = 1000
MANY_MESSAGES = 100_000
RESTART_QUEUES = 5000

"""A load of the benchmark: publishers, consumers, their messages, and what is to be reached.

A `Load` becomes options of the load generator. Its topology and the properties of its messages are
named functions of `topologies.py` and `properties.py`; without a topology the generator declares
the queues. `Target` is what this broker's values may be, relative to RabbitMQ's in the same run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LATENCY_RATE = 5000
"""Messages delivered per second while latency is measured."""


@dataclass(frozen=True)
class Target:
    """Limits of ratios of the first broker to RabbitMQ; None: no target.

    cpu: at most this share of the CPU a message. rate: at least this multiple of the rate. p99: at
    most this multiple of the p99, at full speed if `is_p99_full`. delivered: at least this share
    of what is published at full speed is delivered meanwhile, whatever RabbitMQ does.
    """

    cpu: float | None = None
    rate: float | None = None
    p99: float | None = None
    is_p99_full: bool = False
    delivered: float | None = None


HALF = Target(cpu=1 / 2)
DELIVERED = Target(delivered=0.9)


@dataclass(frozen=True)
class Load:
    """Publishers and consumers. Sizes are of bodies, in bytes."""

    name: str
    title: str
    size: int = 1024
    vary: int = 0
    """How much larger bodies are at most; each has a size of its own."""
    properties: str = ""
    """A function of properties.py; without one all messages have a delivery mode only."""
    publishers: int = 1
    consumers: int = 1
    queues: int = 1
    copies: int = 1
    """Deliveries of a published message. 0: nothing is delivered, and published messages count."""
    topology: str = ""
    """A function of topologies.py; without one messages go to the queues by their names."""
    window: int = 0
    """Unconfirmed messages of a publisher; 0: no confirms."""
    auto_ack: bool = True
    ack_every: int = 1
    durable: bool = False
    in_turn: bool = False
    """Each message of a publisher goes to the next queue."""
    channels: int = 1
    burst: int = 64
    """Messages of one write, at most."""
    rate: float = 0
    """Published messages a second; 0: full speed, and latencies at LATENCY_RATE."""
    spaced: bool = False
    """Each message goes out at its own time, not with the others of a millisecond."""
    in_flight: int = 0
    """Undelivered messages, at most; 0: any number."""
    mandatory: bool = False
    transaction: int = 0
    get: bool = False
    tls: bool = False
    is_traced: bool = False
    """The firehose is on, on nodes of their own."""
    is_clustered: bool = False
    """Publishers, consumers and queues are on a node each of a cluster of three (clusters.py)."""
    is_at_queue: bool = False
    """All clients use the node of the queue."""
    has_bound: bool = False
    """The relay can take the broker's place: each publisher has a consumer of its own."""
    target: Target = Target()

    @property
    def arguments(self) -> list[str]:
        """The load as options of the generator, without addresses and properties."""
        numbers = {
            "size": self.size, "vary": self.vary, "publishers": self.publishers,
            "consumers": self.consumers, "queues": self.queues, "copies": self.copies,
            "window": self.window, "ack-every": self.ack_every, "channels": self.channels,
            "burst": self.burst, "in-flight": self.in_flight, "transaction": self.transaction,
        }  # fmt: skip
        switches = {
            "auto-ack": self.auto_ack, "durable": self.durable, "in-turn": self.in_turn,
            "spaced": self.spaced, "mandatory": self.mandatory, "get": self.get, "tls": self.tls,
        }  # fmt: skip
        words = [f"--{name}={value}" for name, value in numbers.items()]
        words += [f"--{name}" for name, is_on in switches.items() if is_on]
        return [*words, f"--rate={self.rate:g}"] if self.rate else words

    @property
    def paced_arguments(self) -> list[str]:
        """The same at the fixed rate."""
        return [*self.arguments, f"--rate={LATENCY_RATE / self.copies:g}"]

    @property
    def is_paced_apart(self) -> bool:
        """Whether latencies have a measurement of their own."""
        return not self.rate and self.copies > 0


def varied(name: str, title: str, size: int = 1024, **options: Any) -> Load:
    """Messages as programs send them: half to one and a half times the size, and properties."""
    chosen = {"properties": "varied", **options}
    return Load(name, title, size // 2, size, **chosen)


def pairs(count: int) -> dict[str, int]:
    """Return the options of `count` publishers, consumers and queues."""
    return {"publishers": count, "consumers": count, "queues": count}

"""Queues, exchanges and bindings of loads that need more than queues by name.

Each function declares what a load needs and returns the addresses its publishers use. Consumers
consume from the queues `{name}-0`, `{name}-1` and so on, as the generator names them. Everything
has names that begin with the load's, and goes at the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from .brokers import Broker
from .loads import Load
from .node_files import TTL_POLICY_PREFIX
from .properties import SERVICES

Addresses = list[tuple[str, str]]
"""Exchanges and routing keys."""
BINDINGS = 1000
KEYS = 10_000
LIMIT = 1000
EXPIRES_MS = 1
"""How long a message stays in each queue of the chain of dead letters."""


@dataclass
class Declared:
    """Declares objects of one load, and deletes them."""

    channel: BlockingChannel
    name: str
    queues: list[str] = field(default_factory=list)
    has_streams: bool = False
    exchanges: list[str] = field(default_factory=list)

    def queue(self, suffix: object, **arguments: Any) -> str:
        """Declare a queue; the arguments' underscores stand for hyphens."""
        return self.plain_queue(f"{self.name}-{suffix}", False, arguments)

    def plain_queue(self, name: str, is_durable: bool, arguments: dict[str, Any]) -> str:
        """Declare a queue of this name."""
        words = {word.replace("_", "-"): value for word, value in arguments.items()}
        self.queues.append(name)
        self.channel.queue_declare(name, durable=is_durable, arguments=words)
        return name

    def exchange(self, kind: str, suffix: str = "exchange", **arguments: Any) -> str:
        """Declare an exchange."""
        name = f"{self.name}-{suffix}"
        words = {word.replace("_", "-"): value for word, value in arguments.items()}
        self.exchanges.append(name)
        self.channel.exchange_declare(name, kind, arguments=words)
        return name

    def bind(self, queue: str, exchange: str, key: str = "", **arguments: Any) -> None:
        """Bind a queue."""
        self.channel.queue_bind(queue, exchange, key, arguments=arguments)

    def consumed(self, load: Load, **arguments: Any) -> list[str]:
        """Declare the queues that the generator's consumers use."""
        names = [f"{self.name}-{number}" for number in range(load.queues)]
        return [self.plain_queue(name, load.durable, arguments) for name in names]

    def purge(self) -> None:
        """Remove what an earlier measurement left. Consumers of streams begin after it."""
        for queue in self.queues if not self.has_streams else ():
            self.channel.queue_purge(queue)

    def delete(self) -> None:
        """Delete everything."""
        for queue in self.queues:
            self.channel.queue_delete(queue)
        for exchange in self.exchanges:
            self.channel.exchange_delete(exchange)


def plain(to: Declared, load: Load) -> Addresses:
    """Queues by name, declared before the measurement."""
    return [("", queue) for queue in to.consumed(load)]


def quorum(to: Declared, load: Load) -> Addresses:
    """Quorum queues with a member on each node."""
    return [("", queue) for queue in to.consumed(load, x_queue_type="quorum")]


def stream(to: Declared, load: Load) -> Addresses:
    """Streams, with a member on each node."""
    to.has_streams = True
    return [("", queue) for queue in to.consumed(load, x_queue_type="stream")]


def ttl_by_policy(to: Declared, load: Load) -> Addresses:
    """A queue that a policy gives a time to live: node_files.definitions."""
    assert to.name.startswith(TTL_POLICY_PREFIX)
    return plain(to, load)


def max_length(to: Declared, load: Load) -> Addresses:
    """A full queue that drops its oldest message for each new one."""
    return [("", queue) for queue in to.consumed(load, x_max_length=LIMIT)]


def ten_priorities(to: Declared, load: Load) -> Addresses:
    """A queue with the priorities 0 to 10."""
    return [("", queue) for queue in to.consumed(load, x_max_priority=10)]


def dead_letters(to: Declared, load: Load) -> Addresses:
    """Messages expire in one queue, then in a second, and are consumed from the third."""
    (last,) = to.consumed(load)
    for suffix, target in (("second", last), ("first", f"{to.name}-second")):
        to.queue(
            suffix,
            x_message_ttl=EXPIRES_MS,
            x_dead_letter_exchange="",
            x_dead_letter_routing_key=target,
        )
    return [("", f"{to.name}-first")]


def _direct(to: Declared, load: Load, keys: int) -> Addresses:
    (queue,) = to.consumed(load)
    exchange = to.exchange("direct")
    addresses = [(exchange, f"order.{number}") for number in range(keys)]
    for _, key in addresses:
        to.bind(queue, exchange, key)
    return addresses


def thousand_keys(to: Declared, load: Load) -> Addresses:
    """A direct exchange with 1,000 routing keys."""
    return _direct(to, load, 1000)


def five_thousand_keys(to: Declared, load: Load) -> Addresses:
    """A direct exchange with 5,000 routing keys."""
    return _direct(to, load, 5000)


def fanout(to: Declared, load: Load) -> Addresses:
    """A fanout exchange to all queues."""
    exchange = to.exchange("fanout")
    for queue in to.consumed(load):
        to.bind(queue, exchange)
    return [(exchange, "")]


def topic(to: Declared, load: Load) -> Addresses:
    """A topic exchange with 1,000 patterns, spread over the queues, and one key for each."""
    return _topic(to, load, BINDINGS)


def topic_of_many_keys(to: Declared, load: Load) -> Addresses:
    """The same with 10,000 routing keys."""
    return _topic(to, load, KEYS)


def _topic(to: Declared, load: Load, keys: int) -> Addresses:
    exchange = to.exchange("topic")
    queues = to.consumed(load)
    for number in range(BINDINGS):
        to.bind(queues[number % load.queues], exchange, f"order.{number}.*")
    return [(exchange, f"order.{number % BINDINGS}.{number // BINDINGS}") for number in range(keys)]


def headers(to: Declared, load: Load) -> Addresses:
    """A headers exchange with a binding for each value of a header, spread over the queues."""
    exchange = to.exchange("headers")
    queues = to.consumed(load)
    for number in range(SERVICES):
        words = {"x-match": "all", "source": f"service-{number}"}
        to.bind(queues[number % load.queues], exchange, **words)
    return [(exchange, "order")]


def consistent_hash(to: Declared, load: Load) -> Addresses:
    """A consistent hash exchange, over all queues with the same weight."""
    exchange = to.exchange("x-consistent-hash")
    for queue in to.consumed(load):
        to.bind(queue, exchange, "1")
    return [(exchange, f"order.{number}") for number in range(BINDINGS)]


def alternate(to: Declared, load: Load) -> Addresses:
    """An exchange without bindings, whose messages all go to its alternate exchange."""
    target = to.exchange("fanout", "alternate")
    for queue in to.consumed(load):
        to.bind(queue, target)
    return [(to.exchange("direct", alternate_exchange=target), "order")]


def unroutable(to: Declared, load: Load) -> Addresses:
    """An exchange without bindings."""
    to.consumed(load)
    return [(to.exchange("direct"), "order")]


def traced(to: Declared, load: Load) -> Addresses:
    """A queue, and another one that keeps the last copies of the firehose."""
    copies = to.queue("copies", x_max_length=LIMIT)
    to.bind(copies, "amq.rabbitmq.trace", "#")
    return plain(to, load)


KINDS: dict[str, Callable[[Declared, Load], Addresses]] = {
    kind.__name__: kind
    for kind in (
        plain, quorum, stream, ttl_by_policy, max_length, ten_priorities, dead_letters,
        thousand_keys, five_thousand_keys, fanout, topic, topic_of_many_keys, headers,
        consistent_hash, alternate, unroutable, traced,
    )
}  # fmt: skip


@contextlib.contextmanager
def declared(load: Load, broker: Broker, name: str) -> Iterator[tuple[Declared, Addresses]]:
    """Declare a load's topology while the block runs.

    Raises pika.exceptions.AMQPError where a broker cannot do it.
    """
    parameters = pika.ConnectionParameters(broker.host, broker.port, heartbeat=0)
    with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
        objects = Declared(connection.channel(), name)
        addresses = KINDS[load.topology](objects, load)
        try:
            yield objects, addresses
        finally:
            objects.delete()

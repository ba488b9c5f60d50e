"""Routing: from the exchange a message is published to, along bindings, to queues.

A binding may lead to another exchange, so exchanges form a graph that may have cycles. The router
walks it breadth first and visits each exchange once. Each is matched with every routing key of the
message (its own, then those of CC and BCC), unless its type uses the first key only. Each queue is
collected once, in the order of discovery, unless its node is down.

If a message matches nothing at an exchange, anywhere on the route, it continues at the alternate
exchange, if there is one. A match of destinations that were visited already, as in a cycle, is a
match. These rules are RabbitMQ's (`rabbit_exchange:route1`).

A `Route` also reports two kinds of exchange on the way: those that store a history of messages, and
those at which the message is delayed.

A route with `is_cacheable` is valid for every message with the same routing keys until an exchange,
a binding or a policy changes.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.exchanges.delayed import DelayedMessage
from leveret.broker.exchanges.exchange_type import Destination, ExchangeType
from leveret.broker.exchanges.recent_history import RecentHistory
from leveret.broker.queues.queue_client import QueueClient


class RoutableExchange(Protocol):
    """The part of an exchange that the router uses. A queue has `is_exchange` False."""

    @property
    def is_exchange(self) -> bool:
        """True."""

    @property
    def is_deleted(self) -> bool:
        """It leads nowhere any more."""

    @property
    def type(self) -> ExchangeType:
        """The bindings."""

    @property
    def alternate(self) -> "RoutableExchange | None":
        """The alternate exchange, if one is configured and exists."""


class Route(NamedTuple):
    """The result of routing a message.

    queues: each once.
    is_cacheable: the result depends on the routing keys and the bindings only.
    remembering: the tables on the route that store the message in their history.
    delaying: the exchanges on the route, of type `DelayedMessage`, from which it continues later.
    work: of finding it, in the units of broker/turns.py.
    """

    queues: list[QueueClient]
    is_cacheable: bool
    remembering: list[RecentHistory]
    delaying: list[RoutableExchange]
    work: int


def route(exchange: RoutableExchange, routing_keys: Sequence[str], header: ContentHeader) -> Route:
    """Route a message from an exchange. routing_keys: the message's own key first."""
    queues: dict[QueueClient, None] = {}
    walk = [exchange]
    seen = {exchange}
    is_cacheable = True
    remembering: list[RecentHistory] = []
    delaying: list[RoutableExchange] = []
    work = 0
    for current in walk:
        table = current.type
        is_cacheable = is_cacheable and table.routes_by_key
        matched: Collection[Destination] = ()
        if isinstance(table, DelayedMessage) and table.delay_ms(header):
            delaying.append(current)
        else:
            matched = _matches(table, routing_keys, header)
            work += 1 + len(matched) + table.looked
            _note_history(table, remembering)
        destinations: Collection[Any] = matched
        if not _any_exists(destinations):
            destinations = _alternate(current)
        for destination in destinations:
            if destination.is_deleted:
                continue
            if not destination.is_exchange:
                if not destination.is_down:
                    queues[destination] = None
            elif destination not in seen:
                seen.add(destination)
                walk.append(destination)
    return Route(list(queues), is_cacheable, remembering, delaying, work)


def _matches(
    table: ExchangeType, routing_keys: Sequence[str], header: ContentHeader
) -> Collection[Destination]:
    if len(routing_keys) == 1 or not table.uses_every_key:
        return table.route(routing_keys[0], header)
    return [destination for key in routing_keys for destination in table.route(key, header)]


def _any_exists(destinations: Collection[Any]) -> bool:
    """Whether one of them is not deleted. The bindings of the others are about to be removed."""
    return any(not destination.is_deleted for destination in destinations)


def _alternate(exchange: RoutableExchange) -> tuple[RoutableExchange, ...]:
    alternate = exchange.alternate
    return () if alternate is None else (alternate,)


def _note_history(table: ExchangeType, remembering: list[RecentHistory]) -> None:
    inner = table.inner if isinstance(table, DelayedMessage) else table
    if isinstance(inner, RecentHistory):
        remembering.append(inner)

"""From the exchange a message is published to, along every binding, to the queues it reaches.

A binding may lead to another exchange, so the exchanges form a graph, and there may be cycles in
it. The router walks it breadth first and looks at each exchange once. Each is asked with every
routing key of the message (its own, then those of CC and BCC), unless its type takes the first for
all of them, and each queue is collected once, in the order in which it was found.

An exchange where a message matches nothing at all, wherever on the way, hands it to its alternate
exchange if it has one. A match that leads nowhere new, as in a cycle, is a match all the same.
These rules are RabbitMQ's (`rabbit_exchange:route1`).

Two kinds of exchange have a part in this beyond matching, and a `Route` reports them: those that
keep a history of messages, and those at which the message has to wait.

A route that `is_cacheable` holds for each message with the same routing key until an exchange, a
binding or a policy changes. If the message has several keys, it holds for just those.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol

from broker.amqp.properties import ContentHeader
from broker.exchanges.delayed import DelayedMessage
from broker.exchanges.exchange_type import Destination, ExchangeType
from broker.exchanges.recent_history import RecentHistory


class RoutableExchange(Protocol):
    """What the router needs of an exchange. Of a queue it needs that `is_exchange` is False."""

    @property
    def is_exchange(self) -> bool:
        """True."""

    @property
    def type(self) -> ExchangeType:
        """Its bindings."""

    @property
    def alternate(self) -> "RoutableExchange | None":
        """The alternate exchange, if one is configured and exists at this moment."""


class Route(NamedTuple):
    """Where a message goes.

    queues: each once.
    is_cacheable: only the routing key and the bindings had a say.
    remembering: the tables on the way that are to remember the message.
    delaying: the exchanges on the way, of type `DelayedMessage`, from which it goes on later.
    """

    queues: list[Destination]
    is_cacheable: bool
    remembering: list[RecentHistory]
    delaying: list[RoutableExchange]


def route(exchange: RoutableExchange, routing_keys: Sequence[str], header: ContentHeader) -> Route:
    """The queues a message reaches from an exchange. routing_keys: its own key comes first."""
    queues: dict[Destination, None] = {}
    walk = [exchange]
    seen = {exchange}
    is_cacheable = True
    remembering: list[RecentHistory] = []
    delaying: list[RoutableExchange] = []
    for current in walk:
        table = current.type
        is_cacheable = is_cacheable and table.routes_by_key
        matched: Collection[Destination] = ()
        if isinstance(table, DelayedMessage) and table.delay_ms(header):
            delaying.append(current)
        else:
            matched = _matches(table, routing_keys, header)
            _note_history(table, remembering)
        destinations: Collection[Any] = matched or _alternate(current)
        for destination in destinations:
            if not destination.is_exchange:
                queues[destination] = None
            elif destination not in seen:
                seen.add(destination)
                walk.append(destination)
    return Route(list(queues), is_cacheable, remembering, delaying)


def _matches(
    table: ExchangeType, routing_keys: Sequence[str], header: ContentHeader
) -> Collection[Destination]:
    if len(routing_keys) == 1 or not table.uses_every_key:
        return table.route(routing_keys[0], header)
    return [destination for key in routing_keys for destination in table.route(key, header)]


def _alternate(exchange: RoutableExchange) -> tuple[RoutableExchange, ...]:
    alternate = exchange.alternate
    return () if alternate is None else (alternate,)


def _note_history(table: ExchangeType, remembering: list[RecentHistory]) -> None:
    inner = table.inner if isinstance(table, DelayedMessage) else table
    if isinstance(inner, RecentHistory):
        remembering.append(inner)

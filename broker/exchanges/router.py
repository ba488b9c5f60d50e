"""Routing: from the exchange a message is published to, along bindings, to queues.

A binding may lead to another exchange, so exchanges form a graph that may have cycles. The router
walks it breadth first and visits each exchange once. Each is matched with every routing key of the
message (its own, then those of CC and BCC), unless its type uses the first key only. Each queue is
collected once, in the order of discovery, unless its node is down.

If a message matches nothing at an exchange, anywhere on the route, it continues at the alternate
exchange, if there is one. Destinations that were visited already, as in a cycle, count as a match;
a queue whose node is down does not, since RabbitMQ removes its routes. These rules are RabbitMQ's
(`rabbit_exchange:route1`).

A `Route` also reports some kinds of exchange on the way: those that store a history of messages,
those at which the message is delayed, and those that refuse duplicates.

A route may be long: very many bindings, exchanges or routing keys. So it is found in steps, each of
a bounded amount of work. Bindings may change between them; the route is then the one before or
after the change, or has parts of both.

A route with `is_cacheable` is valid for every message with the same routing keys until an exchange,
a binding or a policy changes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.exchanges.delayed import DelayedMessage
from leveret.broker.exchanges.exchange_type import Destination, ExchangeType
from leveret.broker.exchanges.message_deduplication import MessageDeduplication
from leveret.broker.exchanges.recent_history import RecentHistory
from leveret.broker.queues.contract.queue_client import QueueClient

WORK_AT_ONCE: Final = 8_000
"""The work of finding a route in one step (broker/runtime/turns.py): two milliseconds."""
EXCHANGE_WORK: Final = 4
"""The work of an exchange on the route, besides its matches."""


class RoutableExchange(Protocol):
    """The part of an exchange that the router uses. A queue has `is_exchange` False."""

    @property
    def is_exchange(self) -> bool:
        """True."""

    @property
    def is_deleted(self) -> bool:
        """Whether it leads nowhere, since it was deleted."""

    @property
    def type(self) -> ExchangeType:
        """The bindings."""

    @property
    def alternate(self) -> "RoutableExchange | None":
        """The alternate exchange, if one is configured and exists."""


class Route:
    """The route of a message from an exchange, which `go_on` finds.

    is_cacheable: the result depends on the routing keys and the bindings only.
    lacks_queues: it leads to queues that it does not have, since their nodes are down.
    remembering: the tables on the route that store the message in their history.
    delaying: the exchanges on the route, of type `DelayedMessage`, from which it continues later.
    deduplicating: those of type `MessageDeduplication` that it passes. refusing: those that it does
    not pass, as a duplicate.
    work: of finding it so far, in the units of broker/runtime/turns.py.
    """

    __slots__ = (
        "_candidates", "_current", "_exchanges", "_has_matched", "_header", "_queues",
        "_routing_keys", "_seen", "_walk", "deduplicating", "delaying", "is_cacheable",
        "lacks_queues", "refusing", "remembering", "work",
    )  # fmt: skip

    def __init__(
        self, exchange: RoutableExchange, routing_keys: Sequence[str], header: ContentHeader
    ) -> None:
        """routing_keys: the message's own key first."""
        self._routing_keys = routing_keys
        self._header = header
        self._queues: dict[QueueClient, None] = {}
        self._walk = [exchange]
        self._exchanges = iter(self._walk)
        self._seen = {exchange}
        self._current: RoutableExchange | None = None
        self._candidates: Iterator[Any] = iter(())
        self._has_matched = False
        self.is_cacheable = True
        self.lacks_queues = False
        self.remembering: list[RecentHistory] = []
        self.delaying: list[RoutableExchange] = []
        self.deduplicating: list[RoutableExchange] = []
        self.refusing: list[RoutableExchange] = []
        self.work = 0

    @property
    def queues(self) -> list[QueueClient]:
        """The destinations found so far, each once."""
        return list(self._queues)

    def go_on(self, work: int) -> bool:
        """Find more of the route, with about this much work; return whether it is complete."""
        left = work
        is_complete = False
        while left > 0 and not is_complete:
            for candidate in self._candidates:
                left -= 1
                # Bindings to deleted objects are about to be removed.
                if candidate is None or candidate.is_deleted:
                    pass
                elif candidate.is_exchange:
                    self._has_matched = True
                    self._visit_later(candidate)
                elif candidate.is_down:
                    self.lacks_queues = True
                else:
                    self._has_matched = True
                    self._queues[candidate] = None
                if left <= 0:
                    break
            else:
                left -= EXCHANGE_WORK
                is_complete = not self._visit_next()
        self.work += work - left
        return is_complete

    def _visit_later(self, exchange: RoutableExchange) -> None:
        if exchange not in self._seen:
            self._seen.add(exchange)
            self._walk.append(exchange)

    def _visit_next(self) -> bool:
        """Continue at the next exchange; return whether there is one."""
        if self._current is not None and not self._has_matched:
            alternate = self._current.alternate
            if alternate is not None and not alternate.is_deleted:
                self._visit_later(alternate)
        current = self._current = next(self._exchanges, None)
        if current is None:
            return False
        table = current.type
        self._has_matched = False
        self.is_cacheable = self.is_cacheable and table.routes_by_key
        if isinstance(table, DelayedMessage) and table.delay_ms(self._header):
            self.delaying.append(current)
            return True
        if isinstance(table, MessageDeduplication):
            if table.has_seen(self._header):
                self.refusing.append(current)
                return True
            self.deduplicating.append(current)
        self._candidates = iter(_candidates(table, self._routing_keys, self._header))
        _note_history(table, self.remembering)
        return True


def _candidates(
    table: ExchangeType, routing_keys: Sequence[str], header: ContentHeader
) -> Iterable[Destination | None]:
    if len(routing_keys) == 1 or not table.uses_every_key:
        return table.route(routing_keys[0], header)
    return _of_each_key(table, routing_keys, header)


def _of_each_key(
    table: ExchangeType, routing_keys: Sequence[str], header: ContentHeader
) -> Iterator[Destination | None]:
    for key in routing_keys:
        yield None
        yield from table.route(key, header)


def _note_history(table: ExchangeType, remembering: list[RecentHistory]) -> None:
    inner = table.inner if isinstance(table, DelayedMessage) else table
    if isinstance(inner, RecentHistory):
        remembering.append(inner)

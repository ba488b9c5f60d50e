"""The firehose: every publish and delivery of a vhost, copied to its exchange amq.rabbitmq.trace.

A copy has the body as it was, and the routing key `publish.{exchange}` or `deliver.{queue}`; its
headers say what happened to which message (`_what`, `_who`). The headers, their types and their
order are those of RabbitMQ's `rabbit_trace`, so that programs that listen find what they know.

With nothing bound to its exchange the firehose does not listen, and costs nothing. Otherwise,
whoever gets a copy is looked up first, and remembered until bindings change; where nobody does,
nothing else is done. Messages that were published or delivered in a run, and are alike, are copied
in a run. Since clients repeat themselves, the headers of copies are remembered as well.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from broker.amqp.content import encode_address
from broker.amqp.field_table import Field, Table
from broker.amqp.properties import ContentHeader, encode_properties
from broker.binding import Exchange
from broker.queues.actor import Queue
from broker.taps import TRACE_EXCHANGE, Sink, TracedChannel, TracedQueue
from broker.tracing.values import routing_keys_of
from broker.vhost import VirtualHost
from storage.message import Address, Entry, Message

ROUTES_MAX, HEADERS_MAX = 1024, 1024
"""Routing keys, and headers of copies, that are remembered; with more it starts over."""
HEADER_BYTES_MAX = 1024
"""Longer ones are not remembered."""
SHORT_STRING_BYTES_MAX = 255
NO_HEADER = ContentHeader(b"\0\0")


class Route:
    """Where copies with one routing key go. is_fixed: wherever their headers say, it is there."""

    __slots__ = ("address", "is_fixed", "queues")

    def __init__(self, address: Address, queues: list[Queue], is_fixed: bool) -> None:
        self.address = address
        self.queues = queues
        self.is_fixed = is_fixed


class Firehose(Sink):
    """The firehose of one vhost. node: the node's name."""

    def __init__(self, vhost: VirtualHost, node: str) -> None:
        self._vhost = vhost
        self._node = node
        self._generation = -1
        self._routes: dict[str, Route] = {}
        self._headers: dict[tuple[object, ...], ContentHeader] = {}

    def __repr__(self) -> str:
        return f"<the firehose of vhost {self._vhost.name!r}>"

    @property
    def is_listening(self) -> bool:
        """A copy may go somewhere."""
        exchange = self._vhost.exchanges[TRACE_EXCHANGE]
        return bool(exchange.bindings) or exchange.alternate is not None

    def published(
        self,
        channel: TracedChannel | None,
        messages: Sequence[Message],
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
    ) -> None:
        """Copy what a client published."""
        first = messages[0]
        if channel is None or (route := self._route("publish.", first.address.exchange)) is None:
            return
        names = tuple([queue.name for queue in queues])
        key = (first.address, first.header, *_key_of(channel), tuple(routing_keys), names)
        header = self._headers.get(key)
        if header is None:
            header = self._remember(key, {
                **self._what(first, routing_keys),
                **self._who(channel),
                "routed_queues": ("A", [("S", name) for name in names]),
            })  # fmt: skip
        self._copy(route, header, messages)

    def delivered(
        self,
        channel: TracedChannel,
        queue: TracedQueue,
        consumer_tag: str | None,
        entries: Sequence[Entry],
        first_tag: int,
        no_ack: bool,
    ) -> None:
        """Copy what a client is given."""
        route = self._route("deliver.", queue.name)
        if route is None:
            return
        for run in _runs(entries):
            message, redelivered = run[0].message, run[0].redelivered
            key = (message.address, message.header, *_key_of(channel), redelivered)
            header = self._headers.get(key)
            if header is None:
                header = self._remember(key, {
                    **self._what(message, routing_keys_of(message)),
                    "redelivered": ("I", int(redelivered)),
                    **self._who(channel),
                })  # fmt: skip
            self._copy(route, header, [entry.message for entry in run])

    # Where copies go

    def _route(self, prefix: str, name: str) -> Route | None:
        """The way of a copy; None if nobody gets it, whatever is in its headers."""
        if self._generation != self._vhost.generation:
            self._routes.clear()
            self._generation = self._vhost.generation
        route = self._routes.get(prefix + name)
        if route is None:
            route = self._look_up(prefix + name)
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            self._routes[prefix + name] = route
        return route if route.queues or not route.is_fixed else None

    def _look_up(self, routing_key: str) -> Route:
        exchange = self._vhost.exchanges[TRACE_EXCHANGE]
        found = self._vhost.route(exchange, [routing_key], NO_HEADER)
        address = _address(routing_key)
        is_fixed = found.is_cacheable and not found.remembering
        return Route(address, _queues(found.queues), is_fixed)

    def _copy(self, route: Route, header: ContentHeader, messages: Sequence[Message]) -> None:
        copies = [Message(route.address, header, message.body) for message in messages]
        if route.is_fixed:
            size = sum(len(copy.body) for copy in copies)
            for queue in route.queues:
                queue.publish(copies, size, None, 0)
            return
        for copy in copies:
            self._copy_with_care(self._vhost.exchanges[TRACE_EXCHANGE], copy, header)

    def _copy_with_care(self, exchange: Exchange, copy: Message, header: ContentHeader) -> None:
        """On its way there is an exchange that decides message by message."""
        found = self._vhost.route(exchange, [copy.address.routing_key], header)
        for history in found.remembering:
            history.remember(copy, header)
        for queue in _queues(found.queues):
            queue.publish([copy], len(copy.body), None, 0)

    # What is in their headers

    def _remember(self, key: tuple[object, ...], headers: Table) -> ContentHeader:
        header = ContentHeader(encode_properties({"headers": headers}))
        if len(header.raw) <= HEADER_BYTES_MAX:
            if len(self._headers) >= HEADERS_MAX:
                self._headers.clear()
            self._headers[key] = header
        return header

    def _what(self, message: Message, routing_keys: Sequence[str]) -> Table:
        header = message.header
        assert isinstance(header, ContentHeader)
        properties = {name: _field(value) for name, value in reversed(header.properties.items())}
        return {
            "exchange_name": ("S", message.address.exchange),
            "routing_keys": ("A", [("S", key) for key in routing_keys]),
            "properties": ("F", properties),
            "node": ("S", self._node),
        }

    def _who(self, channel: TracedChannel) -> Table:
        connection = channel.connection
        return {
            "vhost": ("S", self._vhost.name),
            "connection": ("S", connection.name),
            "channel": ("I", channel.number),
            "user": ("S", connection.user.name),
        }


def _key_of(channel: TracedChannel) -> tuple[str, str, int]:
    connection = channel.connection
    return connection.name, connection.user.name, channel.number


def _field(value: Any) -> Field:
    """A property as RabbitMQ shows it: a timestamp, too, has the 32 bits of a signed integer."""
    if isinstance(value, dict):
        return "F", value
    if isinstance(value, int):
        return "I", (value + (1 << 31)) % (1 << 32) - (1 << 31)
    return "S", value


def _address(routing_key: str) -> Address:
    """With a long name in it a routing key may not fit the wire; then it is cut there."""
    encoded = routing_key.encode("utf-8", "surrogateescape")[:SHORT_STRING_BYTES_MAX]
    key = encoded.decode("utf-8", "surrogateescape")
    return Address(TRACE_EXCHANGE, key, encode_address(TRACE_EXCHANGE, key))


def _queues(found: Sequence[object]) -> list[Queue]:
    return [queue for queue in found if isinstance(queue, Queue)]


def _runs(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Entries that follow each other and have the same address, header and redelivered flag."""
    for _, run in groupby(
        entries,
        lambda entry: (id(entry.message.address), id(entry.message.header), entry.redelivered),
    ):
        yield list(run)

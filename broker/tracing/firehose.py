"""The firehose: every publish and delivery of a vhost, copied to its exchange amq.rabbitmq.trace.

A copy has the body unchanged and the routing key `publish.{exchange}` or `deliver.{queue}`; its
headers describe the message and the client (`_what`, `_who`). The headers, their types and their
order are those of RabbitMQ's `rabbit_trace`, so that existing programs can read them.

While nothing is bound to its exchange, the firehose does not listen and costs nothing. Otherwise
the queues of a copy are looked up first, and cached until bindings change; without queues nothing
else is done. Messages of a run are copied as a run. The common headers of its copies are encoded
once and cached, since clients use the same addresses again and again (copy_headers.py).

If a message reached a large number of queues, their names are encoded in the turns of its delivery
(fan_out.py), and not cached. The copy's delivery begins before that of the message, so later
reports on the message follow it, unless its route was found in such turns, too.
"""

from collections.abc import Iterator, Sequence

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.events.taps import DUPLICATE, TRACE_EXCHANGE, Sink
from leveret.broker.events.traced import TracedChannel, TracedQueue
from leveret.broker.queues.contract.publication import Publication, publication_of
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.tracing.copy_headers import CopyHeaders, array_header, encoded_texts
from leveret.broker.tracing.routing_keys import routing_keys_of
from leveret.broker.vhost.fan_out import QUEUES_AT_ONCE, Delivery
from leveret.broker.vhost.routing import deliver, header_of, publish, queues_by_key
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.messages.message import Address, Entry, Message

ROUTES_MAX, HEADERS_MAX = 1024, 1024
"""Routes of copies and forms of their headers that are kept. When there are more, all are dropped.
"""
SHORT_STRING_BYTES_MAX = 255
ROUTED_QUEUES = "routed_queues"
NAMES_AT_ONCE = 500
"""The names of queues that are encoded in one step: a quarter of a millisecond."""


class CopyRoute:
    """The queues of copies with one routing key. is_fixed: whatever their headers are."""

    __slots__ = ("address", "is_fixed", "queues")

    def __init__(self, address: Address, queues: list[QueueClient], is_fixed: bool) -> None:
        self.address = address
        self.queues = queues
        self.is_fixed = is_fixed


class Firehose(Sink):
    """The firehose of one vhost. node: the node's name."""

    def __init__(self, vhost: VirtualHost, node: str) -> None:
        self._vhost = vhost
        self._node = node
        self._generation = -1
        self._routes: dict[str, CopyRoute] = {}
        self._headers: dict[tuple[object, ...], CopyHeaders] = {}

    def __repr__(self) -> str:
        return f"the firehose of vhost {self._vhost.name!r}"

    @property
    def is_listening(self) -> bool:
        """Whether a copy may reach a queue. A vhost that is being deleted has no exchanges."""
        exchange = self._vhost.exchanges.get(TRACE_EXCHANGE)
        return exchange is not None and bool(exchange.bindings or exchange.alternate)

    def published(
        self,
        channel: TracedChannel | None,
        messages: Sequence[Message],
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
        reason: str = "",
    ) -> None:
        """Copy messages that a client published. reason: a header of the copies, unless empty."""
        first = messages[0]
        if channel is None or (route := self._route("publish.", first.address.exchange)) is None:
            return
        if len(queues) > QUEUES_AT_ONCE:
            self._copy_in_steps(route, channel, messages, routing_keys, queues, reason)
            return
        names = tuple([queue.name for queue in queues])
        key = (first.address, *_key_of(channel), tuple(routing_keys), names, reason)
        headers = self._headers.get(key)
        if headers is None:
            headers = self._remember(
                key,
                self._what(first.address, routing_keys),
                {**self._who(channel), **_why(reason), ROUTED_QUEUES: _texts(names)},
            )
        self._copy(route, [_copy_of(message, route, headers) for message in messages])

    def _copy_in_steps(
        self,
        route: CopyRoute,
        channel: TracedChannel,
        messages: Sequence[Message],
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
        reason: str,
    ) -> None:
        """As `published`, for messages that reached a large number of queues."""
        copies: list[Message] = []
        what = self._what(messages[0].address, routing_keys)
        who = {**self._who(channel), **_why(reason)}

        def steps() -> Iterator[QueueClient | None]:
            encoded = []
            for start in range(0, len(queues), NAMES_AT_ONCE):
                some = queues[start : start + NAMES_AT_ONCE]
                encoded.append(encoded_texts([queue.name for queue in some]))
                yield None
            routed = array_header(ROUTED_QUEUES, b"".join(encoded))
            headers = CopyHeaders(what, self._with_node(who), routed)
            copies.extend([_copy_of(message, route, headers) for message in messages])
            # The delivery has the messages now.
            yield None
            if route.is_fixed:
                yield from route.queues
            else:
                self._copy(route, copies)

        body_bytes = sum([len(message.body) for message in messages])
        self._vhost.fan_outs.begin(Delivery(steps(), Publication(copies, body_bytes)))

    def delivered(
        self,
        channel: TracedChannel,
        queue: TracedQueue,
        consumer_tag: str | None,
        entries: Sequence[Entry],
        first_tag: int,
        no_ack: bool,
    ) -> None:
        """Copy messages that are delivered to a client."""
        route = self._route("deliver.", queue.name)
        if route is None:
            return
        copies: list[Message] = []
        headers: CopyHeaders | None = None
        address, redelivered = None, False
        for entry in entries:
            message, header = entry.message, header_of(entry.message)
            has_own_keys = header.needs_care or bool(header.bcc_keys)
            if (
                headers is None
                or has_own_keys
                or message.address is not address
                or entry.redelivered is not redelivered
            ):
                headers = self._delivered_headers(channel, entry)
                address, redelivered = None if has_own_keys else message.address, entry.redelivered
            copies.append(_copy_of(message, route, headers))
        self._copy(route, copies)

    def _delivered_headers(self, channel: TracedChannel, entry: Entry) -> CopyHeaders:
        address, routing_keys = entry.message.address, routing_keys_of(entry.message)
        key = (address, *_key_of(channel), tuple(routing_keys), entry.redelivered)
        return self._headers.get(key) or self._remember(
            key,
            self._what(address, routing_keys),
            {"redelivered": ("I", int(entry.redelivered)), **self._who(channel)},
        )

    def dropped(self, queue: TracedQueue, message: Message, reason: str) -> None:
        """Copy a message that a queue did not take, because it knows its identifier.

        RabbitMQ's firehose does not show messages that are dropped for other reasons.
        """
        if reason != DUPLICATE or (route := self._route("drop.", queue.name)) is None:
            return
        address, routing_keys = message.address, routing_keys_of(message)
        key = (address, DUPLICATE, tuple(routing_keys))
        headers = self._headers.get(key) or self._remember(
            key,
            self._what(address, routing_keys),
            {"vhost": ("S", self._vhost.name), **_why(reason)},
        )
        self._copy(route, [_copy_of(message, route, headers)])

    # Where copies go

    def _route(self, prefix: str, name: str) -> CopyRoute | None:
        """The route of a copy; None if it reaches no queue, whatever its headers are."""
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

    def _look_up(self, routing_key: str) -> CopyRoute:
        exchange = self._vhost.exchanges[TRACE_EXCHANGE]
        queues = queues_by_key(self._vhost, exchange, routing_key)
        return CopyRoute(_address(routing_key), queues or [], queues is not None)

    def _copy(self, route: CopyRoute, copies: list[Message]) -> None:
        if route.is_fixed:
            deliver(self._vhost, route.queues, publication_of(copies))
            return
        # An exchange on the path decides message by message.
        exchange = self._vhost.exchanges[TRACE_EXCHANGE]
        for copy in copies:
            publish(self._vhost, exchange, publication_of([copy]), [copy.address.routing_key])

    # The contents of their headers

    def _remember(self, key: tuple[object, ...], before: Table, after: Table) -> CopyHeaders:
        headers = CopyHeaders(before, self._with_node(after))
        if len(self._headers) >= HEADERS_MAX:
            self._headers.clear()
        self._headers[key] = headers
        return headers

    def _with_node(self, after: Table) -> Table:
        return {"node": ("S", self._node), **after}

    def _what(self, address: Address, routing_keys: Sequence[str]) -> Table:
        return {
            "exchange_name": ("S", address.exchange),
            "routing_keys": _texts(routing_keys),
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


def _why(reason: str) -> Table:
    return {"reason": ("S", reason)} if reason else {}


def _texts(texts: Sequence[str]) -> Field:
    return "A", [("S", text) for text in texts]


def _copy_of(message: Message, route: CopyRoute, headers: CopyHeaders) -> Message:
    return Message(route.address, headers.of(header_of(message)), message.body)


def _address(routing_key: str) -> Address:
    """The address of a copy. A routing key that is too long for the wire is cut."""
    encoded = routing_key.encode("utf-8", "surrogateescape")[:SHORT_STRING_BYTES_MAX]
    key = encoded.decode("utf-8", "surrogateescape")
    return Address(TRACE_EXCHANGE, key, encode_address(TRACE_EXCHANGE, key))

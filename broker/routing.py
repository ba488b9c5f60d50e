"""Publishing inside a virtual host: from an exchange to queues, along one path for everything.

What a client publishes, dead letters, delayed messages, the copies of the firehose and the history
of a new binding all go this way: `publish` routes a message, has it traced and remembered, delays
it where an exchange asks for that, and hands it to the queues it reaches. A publisher that keeps
what it looked up does the last step alone: the firehose by `deliver`, channel/publishing.py by the
same loop inline.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from leveret.broker.amqp.content_header import ContentHeader, read_header
from leveret.broker.binding import Exchange
from leveret.broker.events.taps import Taps
from leveret.broker.exchanges.delayed import DelayedMessage, header_after_delay
from leveret.broker.exchanges.recent_history import RecentHistory
from leveret.broker.exchanges.router import route
from leveret.broker.fan_out import QUEUES_AT_ONCE, Delivery, FanOuts
from leveret.broker.pending import Answer
from leveret.broker.queues.dead_letter import cc_keys
from leveret.broker.queues.queue_client import Publisher, QueueClient
from leveret.broker.turns import Turns
from leveret.storage.message import Message

ROUTED_WORK = 8
"""The work of matching and handing one message to one queue, in the units of broker/turns.py."""

NO_PROPERTIES = read_header(b"\0\0")

Trace = Callable[[Sequence[QueueClient]], object]
"""Called with the queues that a message reaches, before they have it."""


class RoutingVhost(Protocol):
    """What routing needs of the virtual host. tracer: None while it is not traced."""

    fan_outs: FanOuts
    turns: Turns
    tracer: Taps | None

    @property
    def exchanges(self) -> Mapping[str, Exchange]:
        """By their names."""


class Published(NamedTuple):
    """What became of a message.

    is_delayed: an exchange keeps it, and will route it later. rest: given when all queues have it;
    None if they have it now.
    """

    queues: Sequence[QueueClient]
    is_delayed: bool
    rest: Answer[None] | None = None


def publish(
    vhost: RoutingVhost,
    exchange: Exchange,
    message: Message,
    routing_keys: Sequence[str],
    *,
    trace: Trace | None = None,
    choose: Callable[[list[QueueClient]], list[QueueClient]] | None = None,
    ttl_ms: int | None = None,
    publisher: Publisher | None = None,
    number: int = 0,
) -> Published:
    """Route a message from an exchange, and hand it to the queues that it reaches.

    routing_keys: its own, then those of CC and BCC. trace: not called while nobody traces. choose:
    returns those of the queues that are to get it. ttl_ms, publisher, number: see
    `QueueClient.publish`.
    """
    header = header_of(message)
    found = route(exchange, routing_keys, header)
    queues = found.queues if choose is None else choose(found.queues)
    if trace is not None and vhost.tracer is not None:
        trace(queues)
    for history in found.remembering:
        history.remember(message, header)
    for delaying in found.delaying:
        assert isinstance(delaying, Exchange), "only an exchange delays messages"
        _delay(delaying, message, publisher, number)
    vhost.turns.work_left -= found.work + ROUTED_WORK * min(len(queues), QUEUES_AT_ONCE)
    rest = deliver(vhost, queues, [message], len(message.body), ttl_ms, publisher, number)
    return Published(queues, bool(found.delaying), rest)


def queues_by_key(exchange: Exchange, routing_key: str) -> list[QueueClient] | None:
    """The queues that every message with a routing key reaches from an exchange, until routes
    change; None if an exchange on the way decides message by message, or remembers messages.
    """
    found = route(exchange, [routing_key], NO_PROPERTIES)
    return found.queues if found.is_cacheable and not found.remembering else None


def deliver(
    vhost: RoutingVhost,
    queues: Sequence[QueueClient],
    messages: list[Message],
    body_bytes: int,
    ttl_ms: int | None = None,
    publisher: Publisher | None = None,
    first: int = 0,
) -> Answer[None] | None:
    """Hand a run of messages to queues. body_bytes: the sum of their bodies' sizes.

    The answer is given when all of very many queues have them; None if they have them now.
    """
    if len(queues) > QUEUES_AT_ONCE:
        delivery = Delivery(queues, messages, body_bytes, ttl_ms, publisher, first)
        return vhost.fan_outs.begin(delivery)
    for queue in queues:
        queue.publish(messages, body_bytes, ttl_ms, publisher, first)
    return None


def hand_over(target: QueueClient | Exchange, message: Message, publisher: Publisher) -> None:
    """Give one message to one of the places that it was routed to, as its publisher's number 0."""
    if isinstance(target, Exchange):
        _delay(target, message, publisher, 0)
    else:
        target.publish([message], len(message.body), None, publisher, 0)


def _delay(exchange: Exchange, message: Message, publisher: Publisher | None, number: int) -> None:
    """x-delayed-message: the message waits at the exchange until its delay is over."""
    header = header_of(message)
    assert isinstance(exchange.type, DelayedMessage), "only this type of exchange delays messages"
    assert exchange.delayed is not None, "an exchange of this type has a place for messages"
    exchange.delayed.add(message, exchange.type.delay_ms(header), publisher, number)


def publish_delayed(
    vhost: RoutingVhost, exchange: Exchange, message: Message, publisher: Publisher
) -> Answer[None] | None:
    """The delay of a message is over: it goes on from the exchange at which it waited.

    The answer is given when it has reached all of very many queues; None if it has reached all now.
    Its routing keys and its time to live, which begins now, are read from its properties again,
    since it may have waited on disk.
    """
    header = header_after_delay(header_of(message))
    late = Message(message.address, header, message.body, None, message.number)
    routing_keys = [message.address.routing_key, *cc_keys(header.headers), *header.bcc_keys]
    expiration = header.properties.get("expiration")
    published = publish(
        vhost, exchange, late, routing_keys, trace=_trace_of(vhost, late, routing_keys),
        ttl_ms=None if expiration is None else int(expiration), publisher=publisher,
    )  # fmt: skip
    return published.rest


def _trace_of(vhost: RoutingVhost, message: Message, routing_keys: Sequence[str]) -> Trace:
    """For a message that no client publishes just now."""

    def trace(queues: Sequence[QueueClient]) -> None:
        if vhost.tracer is not None:
            vhost.tracer.published(None, [message], routing_keys, queues)

    return trace


def replay_history(
    vhost: RoutingVhost, history: RecentHistory, destination: QueueClient | Exchange
) -> None:
    """x-recent-history: what is newly bound gets the last messages at once."""
    for message in history.history:
        assert isinstance(message, Message), "a history keeps messages"
        if isinstance(destination, Exchange):
            keys = [message.address.routing_key]
            publish(vhost, destination, message, keys, trace=_trace_of(vhost, message, keys))
        else:
            destination.publish([message], len(message.body), None, None, 0)


def header_of(message: Message) -> ContentHeader:
    """A message's properties, of which the store knows less than the broker."""
    assert isinstance(message.header, ContentHeader), "messages are made with content headers"
    return message.header

"""Publishing inside a virtual host: from an exchange to queues, along one path for all messages.

Publications of clients, dead letters, delayed messages, the copies of the firehose and the history
for a new binding all take this path: `publish` routes a message, has it traced and kept in a
history, delays it if an exchange requires that, and hands it to the queues that it reaches. A
publisher that caches its look-ups does only the last step, with `deliver`.

A message with a long route is routed in steps, in the turns of a delivery (fan_out.py), and
otherwise in the same way.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from leveret.broker.amqp.content_header import ContentHeader, read_header
from leveret.broker.events.taps import DUPLICATE, Taps
from leveret.broker.exchanges.delayed import DelayedMessage, header_after_delay
from leveret.broker.exchanges.recent_history import RecentHistory
from leveret.broker.exchanges.router import WORK_AT_ONCE, Route
from leveret.broker.queues.contract.publication import Publication, Publisher
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.dead_letters.header import cc_keys
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Turns
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.fan_out import (
    CARE_WORK,
    QUEUES_AT_ONCE,
    ROUTE_STEP_WORK,
    Delivery,
    FanOuts,
)
from leveret.broker.vhost.passing_messages import PassingMessage
from leveret.storage.messages.message import Message

ROUTED_WORK = 8
"""The work of matching and handing a message to one queue (broker/runtime/turns.py)."""

NO_PROPERTIES = read_header(b"\0\0")

Routed = Callable[[list[QueueClient], Route], object]
"""Called with the queues that a message reaches, before they have it, and its route."""
Choose = Callable[[list[QueueClient]], list[QueueClient]]
"""Returns the queues that get a message."""


class RoutingVhost(Protocol):
    """The virtual host, as routing sees it. tracer: None while it is not traced."""

    fan_outs: FanOuts
    turns: Turns
    tracer: Taps | None

    @property
    def exchanges(self) -> Mapping[str, Exchange]:
        """The exchanges by their names."""


def publish(
    vhost: RoutingVhost,
    exchange: Exchange,
    publication: Publication,
    routing_keys: Sequence[str],
    *,
    routed: Routed | None = None,
    choose: Choose | None = None,
) -> Answer[None] | None:
    """Route a publication of one message from an exchange, and hand it to the queues that it
    reaches.

    routing_keys: its own, then those of CC and BCC. The answer is given when all queues have it;
    None if they have it now.
    """
    (message,) = publication.messages
    found = Route(exchange, routing_keys, header_of(message))
    is_complete = found.go_on(WORK_AT_ONCE)
    vhost.turns.work_left -= found.work
    passing: PassingMessage | None = None
    if publication.publisher is not None and (found.deduplicating or not is_complete):
        passing = PassingMessage(publication.publisher, publication.first)
        publication = publication.by(passing)
    if is_complete:
        reached = _reached(found, publication, passing, routed, choose)
        vhost.turns.work_left -= ROUTED_WORK * min(len(reached), QUEUES_AT_ONCE)
        given = deliver(vhost, reached, publication)
    else:
        queues = _found_later(found, publication, passing, routed, choose)
        given = vhost.fan_outs.begin(Delivery(queues, publication))
    if passing is not None:
        passing.is_given()
    return given


def _found_later(
    found: Route, publication: Publication, passing: PassingMessage | None,
    routed: Routed | None, choose: Choose | None,
) -> Iterator[QueueClient | None]:  # fmt: skip
    """The queues that a message reaches, after steps of finding its route, for `publish`."""
    while not found.go_on(ROUTE_STEP_WORK):
        yield None
    yield from _reached(found, publication, passing, routed, choose)


def _reached(
    found: Route, publication: Publication, passing: PassingMessage | None,
    routed: Routed | None, choose: Choose | None,
) -> list[QueueClient]:  # fmt: skip
    """The queues that get a message whose route is complete, for `publish`.

    The exchanges on the route that keep it have it then.
    """
    queues = found.queues if choose is None else choose(found.queues)
    if routed is not None:
        routed(queues, found)
    message = publication.messages[0]
    if found.refusing:
        _note_duplicate(found, publication)
    if found.deduplicating and (queues or found.delaying):
        _note_identifiers(found, header_of(message), passing)
    for history in found.remembering:
        history.remember(message, header_of(message))
    for delaying in found.delaying:
        assert isinstance(delaying, Exchange), "only an exchange delays messages"
        _delay(delaying, publication)
    return queues


def _note_duplicate(found: Route, publication: Publication) -> None:
    """x-message-deduplication: exchanges on a route have refused a message."""
    header = header_of(publication.messages[0])
    for refusing in found.refusing:
        assert isinstance(refusing, Exchange), "only an exchange refuses duplicates"
        if refusing.seen is not None:
            refusing.seen.refused(publication, header)


def _note_identifiers(found: Route, header: ContentHeader, passing: PassingMessage | None) -> None:
    """x-message-deduplication: the exchanges on a route see a message, before a queue has it."""
    for exchange in found.deduplicating:
        assert isinstance(exchange, Exchange), "only an exchange sees identifiers"
        if exchange.seen is not None:
            exchange.seen.passes(header, passing)


def queues_by_key(
    vhost: RoutingVhost, exchange: Exchange, routing_key: str
) -> list[QueueClient] | None:
    """The queues that every message with a routing key reaches from an exchange, until routes
    change; None if an exchange on the route decides message by message, or keeps messages, or if
    the route is long.
    """
    found = Route(exchange, [routing_key], NO_PROPERTIES)
    is_complete = found.go_on(WORK_AT_ONCE)
    vhost.turns.work_left -= found.work
    return found.queues if is_complete and is_of_every_message(found) else None


def is_of_every_message(found: Route) -> bool:
    """Whether a route applies to all messages with its routing keys, until routes change."""
    return found.is_cacheable and not found.remembering


def deliver(
    vhost: RoutingVhost,
    queues: list[QueueClient],
    publication: Publication,
) -> Answer[None] | None:
    """Hand a publication to queues.

    The answer is given when all of very many queues have it; None if they have it now.
    """
    if len(queues) > QUEUES_AT_ONCE:
        return vhost.fan_outs.begin(Delivery(queues, publication))
    for queue in queues:
        queue.publish(publication)
    return None


def hand_over(
    target: QueueClient | Exchange, message: Message, publisher: Publisher, ttl_ms: int | None
) -> None:
    """Give one message to one target of its route, as number 0 of its publisher."""
    publication = Publication([message], len(message.body), ttl_ms, publisher)
    if isinstance(target, Exchange):
        _delay(target, publication)
    else:
        target.publish(publication)


def _delay(exchange: Exchange, publication: Publication) -> None:
    """x-delayed-message: the message waits at the exchange until its delay is over."""
    header = header_of(publication.messages[0])
    assert isinstance(exchange.type, DelayedMessage), "only this type of exchange delays messages"
    assert exchange.delayed is not None, "an exchange of this type has a place for messages"
    exchange.delayed.add(publication, exchange.type.delay_ms(header))


class Release(NamedTuple):
    """A message whose delay is over. ttl_ms: its time to live, which begins now."""

    message: Message
    routing_keys: list[str]
    ttl_ms: int | None


def publish_delayed(
    vhost: RoutingVhost, exchange: Exchange, message: Message, publisher: Publisher
) -> Answer[None] | None:
    """Publish a message whose delay is over, from the exchange at which it waited.

    The answer is given when all of very many queues have it; None if all have it now. Its routing
    keys and its time to live are read from its properties again, since it may have waited on disk.
    """
    released = release_of(message)
    late, routing_keys = released.message, released.routing_keys
    publication = Publication([late], len(late.body), released.ttl_ms, publisher)
    traced = _trace_of(vhost, late, routing_keys)
    return publish(vhost, exchange, publication, routing_keys, routed=traced)


def release_of(message: Message) -> Release:
    """What is published for a message whose delay is over."""
    header = header_after_delay(header_of(message))
    late = Message(message.address, header, message.body, None, message.number)
    routing_keys = [message.address.routing_key, *cc_keys(header.headers), *header.bcc_keys]
    expiration = header.properties.get("expiration")
    return Release(late, routing_keys, None if expiration is None else int(expiration))


def _trace_of(vhost: RoutingVhost, message: Message, routing_keys: Sequence[str]) -> Routed:
    """The trace callback of a message that a client does not publish now."""
    return partial(_trace, vhost, message, routing_keys)


def _trace(
    vhost: RoutingVhost,
    message: Message,
    routing_keys: Sequence[str],
    queues: list[QueueClient],
    found: Route,
) -> None:
    if vhost.tracer is not None:
        reason = DUPLICATE if found.refusing else ""
        vhost.tracer.published(None, [message], routing_keys, queues, reason)


def replaying_history(
    vhost: RoutingVhost, history: RecentHistory, destination: QueueClient | Exchange
) -> Iterator[int]:
    """x-recent-history: the steps of delivering the last messages to a new binding's destination
    (broker/runtime/long_work.py).
    """
    for message in history.history:
        if destination.is_deleted:
            return
        assert isinstance(message, Message), "a history keeps messages"
        publication = Publication([message], len(message.body))
        if isinstance(destination, Exchange):
            keys = [message.address.routing_key]
            publish(vhost, destination, publication, keys, routed=_trace_of(vhost, message, keys))
        else:
            destination.publish(publication)
        yield CARE_WORK


def header_of(message: Message) -> ContentHeader:
    """A message's properties, of which the store decodes less than the broker."""
    assert isinstance(message.header, ContentHeader), "messages are made with content headers"
    return message.header

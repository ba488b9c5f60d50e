"""Events as messages: each is published to amq.rabbitmq.event, in the virtual host of a setting.

The routing key is the event's name, and the headers are its fields; the body is empty. Exchange,
properties and the forms of the headers are those of RabbitMQ's event exchange
(`rabbit_exchange_type_event`). Events are published in the round of the broker's loop after the one
in which they happened, so that the operation they report is done; while nothing is bound to the
exchange, no events are published.
"""

import asyncio
import ipaddress
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import header_with
from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp.field_terms import table_term
from leveret.broker.declarations.values import PutExchange
from leveret.broker.erlang.terms import format_term
from leveret.broker.events.connection_events import AMQP_0_9_1
from leveret.broker.events.events import TABLES, Event
from leveret.broker.node.broker import Broker
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.runtime.pending_in_task import in_task
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.routing import publish
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.messages.message import Address, Message

EVENT_EXCHANGE = "amq.rabbitmq.event"
PERSISTENT = 2
ADDRESSES = ("host", "peer_host")
"""The fields that are IP addresses, which RabbitMQ's headers show as Erlang terms."""

logger = logging.getLogger("leveret.events")


async def publish_events(broker: Broker) -> None:
    """Publish the events of a broker from now on, if that is configured; declare the exchange."""
    name = broker.config.event_exchange_vhost
    if name is None:
        return
    if name not in broker.services.vhosts:
        logger.error("events are not published: there is no virtual host '%s'", name)
        return
    put = PutExchange(name, EVENT_EXCHANGE, "topic", durable=True, internal=True)
    await in_task(broker.services.declarations.submit(put))
    broker.services.events.listen(EventExchange(broker, name).add)
    logger.info("Publishing events to exchange '%s' in vhost '%s'", EVENT_EXCHANGE, name)


class EventExchange:
    """Publishes the events that it is given. vhost: the name of the virtual host."""

    def __init__(self, broker: Broker, vhost: str) -> None:
        self._vhosts = broker.services.vhosts
        self._vhost = vhost
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Event] = []

    def add(self, event: Event) -> None:
        """Publish an event later, if it can reach a queue. A listener for `Events.listen`."""
        _, exchange = self._place()
        if exchange is None or not (exchange.bindings or exchange.alternate is not None):
            return
        self._waiting.append(event)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._publish_all)

    def _place(self) -> tuple[VirtualHost | None, Exchange | None]:
        vhost = self._vhosts.get(self._vhost)
        return vhost, None if vhost is None else vhost.exchanges.get(EVENT_EXCHANGE)

    def _publish_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            vhost, exchange = self._place()
            if vhost is not None and exchange is not None:
                try:
                    publication = publication_of([message_of(event)])
                    publish(vhost, exchange, publication, [event["event"]])
                except Exception:
                    logger.exception("failed to publish the event %s", event["event"])


def message_of(event: Event) -> Message:
    """The message that reports an event."""
    key = event["event"]
    headers: Table = {
        name: header_of(name, fact) for name, fact in event.items() if name != "event"
    }
    properties = {
        "delivery_mode": PERSISTENT,
        "headers": headers,
        "timestamp": event["timestamp_in_ms"] // 1000,
    }
    header = header_with(**properties)
    return Message(Address(EVENT_EXCHANGE, key, encode_address(EVENT_EXCHANGE, key)), header, b"")


def header_of(name: str, fact: Any) -> Field:
    """A field of an event as a header. Field tables are lists of Erlang terms, as in RabbitMQ."""
    if name in TABLES:
        return "A", [("S", format_term(term)) for term in table_term(fact)]
    if name in ADDRESSES:
        return "S", _address_term(fact)
    if name == "timestamp":
        return "S", _time_term(fact)
    if name == "protocol" and fact == AMQP_0_9_1:
        return "S", "{0,9,1}"
    return _field(fact)


def _field(fact: Any) -> Field:
    match fact:
        case bool():
            return "t", fact
        case int():
            return "l", fact
        case float():
            return "d", fact
        case Mapping() if fact:
            return "F", {str(name): _field(one) for name, one in fact.items()}
        case Mapping():
            return "A", []
        case list() | tuple():
            return "A", [_field(one) for one in fact]
        case None:
            return "S", "undefined"
        case _:
            return "S", str(fact)


def _time_term(local_time: str) -> str:
    """A local time as RabbitMQ's headers show it, `{{2026,11,25},{9,5,3}}`."""
    at = datetime.strptime(local_time, "%Y-%m-%d %H:%M:%S")
    return format_term(((at.year, at.month, at.day), (at.hour, at.minute, at.second)))


def _address_term(address: str) -> str:
    """An IP address as RabbitMQ shows it, `{127,0,0,1}`; another text as it is."""
    try:
        packed = ipaddress.ip_address(address.partition("%")[0]).packed
    except ValueError:
        return address
    if len(packed) == ipaddress.IPV4LENGTH // 8:
        return format_term(tuple(packed))
    pairs = zip(packed[::2], packed[1::2], strict=True)
    return format_term(tuple(high << 8 | low for high, low in pairs))

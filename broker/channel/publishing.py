"""Publishing: from a basic.publish and its content to the queues.

A publisher on a connection repeats itself, so what a basic.publish asks for is looked up once and
kept as a `Target`, under the very bytes of its arguments: exchange, routing key, the queues it
routes to. A target is good until the vhost's generation changes. With it, a run of messages
(amqp/frames.py) costs one dict lookup, one object a message, and one call a queue.

Whatever is unusual, of the message (`ContentHeader.needs_care`) or of the channel (a transaction,
an exchange that decides message by message), takes the longer way of `_publish_with_care`, which
checks what RabbitMQ checks in the order in which it checks it.
"""

import re
import struct

from pamqp import commands

from broker.amqp.erlang_terms import FIELD_TYPE_NAMES, format_binary
from broker.amqp.errors import (
    access_refused,
    frame_error,
    not_found,
    not_implemented,
    precondition_failed,
)
from broker.amqp.field_table import Table, text_of
from broker.amqp.properties import (
    DIRECT_REPLY_TO,
    PERSISTENT,
    TRANSIENT,
    BlindCopyHeader,
    ContentHeader,
    encode_properties,
)
from broker.amqp.reply_codes import NAMES, NO_ROUTE
from broker.binding import Exchange
from broker.channel.access import check, check_topic
from broker.channel.channel import Channel
from broker.names import EXCHANGE, resource
from broker.queues.actor import Queue
from broker.queues.arguments import TTL_MS_MAX
from broker.queues.dead_letter import DEATH_HEADERS
from broker.taps import Taps
from storage.message import Address, Message

TARGETS_MAX = 1024
"""Targets kept for one connection; one that uses more routing keys starts over."""
MESSAGE_BYTES_MAX = 512 * 1024 * 1024
"""RabbitMQ's hard limit, whatever is configured."""

_MANDATORY, _IMMEDIATE = 1, 2
_TICKET_BYTES = 2
NO_PROPERTIES = ContentHeader(b"\0\0")


class Target:
    """Where one kind of basic.publish goes. Made per connection: permissions are the user's.

    is_simple: the queues are known, and the same for every message.
    """

    __slots__ = (
        "address", "exchange", "generation", "is_immediate", "is_mandatory", "is_simple", "queues",
    )  # fmt: skip

    def __init__(self, arguments: bytes) -> None:
        exchange_end = _TICKET_BYTES + 1 + arguments[_TICKET_BYTES]
        key_end = exchange_end + 1 + arguments[exchange_end]
        flags = arguments[key_end]
        if key_end + 1 != len(arguments):
            raise IndexError
        exchange = text_of(arguments[_TICKET_BYTES + 1 : exchange_end])
        routing_key = text_of(arguments[exchange_end + 1 : key_end])
        self.address = Address(exchange, routing_key, arguments[_TICKET_BYTES:key_end])
        self.is_mandatory = bool(flags & _MANDATORY)
        self.is_immediate = bool(flags & _IMMEDIATE)
        self.exchange: Exchange | None = None
        self.generation = -1
        self.is_simple = False
        self.queues: list[Queue] = []


def target_for(channel: Channel, arguments: bytes) -> Target:
    """The target for a basic.publish with these arguments. Raises 501 if they are malformed."""
    targets = channel.connection.targets
    target: Target | None = targets.get(arguments)
    if target is None:
        try:
            target = Target(arguments)
        except (IndexError, struct.error):
            raise frame_error(f"cannot decode {format_binary(arguments)}") from None
        if len(targets) >= TARGETS_MAX:
            targets.clear()
        targets[arguments] = target
    return target


def publish(
    channel: Channel, target: Target, header: ContentHeader, body_bytes: int, bodies: list[bytes]
) -> None:
    """Publish a run of messages. Raises ChannelFault or ConnectionFault."""
    check_message_size(channel, body_bytes)
    if target.generation != channel.vhost.generation:
        _resolve(channel, target)
    if header.needs_care or not target.is_simple or channel.transaction is not None:
        if header.needs_care:
            _check_selected_topics(channel, target, header)
        for body in bodies:
            _publish_with_care(channel, target, header, body)
        return
    address = target.address
    tracer = channel.vhost.tracer
    if tracer is None:
        messages = [Message(address, header, body) for body in bodies]
    else:
        messages = _numbered(tracer, address, header, bodies)
        tracer.published(channel, messages, [address.routing_key], target.queues)
    count = len(messages)
    confirms = channel.confirms
    publisher, sequence = None, 0
    if confirms is not None:
        publisher, sequence = channel, confirms.published + 1
        confirms.published += count
        if not channel.has_confirms_due:
            channel.confirms_due()
    for queue in target.queues:
        queue.publish(messages, body_bytes * count, publisher, sequence)
    exchange = target.exchange
    assert exchange is not None
    routed = count * len(target.queues)
    exchange.published_count += count
    exchange.routed_count += routed
    channel.counts.published += count
    channel.counts.routed += routed
    if not routed:
        _unroutable(channel, target, messages)
    if channel.connection.services.observer is not None:
        _observe(channel, messages, target.queues)


def _numbered(
    tracer: Taps, address: Address, header: ContentHeader, bodies: list[bytes]
) -> list[Message]:
    """A run of messages with numbers that follow each other."""
    first = tracer.take_numbers(len(bodies))
    return [
        Message(address, header, body, None, number) for number, body in enumerate(bodies, first)
    ]


def without_deaths(header: ContentHeader) -> ContentHeader:
    """The header without what a client says of deaths: RabbitMQ 4 counts only those it has seen."""
    headers = {name: field for name, field in header.headers.items() if name not in DEATH_HEADERS}
    return header if len(headers) == len(header.headers) else header.replace(headers=headers)


def refuse(channel: Channel, count: int, reason: str) -> None:
    """Take none of a run: an alarm lasts too long. Raises 406 where there are no confirms."""
    confirms = channel.confirms
    if confirms is None:
        raise precondition_failed(f"publishing is refused: {reason}")
    for _ in range(count):
        confirms.published += 1
        channel.refuse(confirms.published)


def check_message_size(channel: Channel, body_bytes: int) -> None:
    """Raise 406 for a body above the configured size."""
    size_max = channel.connection.services.config.max_message_size_bytes
    if body_bytes > size_max:
        configured = "configured " if size_max != MESSAGE_BYTES_MAX else ""
        raise precondition_failed(
            f"message size {body_bytes} is larger than {configured}max size {size_max}"
        )


def _resolve(channel: Channel, target: Target) -> None:
    """Look up where the target leads, checking what the user may do."""
    if target.is_immediate:
        raise not_implemented("immediate=true")
    vhost = channel.vhost
    address = target.address
    check(channel, EXCHANGE, address.exchange, "write")
    exchange = vhost.exchanges.get(address.exchange)
    if exchange is None:
        raise not_found(f"no {resource(EXCHANGE, address.exchange, vhost.name)}")
    if exchange.internal:
        what = resource(EXCHANGE, address.exchange, vhost.name)
        raise access_refused(f"cannot publish to internal {what}")
    if exchange.type_name == "topic":
        check_topic(channel, address.exchange, address.routing_key, "write")
    target.exchange = exchange
    target.is_simple = False
    if not _is_reply(address):
        found = vhost.route(exchange, [address.routing_key], NO_PROPERTIES)
        target.is_simple = found.is_cacheable and not found.remembering
        target.queues = [queue for queue in found.queues if isinstance(queue, Queue)]
    target.generation = vhost.generation


def _check_selected_topics(channel: Channel, target: Target, header: ContentHeader) -> None:
    """The keys of CC and BCC have to be the user's as well, as in RabbitMQ from 4.0 on.

    Asked once for a run of messages, before the first is published: a backend may have to be asked.
    """
    exchange = target.exchange
    assert exchange is not None
    if exchange.type_name == "topic":
        for key in _sender_selected(header, [])[1]:
            check_topic(channel, exchange.name, key, "write")


def _is_reply(address: Address) -> bool:
    return not address.exchange and address.routing_key.startswith(DIRECT_REPLY_TO + ".")


def _publish_with_care(
    channel: Channel, target: Target, header: ContentHeader, body: bytes
) -> None:
    """Publish one message of which something is unusual."""
    ttl_ms: int | None = None
    keys = [target.address.routing_key]
    if header.needs_care:
        header = _with_reply_name(channel, header)
        _check_user_id(channel, header)
        ttl_ms = read_expiration(header)
        _check_delivery_mode(header)
        if channel.connection.services.config.is_as_rabbitmq_4:
            header = without_deaths(header)
        header, keys = _sender_selected(header, keys)
    sequence = 0
    if channel.confirms is not None:
        channel.confirms.published += 1
        sequence = channel.confirms.published
        channel.confirms_due()
    tracer = channel.vhost.tracer
    number = tracer.take_numbers(1) if tracer is not None else 0
    message = Message(target.address, header, body, None, number)
    if channel.transaction is None:
        _route_and_deliver(channel, target, message, keys, ttl_ms, sequence)
    else:
        channel.transaction.publishes.append(
            lambda: _route_and_deliver(channel, target, message, keys, ttl_ms, sequence)
        )


def _route_and_deliver(
    channel: Channel,
    target: Target,
    message: Message,
    keys: list[str],
    ttl_ms: int | None,
    sequence: int,
) -> None:
    vhost = channel.vhost
    exchange = target.exchange
    header = message.header
    assert exchange is not None
    assert isinstance(header, ContentHeader)
    exchange.published_count += 1
    channel.counts.published += 1
    if _is_reply(target.address):
        _deliver_reply(channel, target, message)
        return
    found = vhost.route(exchange, keys, header)
    queues = [queue for queue in found.queues if isinstance(queue, Queue)]
    if vhost.tracer is not None:
        vhost.tracer.published(channel, [message], keys, queues)
    for history in found.remembering:
        history.remember(message, header)
    for delaying in found.delaying:
        assert isinstance(delaying, Exchange)
        vhost.delay(delaying, message, keys, ttl_ms)
    publisher = channel if sequence or channel.transaction is not None else None
    for queue in queues:
        if ttl_ms is None:
            queue.publish([message], len(message.body), publisher, sequence)
        else:
            queue.publish_expiring(message, ttl_ms, publisher, sequence)
    exchange.routed_count += len(queues)
    channel.counts.routed += len(queues)
    if not queues and not found.delaying:
        _unroutable(channel, target, [message])
    if channel.connection.services.observer is not None:
        _observe(channel, [message], queues)


def _deliver_reply(channel: Channel, target: Target, message: Message) -> None:
    """A direct reply goes to the channel that waits for it, past any queue.

    It counts as unroutable all the same, since no queue got it: RabbitMQ returns a mandatory reply
    that it has delivered.
    """
    if channel.vhost.tracer is not None:
        channel.vhost.tracer.published(channel, [message], [target.address.routing_key], [])
    replies = channel.connection.services.reply_consumers
    consumer = replies.get(target.address.routing_key)
    if consumer is not None:
        consumer.deliver_reply(message)
    _unroutable(channel, target, [message])


def _unroutable(channel: Channel, target: Target, messages: list[Message]) -> None:
    """Nobody gets these: the publisher gets them back if they are mandatory."""
    assert target.exchange is not None
    target.exchange.unroutable_count += len(messages)
    if not target.is_mandatory:
        channel.counts.dropped += len(messages)
        return
    channel.counts.returned += len(messages)
    if channel.vhost.tracer is not None:
        channel.vhost.tracer.returned(channel, messages, NO_ROUTE, NAMES[NO_ROUTE])
    for message in messages:
        channel.send_content(
            commands.Basic.Return,
            message,
            reply_code=NO_ROUTE,
            reply_text=NAMES[NO_ROUTE],
            exchange=target.address.exchange,
            routing_key=target.address.routing_key,
        )


def _observe(channel: Channel, messages: list[Message], queues: list[Queue]) -> None:
    observer = channel.connection.services.observer
    assert observer is not None
    names = [queue.name for queue in queues]
    for message in messages:
        observer.published(channel.vhost.name, message, names)


# What a message's properties ask for


def _with_reply_name(channel: Channel, header: ContentHeader) -> ContentHeader:
    """Direct reply-to: put the channel's own name for it in the place of the general one."""
    if header.properties.get("reply_to") != DIRECT_REPLY_TO:
        return header
    if not channel.reply_name:
        raise precondition_failed("fast reply consumer does not exist")
    return header.replace(reply_to=channel.reply_name)


def _check_user_id(channel: Channel, header: ContentHeader) -> None:
    claimed = header.properties.get("user_id")
    user = channel.connection.user
    if claimed is None or claimed == user.name or "impersonator" in user.tags:
        return
    raise precondition_failed(
        f"user_id property set to '{claimed}' but authenticated user was '{user.name}'"
    )


def read_expiration(header: ContentHeader) -> int | None:
    """The message's time to live in milliseconds. Raises 406 with RabbitMQ's words."""
    text = header.properties.get("expiration")
    if text is None:
        return None
    match = re.match(r"[+-]?[0-9]+", text)
    if match is None:
        problem = "no_integer"
    elif match.end() < len(text):
        problem = f'{{leftover_string,"{text[match.end() :]}"}}'
    else:
        value = int(text)
        if 0 <= value <= TTL_MS_MAX:
            return value
        problem = f"{{value_{'negative' if value < 0 else 'too_large'},{value}}}"
    raise precondition_failed(f"invalid expiration '{text}': {problem}")


def _check_delivery_mode(header: ContentHeader) -> None:
    if header.delivery_mode not in (TRANSIENT, PERSISTENT):
        raise _invalid_message(f"delivery_mode_unknown,{header.delivery_mode}")


def _sender_selected(header: ContentHeader, keys: list[str]) -> tuple[ContentHeader, list[str]]:
    """Sender-selected distribution: keys of CC and BCC are added, and BCC is taken off."""
    headers = header.headers
    cc, bcc = _selected_keys(headers, "CC"), _selected_keys(headers, "BCC")
    if "BCC" in headers:
        kept = {name: field for name, field in headers.items() if name != "BCC"}
        properties = {**header.properties, "headers": kept}
        header = BlindCopyHeader(encode_properties(properties), bcc)
    return header, [*keys, *cc, *bcc]


def _selected_keys(headers: Table, name: str) -> list[str]:
    field = headers.get(name)
    if field is None:
        return []
    if field[0] != "A":
        kind = FIELD_TYPE_NAMES[field[0]]
        raise _invalid_message(f'unacceptable_type_in_header,"{name}",{kind}')
    return [value for letter, value in field[1] if letter == "S"]


def _invalid_message(term: str) -> Exception:
    return precondition_failed(f"invalid message: {{{term}}}")

"""Publishing: from a run of messages to the queues.

A publisher uses the same addresses again and again, so the result of looking up an address is kept
as a `PublishTarget` (targets.py, resolving.py). With it, a run of messages costs one dict lookup,
one object for each message, and one call for each queue.

Each target has its `work` per message, in the units of broker/runtime/turns.py, by which the
protocol splits a long run: the work of an entry in each queue, and more for a queue in which
messages die.

A message that is unusual (`ContentHeader.needs_care`), or an exchange that decides message by
message, takes the longer path of `_publish_individually`, which makes RabbitMQ's checks in its
order. A transaction keeps publications, in their runs, until the commit.
"""

import re
from collections.abc import Sequence
from functools import partial

from leveret.broker.amqp.content_header import ContentHeader, make_header
from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.field_terms import FIELD_TYPE_NAMES
from leveret.broker.amqp.properties import (
    DIRECT_REPLY_TO,
    EXPIRES,
    NEEDS_CARE,
    PERSISTENT,
    STORED_BCC,
    STORED_FORM,
    STORED_RETRY,
    TRANSIENT,
    TTL_MS_MAX,
)
from leveret.broker.amqp.reply_codes import NAMES, NO_ROUTE
from leveret.broker.events.taps import DUPLICATE, Taps
from leveret.broker.exchanges.router import Route
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import QueueClient, publish_each
from leveret.broker.queues.dead_letters.header import decoding_work, without_deaths
from leveret.broker.queues.deduplication.identifiers import check_identifier
from leveret.broker.runtime.names import EXCHANGE, resource
from leveret.broker.runtime.pending import Answer, Steps
from leveret.broker.runtime.turns import NextTurn
from leveret.broker.sessions.access import check_topic
from leveret.broker.sessions.interceptors import intercept_incoming
from leveret.broker.sessions.resolving import is_reply, resolve
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.targets import RUN_WORK, PublishTarget
from leveret.broker.sessions.transaction import Transaction
from leveret.broker.vhost import routing
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.fan_out import CARE_WORK, QUEUES_AT_ONCE
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.messages.message import Message

MESSAGE_BYTES_MAX = 512 * 1024 * 1024
"""RabbitMQ's hard limit, which no configuration raises."""
_QUEUES = "/queues/"
_REPLY_ADDRESS = f"{_QUEUES}{DIRECT_REPLY_TO}."
_HIDDEN = ("BCC", STORED_BCC, STORED_FORM, STORED_RETRY)
"""Headers that consumers must not see."""


def publish(session: Session, target: PublishTarget, publication: Publication) -> Steps | None:
    """Publish a run of messages. Raises ChannelFault or ConnectionFault.

    Returns None when they are published; a coroutine that publishes them if permissions have to be
    checked first, which may wait for a backend.
    """
    check_message_size(session, publication.body_bytes)
    messages = publication.messages
    needs_care = routing.header_of(messages[0]).kind >= NEEDS_CARE
    if target.generation != session.vhost.generation:
        steps = resolve(session, target)
        if steps is not None:
            return _check_and_publish(session, target, publication, steps)
    if needs_care or not target.is_simple:
        if needs_care and _is_topic(target):
            return _check_and_publish(session, target, publication, None)
        return _publish_each(session, target, messages)
    count = len(messages)
    tracer = session.vhost.tracer
    if tracer is not None:
        _number(tracer, messages)
    transaction = session.transaction
    if transaction is not None:
        first = transaction.next_number(count)
        transaction.publishes.append(
            partial(_commit_run, session, target, publication, transaction, first)
        )
        return None
    confirms = session.confirms
    if confirms is not None:
        publication.publisher = confirms
        publication.first = confirms.published + 1
        confirms.published += count
        if not session.has_confirms_due:
            session.confirms_due()
    rest = _deliver_run(session, target, publication)
    return None if rest is None else reached_all(session, rest)


def _deliver_run(
    session: Session, target: PublishTarget, publication: Publication
) -> Answer[None] | None:
    """Hand a run to the queues of its target; returns as `routing.deliver` does."""
    vhost, queues, messages = session.vhost, target.queues, publication.messages
    tracer = vhost.tracer
    if tracer is not None:
        tracer.published(session, messages, [target.address.routing_key], queues)
    if routing.header_of(messages[0]).kind & EXPIRES:
        rest = _deliver_expiring(vhost, queues, publication)
    else:
        rest = routing.deliver(vhost, queues, publication)
    exchange = target.exchange
    assert exchange is not None
    count = len(messages)
    routed = count * len(queues)
    exchange.published_count += count
    exchange.routed_count += routed
    session.counts.published += count
    session.counts.routed += routed
    if not routed:
        _unroutable(session, target, messages)
    if session.services.observer is not None:
        _observe(session, messages, queues)
    return rest


def _deliver_expiring(
    vhost: VirtualHost, queues: list[QueueClient], publication: Publication
) -> Answer[None] | None:
    """Hand expiring messages to queues: together, or those with the same time to live."""
    if publication.has_one_time_to_live():
        return routing.deliver(vhost, queues, publication)
    if len(queues) <= QUEUES_AT_ONCE:
        for queue in queues:
            vhost.turns.work_left -= RUN_WORK * (publish_each(queue, publication) - 1)
        return None
    rest: Answer[None] | None = None
    for part in publication.by_time_to_live():
        vhost.turns.work_left -= RUN_WORK
        # Parts reach the queues in order, so the last one is the last to have reached all of them.
        rest = routing.deliver(vhost, queues, part)
    return rest


def _commit_run(
    session: Session,
    target: PublishTarget,
    publication: Publication,
    transaction: Transaction,
    first: int,
) -> Answer[None] | None:
    """Publish a run of a transaction. If routes have changed since, each message is routed."""
    if target.is_simple and target.generation == session.vhost.generation:
        session.vhost.turns.work_left -= target.work * len(publication.messages)
        publication.publisher, publication.first = transaction, first
        return _deliver_run(session, target, publication)
    keys = [target.address.routing_key]
    each = [
        partial(
            _route_and_deliver, session, target,
            Publication(
                [message], len(message.body), routing.header_of(message).ttl_ms,
                transaction, number,
            ),
            keys,
        )
        for number, message in enumerate(publication.messages, first)
    ]  # fmt: skip
    transaction.publishes.extendleft(reversed(each))
    return None


async def reached_all(session: Session, rest: Answer[None]) -> None:
    """Wait until all queues of a large fan-out have the messages; later methods wait, too.

    The queues get them in turns of their own, even if the session ends in between.
    """
    while not rest.is_given:
        await NextTurn(session.vhost.turns, rest)


async def _check_and_publish(
    session: Session, target: PublishTarget, publication: Publication, steps: Steps | None
) -> None:
    """Publish a run after all of its permissions are checked, in one generation of the vhost.

    steps: those of `resolving.resolve`, if that has to be done first.
    """
    if steps is not None:
        await steps
    vhost = session.vhost
    header = routing.header_of(publication.messages[0])
    assert len(publication.messages) == 1 or not header.needs_care, "its permissions are its own"
    generation = -1
    while generation != vhost.generation:
        generation = vhost.generation
        if target.generation != generation:
            steps = resolve(session, target)
            if steps is not None:
                await steps
        if header.needs_care:
            await _check_selected_topics(session, target, header)
    if header.needs_care:
        rest = _publish_each(session, target, publication.messages)
    else:
        rest = publish(session, target, publication)
    if rest is not None:
        await rest


def _publish_each(session: Session, target: PublishTarget, messages: list[Message]) -> Steps | None:
    """Publish a run on the longer path, message by message."""
    # The protocol has counted the known work already; each message counts its own below.
    session.vhost.turns.work_left += target.work * len(messages)
    count, rest = _publish_some(session, target, messages, 0)
    if rest is None and count == len(messages):
        return None
    return _publish_others(session, target, messages, count, rest)


def _publish_some(
    session: Session, target: PublishTarget, messages: list[Message], start: int
) -> tuple[int, Answer[None] | None]:
    """Publish messages of a run from an index on: as many as there is work left for, up to one that
    goes to very many queues. Learns the work of a message.

    Returns the index of the next one, and the result of `routing.publish` for the last one.
    """
    turns = session.vhost.turns
    before = turns.work_left
    place = start
    while True:
        message = messages[place]
        place += 1
        header = routing.header_of(message)
        turns.work_left -= decoding_work(header) + CARE_WORK
        rest = _publish_individually(session, target, header, message.body)
        if rest is not None or turns.work_left <= 0 or place == len(messages):
            target.work = (before - turns.work_left) // (place - start)
            return place, rest


async def _publish_others(
    session: Session,
    target: PublishTarget,
    messages: list[Message],
    start: int,
    rest: Answer[None] | None,
) -> None:
    """Publish the messages of a run from an index on, after the result of `routing.publish` for the
    message before them.
    """
    while True:
        if rest is not None:
            await reached_all(session, rest)
        else:
            await session.vhost.turns.give_way()
        if start == len(messages):
            return
        start, rest = _publish_some(session, target, messages, start)


def _number(tracer: Taps, messages: list[Message]) -> None:
    """Give consecutive numbers to a run of messages."""
    number = tracer.take_numbers(len(messages))
    for message in messages:
        message.number = number
        number += 1


def described(session: Session, target: PublishTarget) -> str:
    """A basic.publish and its exchange, for a fault."""
    what = resource(EXCHANGE, target.address.exchange, session.vhost.name)
    return f"basic.publish on {what}"


def refuse(session: Session, count: int, reason: str) -> None:
    """Refuse a run, because an alarm has lasted too long. Raises 406 without confirms."""
    confirms = session.confirms
    if confirms is None:
        raise precondition_failed(f"publishing is refused: {reason}")
    for _ in range(count):
        confirms.published += 1
        confirms.refuse(confirms.published)


def check_message_size(session: Session, body_bytes: int) -> None:
    """Raise 406 for a body above the configured size."""
    size_max = session.message_bytes_max
    if body_bytes > size_max:
        configured = "configured " if size_max != MESSAGE_BYTES_MAX else ""
        raise precondition_failed(
            f"message size {body_bytes} is larger than {configured}max size {size_max}"
        )


def _is_topic(target: PublishTarget) -> bool:
    return target.exchange is not None and target.exchange.type_name == "topic"


async def _check_selected_topics(
    session: Session, target: PublishTarget, header: ContentHeader
) -> None:
    """Raise 403 unless the user may write with the keys of CC and BCC, as RabbitMQ 4 does."""
    if _is_topic(target):
        for key in _sender_selected(header, [])[1]:
            await check_topic(session, target.address.exchange, key, "write")


def _publish_individually(
    session: Session, target: PublishTarget, header: ContentHeader, body: bytes
) -> Answer[None] | None:
    """Publish one message on the longer path; returns the result of `routing.publish`."""
    keys = [target.address.routing_key]
    ttl_ms = header.ttl_ms
    if header.needs_care:
        header = _with_reply_name(session, header)
        _check_user_id(session, header)
        ttl_ms = read_expiration(header)
        _check_delivery_mode(header)
        if session.services.config.is_as_rabbitmq_4:
            header = without_deaths(header)
        header, keys = _sender_selected(header, keys)
    if session.services.interceptors:
        header, body = intercept_incoming(session, target.address.exchange, keys, header, body)
        ttl_ms = header.ttl_ms
    if target.deduplicates:
        check_identifier(header)
    number = 0
    if session.confirms is not None:
        session.confirms.published += 1
        number = session.confirms.published
        session.confirms_due()
    tracer = session.vhost.tracer
    message_number = tracer.take_numbers(1) if tracer is not None else 0
    message = Message(target.address, header, body, None, message_number)
    transaction = session.transaction
    if transaction is None:
        publication = Publication([message], len(body), ttl_ms, session.confirms, number)
        return _route_and_deliver(session, target, publication, keys)
    publication = Publication([message], len(body), ttl_ms, transaction, transaction.next_number(1))
    transaction.publishes.append(partial(_route_and_deliver, session, target, publication, keys))
    return None


def _route_and_deliver(
    session: Session, target: PublishTarget, publication: Publication, keys: list[str]
) -> Answer[None] | None:
    """Publish one message from the target's exchange; returns as `routing.publish` does."""
    (message,) = publication.messages
    exchange = target.exchange
    assert exchange is not None
    exchange.published_count += 1
    session.counts.published += 1
    if is_reply(target.address):
        _deliver_reply(session, target, message)
        return None
    routed = partial(_routed, session, target, exchange, message, keys)
    return routing.publish(session.vhost, exchange, publication, keys, routed=routed)


def _routed(
    session: Session,
    target: PublishTarget,
    exchange: Exchange,
    message: Message,
    keys: list[str],
    queues: list[QueueClient],
    found: Route,
) -> None:
    """Continue with a message whose queues are known."""
    if session.vhost.tracer is not None:
        reason = DUPLICATE if found.refusing else ""
        session.vhost.tracer.published(session, [message], keys, queues, reason)
    exchange.routed_count += len(queues)
    session.counts.routed += len(queues)
    if not queues and not found.delaying:
        _unroutable(session, target, [message], is_duplicate=bool(found.refusing))
    if session.services.observer is not None:
        _observe(session, [message], queues)


def _deliver_reply(session: Session, target: PublishTarget, message: Message) -> None:
    """Send a direct reply to the session that consumes it; no queue is involved.

    Before 4.2, RabbitMQ counted it as unroutable: it returned a mandatory reply that was delivered.
    """
    if session.vhost.tracer is not None:
        session.vhost.tracer.published(session, [message], [target.address.routing_key], [])
    session.services.replies.deliver(message)
    if session.returns_replies:
        _unroutable(session, target, [message])
    else:
        session.counts.routed += 1


def _unroutable(
    session: Session,
    target: PublishTarget,
    messages: list[Message],
    *,
    is_duplicate: bool = False,
) -> None:
    """No queue gets these messages: mandatory ones are returned to the publisher.

    The session may have ended while the route of a message was found. is_duplicate: an exchange
    refused the message, so that it is not lost.
    """
    assert target.exchange is not None
    is_returned = target.is_mandatory and not session.has_ended
    if not is_reply(target.address) and not is_duplicate:
        session.vhost.unroutable.note(messages, session.connection.user.name, is_returned)
    if not is_returned:
        session.counts.dropped += len(messages)
        return
    session.counts.returned += len(messages)
    if session.vhost.tracer is not None:
        reason = DUPLICATE if is_duplicate else ""
        session.vhost.tracer.returned(session, messages, NO_ROUTE, NAMES[NO_ROUTE], reason)
    session.send_returned(messages, NO_ROUTE, NAMES[NO_ROUTE])


def _observe(session: Session, messages: list[Message], queues: Sequence[QueueClient]) -> None:
    observer = session.services.observer
    assert observer is not None
    names = [queue.name for queue in queues]
    for message in messages:
        observer.published(session.vhost.name, message, names)


# Properties


def _with_reply_name(session: Session, header: ContentHeader) -> ContentHeader:
    """Direct reply-to: replace the general name by the one generated for the session.

    An address of AMQP 1.0 becomes the name in it.
    """
    reply_to = header.properties.get("reply_to", "")
    if reply_to.startswith(_REPLY_ADDRESS):
        return header.replace(reply_to=reply_to.removeprefix(_QUEUES))
    if reply_to != DIRECT_REPLY_TO:
        return header
    if not session.reply_name:
        raise precondition_failed("fast reply consumer does not exist")
    return header.replace(reply_to=session.reply_name)


def _check_user_id(session: Session, header: ContentHeader) -> None:
    claimed = header.properties.get("user_id")
    user = session.connection.user
    if claimed is None or claimed == user.name or "impersonator" in user.tags:
        return
    raise precondition_failed(
        f"user_id property set to '{claimed}' but authenticated user was '{user.name}'"
    )


def read_expiration(header: ContentHeader) -> int | None:
    """The message's time to live in milliseconds. Raises 406 with RabbitMQ's text."""
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
    """Sender-selected distribution: add the keys of CC and BCC, and remove the BCC header."""
    headers = header.headers
    cc, bcc = _selected_keys(headers, "CC"), _selected_keys(headers, "BCC")
    if any(name in headers for name in _HIDDEN):
        kept = {name: field for name, field in headers.items() if name not in _HIDDEN}
        header = make_header({**header.properties, "headers": kept}, bcc, header.form)
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

"""Binds queues and exchanges to exchanges for a session.

The checks, their order and their texts are RabbitMQ's. The functions raise ChannelFault and
ConnectionFault, and MetadataError for a change that cannot be written to disk. Each returns an
answer that is given when the change is on disk, which is awaited before the client is told.

An empty name of a queue stands for the queue that the session declared last; so does an empty
routing key beside it.
"""

from leveret.broker.amqp.errors import access_refused, not_found
from leveret.broker.amqp.field_table import Table, encode_table, sorted_table
from leveret.broker.amqp.properties import DIRECT_REPLY_TO
from leveret.broker.declarations.values import DeleteBinding, PutBinding
from leveret.broker.runtime.names import EXCHANGE, QUEUE, resource, without_line_breaks
from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions.access import (
    check,
    check_exclusive_access,
    check_not_default_exchange,
    check_not_sharded,
    check_topic,
    expand_queue_name,
)
from leveret.broker.sessions.session import Session


async def bind_queue(
    session: Session, queue_name: str, source: str, routing_key: str, arguments: Table
) -> Answer[None]:
    """Bind a queue to an exchange."""
    name, key = _queue_and_key(session, queue_name, routing_key)
    _check_not_for_replies(session, name)
    check_not_sharded(session, name, "bind")
    await _check_ends(session, QUEUE, name, source, key)
    queue = session.vhost.queues.get(name)
    if without_line_breaks(source) not in session.vhost.exchanges:
        raise _missing(session, EXCHANGE, source)
    if queue is None:
        raise _missing(session, QUEUE, name)
    check_exclusive_access(session, queue)
    return await _change(session, PutBinding, (QUEUE, name), source, key, arguments)


async def unbind_queue(
    session: Session, queue_name: str, source: str, routing_key: str, arguments: Table
) -> Answer[None]:
    """Remove a queue's binding; succeeds if the binding, queue or exchange does not exist."""
    name, key = _queue_and_key(session, queue_name, routing_key)
    _check_not_for_replies(session, name)
    check_not_sharded(session, name, "unbind")
    await _check_ends(session, QUEUE, name, source, key)
    queue = session.vhost.queues.get(name)
    if queue is None or without_line_breaks(source) not in session.vhost.exchanges:
        return session.synced()
    check_exclusive_access(session, queue)
    return await _change(session, DeleteBinding, (QUEUE, name), source, key, arguments)


async def bind_exchange(
    session: Session, destination: str, source: str, routing_key: str, arguments: Table
) -> Answer[None]:
    """Bind an exchange to another."""
    name = without_line_breaks(destination)
    await _check_ends(session, EXCHANGE, name, source, routing_key)
    if without_line_breaks(source) not in session.vhost.exchanges:
        raise _missing(session, EXCHANGE, source)
    if name not in session.vhost.exchanges:
        raise _missing(session, EXCHANGE, destination)
    return await _change(session, PutBinding, (EXCHANGE, name), source, routing_key, arguments)


async def unbind_exchange(
    session: Session, destination: str, source: str, routing_key: str, arguments: Table
) -> Answer[None]:
    """Remove an exchange's binding; succeeds if the binding or an exchange does not exist."""
    name = without_line_breaks(destination)
    await _check_ends(session, EXCHANGE, name, source, routing_key)
    exchanges = session.vhost.exchanges
    if name not in exchanges or without_line_breaks(source) not in exchanges:
        return session.synced()
    return await _change(session, DeleteBinding, (EXCHANGE, name), source, routing_key, arguments)


def _queue_and_key(session: Session, queue_name: str, routing_key: str) -> tuple[str, str]:
    name = without_line_breaks(expand_queue_name(session, queue_name))
    if not queue_name and not routing_key:
        routing_key = session.last_queue
    return name, routing_key


def _check_not_for_replies(session: Session, name: str) -> None:
    """Raise 403 for an address of direct replies, as since RabbitMQ 4.3; before, it is missing."""
    if session.services.config.is_as_rabbitmq_4_3 and name.startswith(f"{DIRECT_REPLY_TO}."):
        raise access_refused("cannot bind or unbind to a volatile (direct reply-to) queue")


async def _check_ends(
    session: Session, kind: str, destination: str, source: str, routing_key: str
) -> None:
    """Raise 403 unless the user may bind these two. kind: the destination's."""
    source = without_line_breaks(source)
    await check(session, kind, destination, "write")
    if kind == EXCHANGE:
        check_not_default_exchange(destination)
    check_not_default_exchange(source)
    await check(session, EXCHANGE, source, "read")
    exchange = session.vhost.exchanges.get(source)
    if exchange is not None and exchange.type_name == "topic":
        await check_topic(session, source, routing_key, "read")


async def _change(
    session: Session,
    change: type[PutBinding] | type[DeleteBinding],
    destination: tuple[str, str],
    source: str,
    routing_key: str,
    arguments: Table,
) -> Answer[None]:
    """Add or remove a binding; the answer is given when the change is on disk."""
    kind, name = destination
    changed = session.submit(
        change(
            session.vhost.name, without_line_breaks(source), name, routing_key, kind,
            encode_table(sorted_table(arguments)), acting_user=session.connection.user.name,
        )
    )  # fmt: skip
    await changed
    return changed.synced()


def _missing(session: Session, kind: str, name: str) -> Exception:
    return not_found(f"no {resource(kind, name, session.vhost.name)}")

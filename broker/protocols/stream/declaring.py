"""Creates and deletes streams and super streams for clients.

The checks and declarations are those of queues, exchanges and bindings of AMQP 0-9-1, with the
codes of this protocol. A super stream is created as a whole: if a part fails, the other parts
are deleted.
"""

import logging
from collections.abc import Mapping, Sequence

from leveret.broker.amqp.errors import Fault
from leveret.broker.declarations.values import DeleteExchange
from leveret.broker.protocols.stream import codes
from leveret.broker.protocols.stream.serving import (
    CONFIGURE,
    CommandRefused,
    ServingConnection,
    check,
    code_of,
    find_queue,
    is_stream,
)
from leveret.broker.protocols.stream.stream_arguments import ArgumentError, table_of
from leveret.broker.protocols.stream.super_streams import find_super_stream, partitions
from leveret.broker.queues.contract.stream_arguments import ORDER_ARGUMENT, SUPER_STREAM_ARGUMENT
from leveret.broker.runtime.names import EXCHANGE
from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions import declaring_bindings, declaring_exchanges, declaring_queues
from leveret.broker.sessions.declaring_exchanges import ExchangeProperties
from leveret.broker.sessions.declaring_queues import QueueProperties

logger = logging.getLogger("leveret.connection")


async def create(connection: ServingConnection, name: str, arguments: Mapping[str, str]) -> bytes:
    """Create a stream. Raises CommandRefused, also if it exists."""
    await check(connection, name, CONFIGURE)
    await _create(connection, name, arguments)
    return b""


async def _create(connection: ServingConnection, name: str, arguments: Mapping[str, str]) -> None:
    if not name:
        raise CommandRefused(codes.PRECONDITION_FAILED)
    try:
        properties = QueueProperties(table_of(arguments), durable=True)
    except ArgumentError as error:
        logger.error("%s cannot create stream '%s': %s", connection.name, name, error)
        raise CommandRefused(codes.PRECONDITION_FAILED) from None
    existed = name in connection.vhost.queues
    try:
        declared = await declaring_queues.declare_queue(connection.session, name, properties)
    except Fault as fault:
        logger.error("%s cannot create stream '%s': %s", connection.name, name, fault)
        raise CommandRefused(code_of(fault)) from None
    if existed:
        raise CommandRefused(codes.STREAM_ALREADY_EXISTS)
    await declared.synced


async def delete(connection: ServingConnection, name: str) -> bytes:
    """Delete a stream. Raises CommandRefused."""
    await check(connection, name, CONFIGURE)
    await _delete(connection, name)
    return b""


async def _delete(connection: ServingConnection, name: str) -> None:
    queue = find_queue(connection, name)
    deleted: Answer[int] = Answer()
    queue.delete(False, False, connection.session.connection.requester, deleted)
    await deleted
    await deleted.synced()


# Super streams


async def create_super_stream(
    connection: ServingConnection, name: str, streams: Sequence[str], keys: Sequence[str],
    arguments: Mapping[str, str],
) -> bytes:  # fmt: skip
    """Create an exchange, its partitions, and a binding for each key. Raises CommandRefused."""
    await _check_super_stream(connection, name, streams)
    if not name or len(streams) != len(keys) or len(set(streams)) < len(streams):
        raise CommandRefused(codes.PRECONDITION_FAILED)
    vhost = connection.vhost
    if name in vhost.exchanges or any(stream in vhost.queues for stream in streams):
        raise CommandRefused(codes.STREAM_ALREADY_EXISTS)
    made: list[str] = []
    is_made = False
    try:
        await _declare_exchange(connection, name)
        for order, (stream, key) in enumerate(zip(streams, keys, strict=True)):
            await _create(connection, stream, arguments)
            made.append(stream)
            await _bind(connection, stream, name, key, order)
        is_made = True
    finally:
        if not is_made:
            _delete_at_once(connection, name, made)
    return b""


async def delete_super_stream(connection: ServingConnection, name: str) -> bytes:
    """Delete an exchange and its partitions. Raises CommandRefused."""
    exchange = connection.vhost.exchanges.get(name)
    streams = [] if exchange is None else partitions(connection.vhost, name)
    await _check_super_stream(connection, name, streams)
    find_super_stream(connection.vhost, name)
    for stream in streams:
        await _delete(connection, stream)
    try:
        await (await declaring_exchanges.delete_exchange(connection.session, name, if_unused=False))
    except Fault as fault:
        logger.error("%s cannot delete super stream '%s': %s", connection.name, name, fault)
        raise CommandRefused(code_of(fault)) from None
    return b""


async def _check_super_stream(
    connection: ServingConnection, name: str, streams: Sequence[str]
) -> None:
    """Raise CommandRefused unless the user may configure the exchange and all partitions."""
    access, vhost = connection.services.access, connection.vhost.name
    try:
        await access.check(connection.user, vhost, EXCHANGE, name, CONFIGURE)
    except Fault as fault:
        raise CommandRefused(code_of(fault)) from None
    for stream in streams:
        await check(connection, stream, CONFIGURE)


async def _declare_exchange(connection: ServingConnection, name: str) -> None:
    properties = ExchangeProperties("direct", {SUPER_STREAM_ARGUMENT: ("t", True)}, durable=True)
    try:
        await (await declaring_exchanges.declare_exchange(connection.session, name, properties))
    except Fault as fault:
        logger.error("%s cannot create super stream '%s': %s", connection.name, name, fault)
        raise CommandRefused(code_of(fault)) from None


async def _bind(
    connection: ServingConnection, stream: str, exchange: str, key: str, order: int
) -> None:
    arguments = {ORDER_ARGUMENT: ("l", order)}
    try:
        await (
            await declaring_bindings.bind_queue(
                connection.session, stream, exchange, key, arguments
            )
        )
    except Fault as fault:
        logger.error("%s cannot bind stream '%s': %s", connection.name, stream, fault)
        raise CommandRefused(code_of(fault)) from None


def _delete_at_once(connection: ServingConnection, exchange: str, streams: Sequence[str]) -> None:
    """Delete the created parts of a super stream, without waiting for it."""
    vhost, requester = connection.vhost, connection.session.connection.requester
    for stream in streams:
        queue = vhost.queues.get(stream)
        if queue is not None and is_stream(queue):
            vhost.delete_queue(queue, requester)
    if exchange in vhost.exchanges:
        connection.session.submit(
            DeleteExchange(vhost.name, exchange, acting_user=connection.user.name)
        )

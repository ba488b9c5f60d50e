"""Declares and deletes exchanges for a session.

The checks, their order and their texts are RabbitMQ's. The functions raise ChannelFault and
ConnectionFault, and MetadataError for a change that cannot be written to disk. Each returns an
answer that is given when the change is on disk, which is awaited before the client is told.
"""

from typing import NamedTuple

from leveret.broker.amqp.errors import Fault, access_refused, precondition_failed
from leveret.broker.amqp.field_table import Table, encode_table
from leveret.broker.amqp.field_terms import FIELD_TYPE_NAMES
from leveret.broker.declarations.values import DeleteExchange, PutExchange
from leveret.broker.erlang.terms import Atom, format_term
from leveret.broker.exchanges import EXCHANGE_TYPES, no_such_type
from leveret.broker.exchanges.delayed import QUEUE_TYPE_ARGUMENT, DelayedMessage, queue_type
from leveret.broker.exchanges.federation_upstream import MAX_HOPS, FederationUpstream
from leveret.broker.runtime.names import EXCHANGE, RESERVED_PREFIX, resource, without_line_breaks
from leveret.broker.runtime.pending import Answer, given
from leveret.broker.sessions.access import (
    check,
    check_not_default_exchange,
    check_not_reserved,
    find_exchange,
)
from leveret.broker.sessions.equivalence import require_same, require_same_arguments
from leveret.broker.sessions.session import Session
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.replicated_delays import ReplicatedDelays

ALTERNATE = "alternate-exchange"
LOCAL_RANDOM = "x-local-random"
"""The type of exchanges/local_random.py, which is imported when one is declared."""


class ExchangeProperties(NamedTuple):
    """The properties in an exchange's declaration, besides its name. type_name: such as `topic`."""

    type_name: str
    arguments: Table
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False


async def declare_exchange(
    session: Session, name: str, properties: ExchangeProperties | None
) -> Answer[None]:
    """Declare an exchange; without properties, check that it exists."""
    name = without_line_breaks(name)
    if properties is not None:
        return await _declare_actively(session, name, properties)
    check_not_default_exchange(name)
    find_exchange(session, name)
    return given(None)


async def _declare_actively(
    session: Session, name: str, properties: ExchangeProperties
) -> Answer[None]:
    await _check(session, name, properties)
    exchanges = session.vhost.exchanges
    if name not in exchanges:
        put = PutExchange(
            session.vhost.name, name, properties.type_name, properties.durable,
            properties.auto_delete, properties.internal, encode_table(properties.arguments),
            acting_user=session.connection.user.name,
        )  # fmt: skip
        declared = session.submit(put)
        await declared
        if name in exchanges:
            await _begin(session, exchanges[name])
        synced = declared.synced()
    else:
        synced = session.synced() if exchanges[name].durable else given(None)
    # Another client may have declared or deleted it in between.
    exchange = find_exchange(session, name)
    _require_same_exchange(session, exchange, properties)
    return synced


async def _begin(session: Session, exchange: Exchange) -> None:
    """Wait until the queue of a delayed message exchange takes messages, if it has one.

    If it does not, the exchange is deleted, and the error raised.
    """
    vhost, delayed = session.vhost, exchange.delayed
    queue = delayed.queue if isinstance(delayed, ReplicatedDelays) else None
    if queue is None:
        return
    begun: Answer[None] = Answer()
    vhost.kinds.of(queue.kind).begin(queue, begun)
    try:
        await begun
    except Fault:
        session.submit(DeleteExchange(vhost.name, exchange.name))
        raise


async def check_declaration(session: Session, name: str, properties: ExchangeProperties) -> None:
    """Check whether an exchange could be declared, without declaring it. Raises the fault."""
    name = without_line_breaks(name)
    await _check(session, name, properties)
    if name in session.vhost.exchanges:
        _require_same_exchange(session, find_exchange(session, name), properties)


async def _check(session: Session, name: str, properties: ExchangeProperties) -> None:
    """Raise 403, 406 or 503 if the user may not declare an exchange, or a new one is invalid."""
    if properties.type_name not in EXCHANGE_TYPES:
        raise no_such_type(properties.type_name)
    check_not_default_exchange(name)
    await check(session, EXCHANGE, name, "configure")
    if name not in session.vhost.exchanges:
        check_not_reserved(EXCHANGE, name)
        await _check_alternate(session, name, properties.arguments)
        _check_enabled(session, properties.type_name)


def _check_enabled(session: Session, type_name: str) -> None:
    """Raise 406 for an exchange of a type of which none may be declared, as since RabbitMQ 4.2."""
    if type_name == LOCAL_RANDOM and not session.services.config.declares_local_random:
        raise precondition_failed(f"{type_name} exchange is disabled by configuration")


def _require_same_exchange(
    session: Session, exchange: Exchange, properties: ExchangeProperties
) -> None:
    """Raise 406 unless an exchange matches the properties that it is declared with."""
    what = resource(EXCHANGE, exchange.name, session.vhost.name)
    # Types are atoms in RabbitMQ, and printed as such.
    declared, current = (
        format_term(Atom(name)) for name in (properties.type_name, exchange.type_name)
    )
    require_same("type", declared, current, what)
    require_same("durable", properties.durable, exchange.durable, what)
    require_same("auto_delete", properties.auto_delete, exchange.auto_delete, what)
    require_same("internal", properties.internal, exchange.internal, what)
    names = (MAX_HOPS, ALTERNATE) if exchange.type_name == FederationUpstream.name else (ALTERNATE,)
    require_same_arguments(names, properties.arguments, exchange.arguments, what)
    if exchange.type_name == DelayedMessage.name:
        received, current = map(queue_type, (properties.arguments, exchange.arguments))
        require_same(QUEUE_TYPE_ARGUMENT, received, current, what)


async def _check_alternate(session: Session, name: str, arguments: Table) -> None:
    """Raise 406 unless the alternate exchange is a string, 403 without the permissions for it."""
    alternate = arguments.get(ALTERNATE)
    if alternate is None:
        return
    if alternate[0] != "S":
        what = resource(EXCHANGE, name, session.vhost.name)
        kind = FIELD_TYPE_NAMES[alternate[0]]
        raise precondition_failed(f"invalid type '{kind}' for arg '{ALTERNATE}' in {what}")
    await check(session, EXCHANGE, name, "read")
    await check(session, EXCHANGE, alternate[1], "write")


async def delete_exchange(session: Session, name: str, *, if_unused: bool) -> Answer[None]:
    """Delete an exchange; succeeds if it does not exist. if_unused: only without bindings."""
    name = without_line_breaks(name)
    check_not_default_exchange(name)
    if name.startswith(RESERVED_PREFIX):
        what = resource(EXCHANGE, name, session.vhost.name)
        raise access_refused(f"deletion of system {what} not allowed")
    await check(session, EXCHANGE, name, "configure")
    exchange = session.vhost.exchanges.get(name)
    if exchange is None:
        return session.synced()
    if if_unused and exchange.bindings:
        what = resource(EXCHANGE, name, session.vhost.name)
        raise precondition_failed(f"{what} in use")
    user = session.connection.user.name
    deleted = session.submit(DeleteExchange(session.vhost.name, name, acting_user=user))
    await deleted
    return deleted.synced()

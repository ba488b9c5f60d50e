"""The exchange class: declaring, deleting and binding exchanges."""

from pamqp import commands

from leveret.broker.amqp.errors import (
    access_refused,
    not_found,
    precondition_failed,
)
from leveret.broker.amqp.field_table import Table, encode_table, sorted_table
from leveret.broker.amqp.field_terms import FIELD_TYPE_NAMES
from leveret.broker.amqp.methods import table_argument
from leveret.broker.binding import Exchange
from leveret.broker.channel.access import (
    check,
    check_not_default_exchange,
    check_not_reserved,
    check_topic,
    find_exchange,
)
from leveret.broker.channel.channel import Channel
from leveret.broker.channel.equivalence import require_same, require_same_arguments
from leveret.broker.declarations import DeleteBinding, DeleteExchange, PutBinding, PutExchange
from leveret.broker.exchanges import EXCHANGE_TYPES, no_such_type
from leveret.broker.exchanges.federation_upstream import MAX_HOPS, FederationUpstream
from leveret.broker.names import EXCHANGE, RESERVED_PREFIX, resource, without_line_breaks
from leveret.broker.pending import Answer, given

ALTERNATE = "alternate-exchange"


async def declare(channel: Channel, method: commands.Exchange.Declare) -> None:
    """Declare an exchange; with passive, check that it exists."""
    name = without_line_breaks(method.exchange)
    if method.passive:
        check_not_default_exchange(name)
        find_exchange(channel, name)
        synced: Answer[None] = given(None)
    else:
        synced = await _declare_actively(channel, name, method)
    if not method.nowait:
        await synced
        channel.send(commands.Exchange.DeclareOk)


async def _declare_actively(
    channel: Channel, name: str, method: commands.Exchange.Declare
) -> Answer[None]:
    """Declare an exchange; the answer is given when it is on disk."""
    if method.exchange_type not in EXCHANGE_TYPES:
        raise no_such_type(method.exchange_type)
    check_not_default_exchange(name)
    await check(channel, EXCHANGE, name, "configure")
    arguments = table_argument(method.arguments)
    exchanges = channel.vhost.exchanges
    if name not in exchanges:
        check_not_reserved(EXCHANGE, name)
        await _check_alternate(channel, name, arguments)
    if name not in exchanges:
        put = PutExchange(
            channel.vhost.name, name, method.exchange_type, method.durable, method.auto_delete,
            method.internal, encode_table(arguments), acting_user=channel.connection.user.name,
        )  # fmt: skip
        declared = channel.submit(put)
        await declared
        synced = declared.synced()
    else:
        synced = channel.synced() if exchanges[name].durable else given(None)
    # Another client may have declared or deleted it meanwhile.
    exchange = find_exchange(channel, name)
    what = resource(EXCHANGE, name, channel.vhost.name)
    require_same("type", method.exchange_type, exchange.type_name, what)
    require_same("durable", method.durable, exchange.durable, what)
    require_same("auto_delete", method.auto_delete, exchange.auto_delete, what)
    require_same("internal", method.internal, exchange.internal, what)
    names = (MAX_HOPS, ALTERNATE) if exchange.type_name == FederationUpstream.name else (ALTERNATE,)
    require_same_arguments(names, arguments, exchange.arguments, what)
    return synced


async def _check_alternate(channel: Channel, name: str, arguments: Table) -> None:
    """Raise 406 unless the alternate exchange is a string, 403 without the permissions for it."""
    alternate = arguments.get(ALTERNATE)
    if alternate is None:
        return
    if alternate[0] != "S":
        what = resource(EXCHANGE, name, channel.vhost.name)
        kind = FIELD_TYPE_NAMES[alternate[0]]
        raise precondition_failed(f"invalid type '{kind}' for arg '{ALTERNATE}' in {what}")
    await check(channel, EXCHANGE, name, "read")
    await check(channel, EXCHANGE, alternate[1], "write")


async def delete(channel: Channel, method: commands.Exchange.Delete) -> None:
    """Delete an exchange; succeeds if it does not exist."""
    name = without_line_breaks(method.exchange)
    check_not_default_exchange(name)
    if name.startswith(RESERVED_PREFIX):
        what = resource(EXCHANGE, name, channel.vhost.name)
        raise access_refused(f"deletion of system {what} not allowed")
    await check(channel, EXCHANGE, name, "configure")
    exchange = channel.vhost.exchanges.get(name)
    if exchange is not None:
        if method.if_unused and exchange.bindings:
            what = resource(EXCHANGE, name, channel.vhost.name)
            raise precondition_failed(f"{what} in use")
        user = channel.connection.user.name
        deleted = channel.submit(DeleteExchange(channel.vhost.name, name, acting_user=user))
        await deleted
        synced = deleted.synced()
    else:
        synced = channel.synced()
    if not method.nowait:
        await synced
        channel.send(commands.Exchange.DeleteOk)


async def bind(channel: Channel, method: commands.Exchange.Bind) -> None:
    """Bind an exchange to another."""
    destination, source = await _ends(channel, method)
    if source is None:
        raise _missing(channel, method.source)
    if destination is None:
        raise _missing(channel, method.destination)
    bound = channel.submit(_binding(channel, PutBinding, method))
    await bound
    if not method.nowait:
        await bound.synced()
        channel.send(commands.Exchange.BindOk)


async def unbind(channel: Channel, method: commands.Exchange.Unbind) -> None:
    """Remove a binding; succeeds if the binding or an exchange does not exist."""
    destination, source = await _ends(channel, method)
    if destination is not None and source is not None:
        unbound = channel.submit(_binding(channel, DeleteBinding, method))
        await unbound
        synced = unbound.synced()
    else:
        synced = channel.synced()
    if not method.nowait:
        await synced
        channel.send(commands.Exchange.UnbindOk)


async def _ends(
    channel: Channel, method: commands.Exchange.Bind | commands.Exchange.Unbind
) -> tuple[Exchange | None, Exchange | None]:
    """The destination and source of a binding, after checking the user's permissions."""
    destination = without_line_breaks(method.destination)
    source = without_line_breaks(method.source)
    await check(channel, EXCHANGE, destination, "write")
    check_not_default_exchange(destination)
    check_not_default_exchange(source)
    await check(channel, EXCHANGE, source, "read")
    exchanges = channel.vhost.exchanges
    found = exchanges.get(source)
    if found is not None and found.type_name == "topic":
        await check_topic(channel, source, method.routing_key, "read")
    return exchanges.get(destination), exchanges.get(source)


def _binding(
    channel: Channel,
    change: type[PutBinding] | type[DeleteBinding],
    method: commands.Exchange.Bind | commands.Exchange.Unbind,
) -> PutBinding | DeleteBinding:
    return change(
        channel.vhost.name, without_line_breaks(method.source),
        without_line_breaks(method.destination), method.routing_key, EXCHANGE,
        encode_table(sorted_table(table_argument(method.arguments))),
        acting_user=channel.connection.user.name,
    )  # fmt: skip


def _missing(channel: Channel, name: str) -> Exception:
    return not_found(f"no {resource(EXCHANGE, name, channel.vhost.name)}")

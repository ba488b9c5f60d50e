"""The exchange class: declaring, deleting and binding exchanges."""

from pamqp import commands

from broker.amqp.erlang_terms import FIELD_TYPE_NAMES
from broker.amqp.errors import access_refused, command_invalid, not_found, precondition_failed
from broker.amqp.field_table import Table
from broker.amqp.methods import table_argument
from broker.binding import Exchange
from broker.channel.access import (
    check,
    check_not_default_exchange,
    check_not_reserved,
    check_topic,
    find_exchange,
)
from broker.channel.channel import Channel
from broker.equivalence import require_same, require_same_arguments
from broker.exchanges import EXCHANGE_TYPES
from broker.names import EXCHANGE, RESERVED_PREFIX, resource, without_line_breaks

ALTERNATE = "alternate-exchange"


def declare(channel: Channel, method: commands.Exchange.Declare) -> None:
    """Declare an exchange, or check that there is one."""
    name = without_line_breaks(method.exchange)
    if method.passive:
        check_not_default_exchange(name)
        find_exchange(channel, name)
    else:
        _declare_actively(channel, name, method)
    if not method.nowait:
        channel.send(commands.Exchange.DeclareOk)


def _declare_actively(channel: Channel, name: str, method: commands.Exchange.Declare) -> None:
    if method.exchange_type not in EXCHANGE_TYPES:
        raise command_invalid(f"unknown exchange type '{method.exchange_type}'")
    check_not_default_exchange(name)
    check(channel, EXCHANGE, name, "configure")
    arguments = table_argument(method.arguments)
    exchange = channel.vhost.exchanges.get(name)
    if exchange is None:
        check_not_reserved(EXCHANGE, name)
        _check_alternate(channel, name, arguments)
        channel.vhost.declare_exchange(
            name,
            method.exchange_type,
            method.durable,
            method.auto_delete,
            method.internal,
            arguments,
            channel.connection.user.name,
        )
        return
    what = resource(EXCHANGE, name, channel.vhost.name)
    require_same("type", method.exchange_type, exchange.type_name, what)
    require_same("durable", method.durable, exchange.durable, what)
    require_same("auto_delete", method.auto_delete, exchange.auto_delete, what)
    require_same("internal", method.internal, exchange.internal, what)
    require_same_arguments((ALTERNATE,), arguments, exchange.arguments, what)


def _check_alternate(channel: Channel, name: str, arguments: Table) -> None:
    """An alternate exchange must be named by a string, and be one the user may write to."""
    alternate = arguments.get(ALTERNATE)
    if alternate is None:
        return
    if alternate[0] != "S":
        what = resource(EXCHANGE, name, channel.vhost.name)
        kind = FIELD_TYPE_NAMES[alternate[0]]
        raise precondition_failed(f"invalid type '{kind}' for arg '{ALTERNATE}' in {what}")
    check(channel, EXCHANGE, name, "read")
    check(channel, EXCHANGE, alternate[1], "write")


def delete(channel: Channel, method: commands.Exchange.Delete) -> None:
    """Delete an exchange. That there is none is fine."""
    name = without_line_breaks(method.exchange)
    check_not_default_exchange(name)
    if name.startswith(RESERVED_PREFIX):
        what = resource(EXCHANGE, name, channel.vhost.name)
        raise access_refused(f"deletion of system {what} not allowed")
    check(channel, EXCHANGE, name, "configure")
    exchange = channel.vhost.exchanges.get(name)
    if exchange is not None:
        if method.if_unused and exchange.bindings:
            what = resource(EXCHANGE, name, channel.vhost.name)
            raise precondition_failed(f"{what} in use")
        channel.vhost.delete_exchange(exchange, channel.connection.user.name)
    if not method.nowait:
        channel.send(commands.Exchange.DeleteOk)


def bind(channel: Channel, method: commands.Exchange.Bind) -> None:
    """Bind an exchange to another."""
    destination, source = _ends(channel, method)
    if source is None:
        raise _missing(channel, method.source)
    if destination is None:
        raise _missing(channel, method.destination)
    arguments = table_argument(method.arguments)
    user = channel.connection.user.name
    channel.vhost.bind(source, destination, method.routing_key, arguments, user)
    if not method.nowait:
        channel.send(commands.Exchange.BindOk)


def unbind(channel: Channel, method: commands.Exchange.Unbind) -> None:
    """Take a binding away. That there is none, or no such exchange, is fine."""
    destination, source = _ends(channel, method)
    if destination is not None and source is not None:
        arguments = table_argument(method.arguments)
        user = channel.connection.user.name
        channel.vhost.unbind(source, destination, method.routing_key, arguments, user)
    if not method.nowait:
        channel.send(commands.Exchange.UnbindOk)


def _ends(
    channel: Channel, method: commands.Exchange.Bind | commands.Exchange.Unbind
) -> tuple[Exchange | None, Exchange | None]:
    """Destination and source of a binding that the user may make or take away."""
    destination = without_line_breaks(method.destination)
    source = without_line_breaks(method.source)
    check(channel, EXCHANGE, destination, "write")
    check_not_default_exchange(destination)
    check_not_default_exchange(source)
    check(channel, EXCHANGE, source, "read")
    exchanges = channel.vhost.exchanges
    found = exchanges.get(source)
    if found is not None and found.type_name == "topic":
        check_topic(channel, source, method.routing_key, "read")
    return exchanges.get(destination), found


def _missing(channel: Channel, name: str) -> Exception:
    return not_found(f"no {resource(EXCHANGE, name, channel.vhost.name)}")

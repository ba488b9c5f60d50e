"""The exchange class: its methods, and their answers.

declaring_exchanges.py and declaring_bindings.py do the work.
"""

from pamqp import commands

from leveret.broker.amqp.methods import table_argument
from leveret.broker.protocols.amqp091.channel.channel import Channel
from leveret.broker.sessions.declaring_bindings import bind_exchange, unbind_exchange
from leveret.broker.sessions.declaring_exchanges import (
    ExchangeProperties,
    declare_exchange,
    delete_exchange,
)


async def declare(channel: Channel, method: commands.Exchange.Declare) -> None:
    """Declare an exchange; with passive, check that it exists."""
    properties = None
    if not method.passive:
        properties = ExchangeProperties(
            method.exchange_type, table_argument(method.arguments), method.durable,
            method.auto_delete, method.internal,
        )  # fmt: skip
    synced = await declare_exchange(channel, method.exchange, properties)
    if not method.nowait:
        await synced
        channel.send(commands.Exchange.DeclareOk)


async def delete(channel: Channel, method: commands.Exchange.Delete) -> None:
    """Delete an exchange; succeeds if it does not exist."""
    synced = await delete_exchange(channel, method.exchange, if_unused=method.if_unused)
    if not method.nowait:
        await synced
        channel.send(commands.Exchange.DeleteOk)


async def bind(channel: Channel, method: commands.Exchange.Bind) -> None:
    """Bind an exchange to another."""
    synced = await bind_exchange(
        channel, method.destination, method.source, method.routing_key,
        table_argument(method.arguments),
    )  # fmt: skip
    if not method.nowait:
        await synced
        channel.send(commands.Exchange.BindOk)


async def unbind(channel: Channel, method: commands.Exchange.Unbind) -> None:
    """Remove a binding; succeeds if the binding or an exchange does not exist."""
    synced = await unbind_exchange(
        channel, method.destination, method.source, method.routing_key,
        table_argument(method.arguments),
    )  # fmt: skip
    if not method.nowait:
        await synced
        channel.send(commands.Exchange.UnbindOk)

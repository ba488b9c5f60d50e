"""A client's declarations and deletions on a channel, by plain values. Tables are `Table`s.

Each function returns when the server has answered, but for those that are `unanswered`. They raise
ChannelClosed and ConnectionClosed with the server's reply code and text.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pamqp import commands

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.methods import method_named
from leveret.broker.moving.client.channel import ClientChannel


class QueueDeclareOk(NamedTuple):
    """A server's answer about a queue. message_count: the ready messages."""

    name: str
    message_count: int


async def declare_queue(
    channel: ClientChannel,
    name: str = "",
    *,
    durable: bool = False,
    exclusive: bool = False,
    auto_delete: bool = False,
    arguments: Table | None = None,
) -> QueueDeclareOk:
    """Declare a queue. The server chooses a name if none is given."""
    return await _declare_queue(
        channel,
        queue=name, durable=durable, exclusive=exclusive, auto_delete=auto_delete,
        arguments=arguments or {},
    )  # fmt: skip


async def find_queue(channel: ClientChannel, name: str) -> QueueDeclareOk:
    """Check that a queue exists; if not, the server closes the channel with 404."""
    return await _declare_queue(channel, queue=name, passive=True)


async def _declare_queue(channel: ClientChannel, **arguments: object) -> QueueDeclareOk:
    answer = await channel.call(commands.Queue.Declare, **arguments)
    assert isinstance(answer, commands.Queue.DeclareOk)
    return QueueDeclareOk(str(answer.queue), answer.message_count or 0)


async def delete_queue(channel: ClientChannel, name: str) -> None:
    """Delete a queue, if it is there."""
    await channel.call(commands.Queue.Delete, queue=name)


async def bind_queue(channel: ClientChannel, name: str, source: str, routing_key: str = "") -> None:
    """Bind a queue to an exchange."""
    await channel.call(commands.Queue.Bind, queue=name, exchange=source, routing_key=routing_key)


async def declare_exchange(
    channel: ClientChannel,
    name: str,
    type_name: str,
    *,
    durable: bool = False,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Table | None = None,
) -> None:
    """Declare an exchange."""
    await channel.call(
        commands.Exchange.Declare,
        exchange=name, exchange_type=type_name, durable=durable, auto_delete=auto_delete,
        internal=internal, arguments=arguments or {},
    )  # fmt: skip


async def find_exchange(channel: ClientChannel, name: str) -> None:
    """Check that an exchange exists; if not, the server closes the channel with 404."""
    await channel.call(commands.Exchange.Declare, exchange=name, passive=True)


async def delete_exchange(channel: ClientChannel, name: str) -> None:
    """Delete an exchange, if it is there."""
    await channel.call(commands.Exchange.Delete, exchange=name)


class ExchangeBinding(NamedTuple):
    """A binding of an exchange to another."""

    destination: str
    source: str
    routing_key: str
    arguments: Table


async def bind_exchange(channel: ClientChannel, binding: ExchangeBinding) -> None:
    """Bind an exchange to another."""
    await channel.call(commands.Exchange.Bind, **binding._asdict())


async def unbind_exchange(channel: ClientChannel, binding: ExchangeBinding) -> None:
    """Remove a binding, if it is there."""
    await channel.call(commands.Exchange.Unbind, **binding._asdict())


def bind_exchange_unanswered(channel: ClientChannel, binding: ExchangeBinding) -> None:
    """Bind an exchange to another; the server closes the channel if it refuses."""
    channel.send_unanswered(commands.Exchange.Bind, **binding._asdict())


def unbind_exchange_unanswered(channel: ClientChannel, binding: ExchangeBinding) -> None:
    """Remove a binding, if it is there; the server closes the channel if it refuses."""
    channel.send_unanswered(commands.Exchange.Unbind, **binding._asdict())


async def limit_unsettled(channel: ClientChannel, prefetch_count: int) -> None:
    """Limit the unsettled deliveries of each later consumer to a number; 0: no limit."""
    await channel.call(commands.Basic.Qos, prefetch_count=prefetch_count)


async def call_named(channel: ClientChannel, method: str, arguments: Mapping[str, Any]) -> None:
    """Call a method by its name, such as `queue.declare`."""
    await channel.call(method_named(method), **arguments)

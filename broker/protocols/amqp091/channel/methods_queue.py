"""The queue class: its methods, and their answers.

declaring_queues.py and declaring_bindings.py do the work.
"""

from pamqp import commands

from leveret.broker.amqp.methods import table_argument
from leveret.broker.protocols.amqp091.channel.channel import Channel
from leveret.broker.sessions.declaring_bindings import bind_queue, unbind_queue
from leveret.broker.sessions.declaring_queues import (
    QueueProperties,
    declare_queue,
    delete_queue,
    purge_queue,
)


async def declare(channel: Channel, method: commands.Queue.Declare) -> None:
    """Declare a queue; with passive, check that it exists."""
    properties = None
    if not method.passive:
        properties = QueueProperties(
            table_argument(method.arguments), method.durable, method.exclusive, method.auto_delete
        )
    declared = await declare_queue(channel, method.queue, properties)
    if not method.nowait:
        await declared.synced
        channel.send(
            commands.Queue.DeclareOk,
            queue=declared.name,
            message_count=declared.message_count,
            consumer_count=declared.consumer_count,
        )


async def delete(channel: Channel, method: commands.Queue.Delete) -> None:
    """Delete a queue; succeeds if it does not exist."""

    def reply(count: int) -> None:
        channel.send(commands.Queue.DeleteOk, message_count=count)

    await delete_queue(
        channel, method.queue, if_unused=method.if_unused, if_empty=method.if_empty,
        tell=None if method.nowait else reply,
    )  # fmt: skip


async def purge(channel: Channel, method: commands.Queue.Purge) -> None:
    """Drop all ready messages of a queue."""
    count = await purge_queue(channel, method.queue)
    if not method.nowait:
        channel.send(commands.Queue.PurgeOk, message_count=count)


async def bind(channel: Channel, method: commands.Queue.Bind) -> None:
    """Bind a queue to an exchange."""
    synced = await bind_queue(
        channel, method.queue, method.exchange, method.routing_key,
        table_argument(method.arguments),
    )  # fmt: skip
    if not method.nowait:
        await synced
        channel.send(commands.Queue.BindOk)


async def unbind(channel: Channel, method: commands.Queue.Unbind) -> None:
    """Remove a binding; succeeds if the binding, queue or exchange does not exist."""
    synced = await unbind_queue(
        channel, method.queue, method.exchange, method.routing_key,
        table_argument(method.arguments),
    )  # fmt: skip
    await synced
    channel.send(commands.Queue.UnbindOk)

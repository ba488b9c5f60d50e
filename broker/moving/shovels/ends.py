"""The two ends of a shovel: declarations there, and the loss of either end.

A missing queue is declared durable, with the arguments of the definition, unless the definition
says that it is predeclared. A source exchange gets an exclusive queue of the shovel's own: messages
published while the shovel does not run are not moved. A destination exchange is not declared, as in
RabbitMQ; it has to exist before messages move, or they would be lost without acknowledgements. For
a static shovel only its declarations are made, on the channels that it uses.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leveret.broker.amqp.json_form import text
from leveret.broker.amqp.reply_codes import NOT_FOUND
from leveret.broker.moving.client import declaring
from leveret.broker.moving.client.channel import ClientChannel, ReturnedMessage, Take
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.moving.client.ended import ChannelClosed
from leveret.broker.policies.ack_modes import NO_ACK
from leveret.broker.policies.shovel_parameter import (
    NEVER,
    QUEUE_LENGTH,
    ShovelDeclaration,
    ShovelDefinition,
    ShovelDestination,
    ShovelSource,
)

CANCELLED: Final = "the source has cancelled the consumer: its queue was deleted, or its node left"


async def prepare_destination(
    connection: ClientConnection, destination: ShovelDestination, *, confirms: bool
) -> ClientChannel:
    """The channel on which to publish. Raises ChannelClosed and ConnectionClosed."""
    if destination.queue is not None:
        await _find_queue(
            connection, destination.queue, destination.queue_arguments, destination.is_predeclared
        )
    channel = await connection.open_channel()
    await _declare(channel, destination.declarations)
    if destination.exchange:
        await declaring.find_exchange(channel, destination.exchange)
    if confirms:
        await channel.confirm()
    return channel


async def prepare_source(
    connection: ClientConnection, source: ShovelSource
) -> tuple[ClientChannel, str, int | None]:
    """The channel on which to consume, the queue, and after how many messages to end.

    Raises ChannelClosed and ConnectionClosed.
    """
    if source.queue is not None and source.declarations is not None:
        channel = await connection.open_channel()
        await _declare(channel, source.declarations)
        # RabbitMQ knows no length of the queue whose name is empty, which is the last declared one.
        is_counted = source.delete_after == QUEUE_LENGTH
        found = await declaring.find_queue(channel, source.queue) if is_counted else None
        count = 0 if found is None else found.message_count
        return channel, source.queue, _limit(source, count)
    if source.queue is not None:
        count = await _find_queue(
            connection, source.queue, source.queue_arguments, source.is_predeclared
        )
        return await connection.open_channel(), source.queue, _limit(source, count)
    channel = await connection.open_channel()
    declared = await declaring.declare_queue(channel, exclusive=True)
    assert source.exchange is not None, "without a queue there is an exchange"
    await declaring.bind_queue(channel, declared.name, source.exchange, source.exchange_key)
    return channel, declared.name, _limit(source, 0)


def _limit(source: ShovelSource, queue_length: int) -> int | None:
    """After how many messages a shovel ends; None for never."""
    wanted = source.delete_after
    if wanted is None or wanted == NEVER:
        return None
    return queue_length if wanted == QUEUE_LENGTH else int(wanted)


async def _declare(channel: ClientChannel, declarations: Sequence[ShovelDeclaration]) -> None:
    for method, arguments in declarations:
        await declaring.call_named(channel, method, arguments)


async def _find_queue(
    connection: ClientConnection, name: str, arguments: Mapping[str, Any], is_predeclared: bool
) -> int:
    """Declare a queue unless it exists or is predeclared; returns how many messages are ready."""
    channel = await connection.open_channel()
    try:
        found = await declaring.find_queue(channel, name)
    except ChannelClosed as error:
        if error.closed.reply_code != NOT_FOUND or is_predeclared:
            raise
        channel = await connection.open_channel()
        found = await declaring.declare_queue(
            channel, name, durable=True, arguments=dict(arguments)
        )
    await channel.close()
    return found.message_count


async def consume(
    channel: ClientChannel,
    queue: str,
    definition: ShovelDefinition,
    take: Take,
) -> str:
    """Start consuming; returns the consumer's tag. Raises ChannelClosed and ConnectionClosed."""
    source, no_ack = definition.source, definition.ack_mode == NO_ACK
    if not no_ack:
        await declaring.limit_unsettled(channel, source.prefetch_count)
    return await channel.consume(
        queue, take, no_ack=no_ack, arguments=dict(source.consumer_arguments)
    )


def returned_reason(returned: ReturnedMessage) -> str:
    """Why messages stop moving to a destination that has returned one."""
    return (
        f"the destination has returned a message for queue '{returned.routing_key}', which was "
        f"deleted, or whose node is down: {returned.reply_code}, {text(returned.reply_text)}"
    )


def unpublishable_reason(reason: str) -> str:
    """Why messages stop moving after one that cannot be published."""
    return f"a message cannot be published at the destination: {reason}"

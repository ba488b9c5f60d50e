"""The two ends of a shovel: what is declared there, and how either end is lost.

A queue that is not there is declared durable, with the arguments of the definition. A source
exchange gets a queue of the shovel's own, which is exclusive: what is published while the shovel
does not run is not moved. A destination exchange is not declared, as in RabbitMQ; it has to be
there before anything is moved, or messages would be lost without acknowledgements.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pamqp import commands

from leveret.broker.amqp.json_form import text
from leveret.broker.amqp.reply_codes import NOT_FOUND
from leveret.broker.client.channel import ClientChannel, Returned, Take
from leveret.broker.client.connection import ClientConnection
from leveret.broker.client.ended import ChannelClosed, ConnectionClosed
from leveret.broker.policies.shovel_parameter import (
    NEVER,
    NO_ACK,
    QUEUE_LENGTH,
    ShovelDefinition,
    ShovelDestination,
    ShovelSource,
)
from leveret.broker.shovels.transfer import Transfer

CANCELLED: Final = "the source has cancelled the consumer: its queue was deleted, or its node left"

SETTLE_SECONDS_MAX: Final = 10.0
SETTLE_POLL_SECONDS: Final = 0.01

End = tuple[ClientConnection, ClientChannel]


async def prepare_destination(
    connection: ClientConnection, destination: ShovelDestination, *, confirms: bool
) -> ClientChannel:
    """The channel on which to publish. Raises ChannelClosed and ConnectionClosed."""
    if destination.queue is not None:
        await _ensure_queue(connection, destination.queue, destination.queue_arguments)
    channel = await connection.open_channel()
    if destination.exchange:
        await channel.call(commands.Exchange.Declare, exchange=destination.exchange, passive=True)
    if confirms:
        await channel.confirm()
    return channel


async def prepare_source(
    connection: ClientConnection, source: ShovelSource
) -> tuple[ClientChannel, str, int | None]:
    """The channel on which to consume, the queue, and after how many messages to end.

    Raises ChannelClosed and ConnectionClosed.
    """
    if source.queue is not None:
        count = await _ensure_queue(connection, source.queue, source.queue_arguments)
        return await connection.open_channel(), source.queue, _limit(source, count)
    channel = await connection.open_channel()
    declared = await channel.call(commands.Queue.Declare, exclusive=True)
    assert isinstance(declared, commands.Queue.DeclareOk)
    queue = str(declared.queue)
    await channel.call(
        commands.Queue.Bind,
        queue=queue, exchange=source.exchange, routing_key=source.exchange_key,
    )  # fmt: skip
    return channel, queue, _limit(source, 0)


def _limit(source: ShovelSource, queue_length: int) -> int | None:
    """After how many messages a shovel ends; None for never."""
    wanted = source.delete_after
    if wanted is None or wanted == NEVER:
        return None
    return queue_length if wanted == QUEUE_LENGTH else int(wanted)


async def _ensure_queue(
    connection: ClientConnection, name: str, arguments: Mapping[str, Any]
) -> int:
    """Declare a queue unless it is there; how many messages are ready in it."""
    channel = await connection.open_channel()
    try:
        declared = await channel.call(commands.Queue.Declare, queue=name, passive=True)
    except ChannelClosed as error:
        if error.closed.reply_code != NOT_FOUND:
            raise
        channel = await connection.open_channel()
        declared = await channel.call(
            commands.Queue.Declare, queue=name, durable=True, arguments=dict(arguments)
        )
    await channel.close()
    assert isinstance(declared, commands.Queue.DeclareOk)
    return declared.message_count or 0


async def consume(
    channel: ClientChannel,
    queue: str,
    definition: ShovelDefinition,
    take: Take,
) -> str:
    """Have deliveries come; the consumer's tag. Raises ChannelClosed and ConnectionClosed."""
    source, no_ack = definition.source, definition.ack_mode == NO_ACK
    if not no_ack:
        await channel.call(commands.Basic.Qos, prefetch_count=source.prefetch_count)
    return await channel.consume(
        queue, take, no_ack=no_ack, arguments=dict(source.consumer_arguments)
    )


async def first_end(
    over: Sequence[asyncio.Future[None]],
    broken: asyncio.Future[str],
    source: End,
    destination: End,
) -> str:
    """Wait until the shovel has to end, or either end is lost. Why it is lost; empty if it is not.

    over: one of these is done when the shovel has to end. broken: why no more messages can move,
    though both ends are there.
    """
    closed = [(one.closed, "source") for one in source]
    closed += [(one.closed, "destination") for one in destination]
    waits: list[asyncio.Future[Any]] = [*over, broken, *(future for future, _ in closed)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if any(one.done() for one in over):
        return ""
    for future, what in closed:
        if future.done():
            return f"the {what} was lost: {future.result()}"
    return broken.result()


def returned_reason(returned: Returned) -> str:
    """Why no more messages move to a destination that has returned one."""
    return (
        f"the destination has returned a message for queue '{returned.routing_key}', which was "
        f"deleted, or whose node is down: {returned.reply_code}, {text(returned.reply_text)}"
    )


async def settle(
    consuming: ClientChannel, tag: str, publishing: ClientChannel, transfer: Transfer
) -> None:
    """Have no more deliveries come, and wait until what was published is confirmed.

    So nothing comes twice because a shovel is stopped. It does not wait long for a destination that
    does not confirm, and not at all for an end that is lost.
    """
    try:
        async with asyncio.timeout(SETTLE_SECONDS_MAX):
            if not publishing.closed.done():
                await consuming.cancel(tag)
            while not (transfer.is_settled or consuming.closed.done() or publishing.closed.done()):
                await asyncio.sleep(SETTLE_POLL_SECONDS)
    except (TimeoutError, ChannelClosed, ConnectionClosed):
        # What is left goes back to its queue when the connection is closed.
        return

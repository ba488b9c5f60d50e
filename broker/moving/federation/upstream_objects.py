"""The objects that the link of a federated exchange declares upstream, and their deletion.

    exchange ─► internal exchange, of the type x-federation-upstream ─► queue ─► link

The queue keeps messages while the link does not run. The name of the internal exchange ends with A
or B: a link that starts makes the missing one, with the present bindings, and then deletes the
other. So the queue always gets messages, and no binding remains that was deleted while the link did
not run. The names and arguments are those of `rabbit_federation_exchange_link`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.reply_codes import COMMAND_INVALID, NOT_FOUND
from leveret.broker.exchanges.federation_upstream import (
    DOWNSTREAM_NAME,
    DOWNSTREAM_VHOST,
    MAX_HOPS,
    FederationUpstream,
)
from leveret.broker.moving.client import declaring
from leveret.broker.moving.client.channel import ClientChannel
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.moving.client.ended import ChannelClosed, ConnectionClosed
from leveret.broker.moving.federation.link import LinkEnds
from leveret.broker.moving.federation.link_definition import LinkDefinition
from leveret.broker.moving.transfers.attempts import TransferFailed
from leveret.broker.vhost.binding import Exchange

SUFFIXES: Final = ("A", "B")
PURPOSE: Final[Table] = {"x-internal-purpose": ("S", "federation")}
NAME_BYTES_MAX: Final = 255


def queue_name(definition: LinkDefinition, upstream_vhost: str) -> str:
    """The name of the link's queue. Raises TransferFailed if it is too long."""
    place = definition.place
    here = ""
    if place.vhost != upstream_vhost:
        here = f":{place.vhost}:{place.name}"
    elif place.name != place.upstream_name:
        here = f":{place.name}"
    name = f"federation: {place.upstream_name} -> {definition.cluster_name}{here}"
    size = len(internal_exchange_name(name, SUFFIXES[0]).encode("utf-8", "surrogateescape"))
    if size > NAME_BYTES_MAX:
        raise TransferFailed(
            f"the names of the exchanges and of the cluster are too long: the upstream would have "
            f"an exchange with a name of {size} bytes, of which AMQP allows {NAME_BYTES_MAX}"
        )
    return name


def internal_exchange_name(queue: str, suffix: str) -> str:
    """The name of the internal exchange in front of a link's queue."""
    return f"{queue} {suffix}"


async def declare_queue(channel: ClientChannel, queue: str, definition: LinkDefinition) -> None:
    """Declare the link's queue. Raises ChannelClosed and ConnectionClosed."""
    upstream = definition.upstream
    arguments: Table = dict(PURPOSE)
    if upstream.message_ttl_ms is not None:
        arguments = {"x-message-ttl": ("l", upstream.message_ttl_ms), **arguments}
    if upstream.expires_ms is not None:
        arguments = {"x-expires": ("l", upstream.expires_ms), **arguments}
    await declaring.declare_queue(channel, queue, durable=True, arguments=arguments)


async def declare_exchange(connection: ClientConnection, name: str, like: Exchange) -> None:
    """Declare an exchange like another one, unless it exists.

    Raises ChannelClosed and ConnectionClosed.
    """
    if not await exists(connection, name):
        async with _own_channel(connection) as channel:
            await declaring.declare_exchange(
                channel, name, like.type_name, durable=like.durable, auto_delete=like.auto_delete,
                internal=like.internal, arguments=like.arguments,
            )  # fmt: skip


async def declare_internal_exchange(ends: LinkEnds, name: str, definition: LinkDefinition) -> None:
    """Declare the internal exchange again; as a fanout, if the upstream does not know federation.

    Then it gets unwanted messages, which the link drops. Raises ConnectionFailed, ChannelClosed and
    ConnectionClosed.
    """
    await delete_exchange(ends.upstream, name)
    arguments: Table = {
        MAX_HOPS: ("l", definition.upstream.max_hops),
        DOWNSTREAM_NAME: ("S", definition.cluster_name),
        DOWNSTREAM_VHOST: ("S", definition.place.vhost),
        **PURPOSE,
    }
    # A server closes the connection because of an exchange type that it does not know.
    disposable = await ends.reconnect()
    try:
        await _declare_internal(disposable, name, FederationUpstream.name, arguments)
    except ConnectionClosed as error:
        if error.closed.reply_code != COMMAND_INVALID:
            raise
        await _declare_internal(ends.upstream, name, "fanout", PURPOSE)
    finally:
        await disposable.close()


async def _declare_internal(
    connection: ClientConnection, name: str, exchange_type: str, arguments: Table
) -> None:
    async with _own_channel(connection) as channel:
        await declaring.declare_exchange(
            channel, name, exchange_type, durable=True, auto_delete=True, internal=True,
            arguments=arguments,
        )  # fmt: skip


async def exists(connection: ClientConnection, exchange: str) -> bool:
    """Whether an exchange exists. Raises ChannelClosed and ConnectionClosed."""
    try:
        async with _own_channel(connection) as channel:
            await declaring.find_exchange(channel, exchange)
    except ChannelClosed as error:
        if error.closed.reply_code != NOT_FOUND:
            raise
        return False
    return True


async def delete_queue(connection: ClientConnection, queue: str) -> None:
    """Delete a queue, if it exists. Raises ChannelClosed and ConnectionClosed."""
    async with _own_channel(connection) as channel:
        await declaring.delete_queue(channel, queue)


async def delete_exchange(connection: ClientConnection, exchange: str) -> None:
    """Delete an exchange, if it exists. Raises ChannelClosed and ConnectionClosed."""
    async with _own_channel(connection) as channel:
        await declaring.delete_exchange(channel, exchange)


@asynccontextmanager
async def _own_channel(connection: ClientConnection) -> AsyncIterator[ClientChannel]:
    """A channel for one method: a refusal closes this channel and no other."""
    channel = await connection.open_channel()
    yield channel
    await channel.close()

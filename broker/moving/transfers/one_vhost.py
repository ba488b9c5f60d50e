"""Whether both ends of a transfer are one virtual host of one server, regardless of their URIs.

An exclusive queue is declared at one end and looked for at the other: only the server that has it
answers that it is locked. Where the user may not declare it, they count as two.
"""

import secrets
from typing import Final

from leveret.broker.amqp.reply_codes import RESOURCE_LOCKED
from leveret.broker.moving.client import declaring
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.moving.client.ended import ChannelClosed

PREFIX: Final = "transfer-looks-for-its-source-"


async def are_one_vhost(source: ClientConnection, destination: ClientConnection) -> bool:
    """Whether both are one. Raises ChannelClosed and ConnectionClosed."""
    if source.address.vhost != destination.address.vhost:
        return False
    holding, queue = await source.open_channel(), PREFIX + secrets.token_hex(8)
    try:
        await declaring.declare_queue(holding, queue, exclusive=True)
    except ChannelClosed:
        return False
    is_locked = await _is_locked(destination, queue)
    await declaring.delete_queue(holding, queue)
    await holding.close()
    return is_locked


async def _is_locked(connection: ClientConnection, queue: str) -> bool:
    """Whether a server says that another connection has this queue for itself."""
    channel = await connection.open_channel()
    try:
        await declaring.find_queue(channel, queue)
    except ChannelClosed as error:
        return error.closed.reply_code == RESOURCE_LOCKED
    await channel.close()
    return False

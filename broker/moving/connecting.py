"""Connections of this node to the servers of URIs, for shovels and federation links.

A URI without a host (`amqp://`, `amqp:///vhost`) names this node itself: client and server are
connected in memory, and no password is asked for. A user that sets such a URI must be allowed to
use the virtual host (policies/shovel_parameter.py). Any other URI names a server that is reached
through a socket, whether another broker or a node of this cluster.
"""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Final, cast

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.uri import DEFAULT_VHOST, UriError
from leveret.broker.auth.identity import Identity
from leveret.broker.auth.unrestricted import Unrestricted
from leveret.broker.config import Config
from leveret.broker.moving.client.address import ServerAddress
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.moving.client.ended import ConnectionFailed
from leveret.broker.moving.client.uri import ThisNode, address_of
from leveret.broker.net.in_memory import InMemoryAddress, connect_in_memory
from leveret.broker.protocols.amqp091.connection.connection import Connection

THE_NODE_ITSELF: Final = Identity("none", ("impersonator",), authorization=Unrestricted())
"""RabbitMQ's name for the user of a connection that needs none; messages keep their user ids."""
LARGEST_FRAME_MAX: Final = (1 << 32) - 1
NAME: Final = "this node"
"""The server's name in errors, in place of its address."""


class Connecting:
    """Opens connections. config: this node's; its limits of frames and messages apply to its
    connections to other servers, unless a URI has a frame_max. accept: makes the protocol by which
    the node serves a client.

    An end in memory has the node's name for an address, and the client's end a number for a port,
    so that each connection of a cluster has a name of its own.
    """

    def __init__(self, config: Config, accept: Callable[[], Connection]) -> None:
        self._node = config.node_name
        self._frame_max = config.frame_max_bytes
        self._message_bytes_max = config.max_message_size_bytes
        self._accept = accept
        self._numbers = itertools.count(1)

    async def connect(
        self, uri: str, name: str, default_vhost: str = DEFAULT_VHOST
    ) -> ClientConnection:
        """Connect to the server of a URI. Raises ConnectionFailed, with a text without passwords.

        name: the connection's name for the server's operators. default_vhost: for a URI that names
        none.
        """
        try:
            address = address_of(uri, default_vhost)
        except UriError as error:
            raise ConnectionFailed(f"the URI is not valid: {error}") from None
        properties: Table = {"connection_name": ("S", name)}
        if isinstance(address, ServerAddress):
            address = replace(
                address,
                frame_max=address.frame_max or self._frame_max,
                message_bytes_max=self._message_bytes_max,
            )
            return await ClientConnection.open(address, properties)
        return await self._connect_here(address, properties)

    async def _connect_here(self, here: ThisNode, properties: Table) -> ClientConnection:
        server = self._accept()
        assert server.login is not None, "a new connection is not logged in"
        server.login.is_limited = False
        if here.user is None:
            server.login.known_user = THE_NODE_ITSELF

        def connect(client: ClientConnection) -> None:
            ends = InMemoryAddress(self._node, next(self._numbers)), InMemoryAddress(self._node, 0)
            connect_in_memory(client, cast(asyncio.Protocol, server), *ends)

        # The node trusts itself. Messages from before max_message_size was lowered are accepted,
        # and links may add headers to a message.
        address = ServerAddress(
            NAME, vhost=here.vhost, user=here.user or "", password=here.password or "",
            frame_max=LARGEST_FRAME_MAX,
        )  # fmt: skip
        return await ClientConnection.open(address, properties, connect=connect)

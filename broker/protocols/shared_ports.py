"""Protocols whose clients connect to the ports of AMQP 0-9-1, and are told apart by their header.

The modules of such a protocol are imported when its first client connects, so that a node without
such clients needs no memory for it. AMQP 1.0 is served as RabbitMQ does: in 4.x always, before if
the plugin rabbitmq_amqp1_0 is enabled.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from leveret.broker.plugins.contributions import loaded
from leveret.broker.plugins.plugin import PluginNode
from leveret.broker.protocols.socket_connection import SocketConnection
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import ServedConnection

MakeConnection: TypeAlias = Callable[[Services, set[ServedConnection]], SocketConnection]

_AMQP_1_0: Final = "leveret.broker.protocols.amqp10.connection:Connection"
_BY_HEADER: Final = {
    b"AMQP\x03\x01\x00\x00": _AMQP_1_0,
    b"AMQP\x00\x01\x00\x00": _AMQP_1_0,
}


def serve_amqp10(node: PluginNode) -> None:
    """The plugin rabbitmq_amqp1_0 starts."""
    node.services.serves_amqp10 = True


def refuse_amqp10(node: PluginNode) -> None:
    """The plugin rabbitmq_amqp1_0 stops. Open connections stay."""
    node.services.serves_amqp10 = node.config.is_as_rabbitmq_4


def protocol_of(header: bytes, services: Services) -> MakeConnection | None:
    """Makes connections of the protocol whose clients send this header; None if there is none."""
    name = _BY_HEADER.get(header) if services.serves_amqp10 else None
    make: MakeConnection | None = None if name is None else loaded(name)
    return make

"""Protocols whose clients connect to the ports of AMQP 0-9-1, and are told apart by their header.

The modules of such a protocol are imported when its first client connects, so that a node without
such clients needs no memory for it.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from leveret.broker.plugins.contributions import loaded
from leveret.broker.protocols.socket_connection import SocketConnection
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import ServedConnection

MakeConnection: TypeAlias = Callable[[Services, set[ServedConnection]], SocketConnection]

_AMQP_1_0: Final = "leveret.broker.protocols.amqp10.connection:Connection"
_BY_HEADER: Final = {
    b"AMQP\x03\x01\x00\x00": _AMQP_1_0,
    b"AMQP\x00\x01\x00\x00": _AMQP_1_0,
}


def protocol_of(header: bytes) -> MakeConnection | None:
    """Makes connections of the protocol whose clients send this header; None if there is none."""
    name = _BY_HEADER.get(header)
    make: MakeConnection | None = None if name is None else loaded(name)
    return make

"""AMQP 0-9-1 as one of the protocols that a node serves."""

from collections.abc import Callable

from leveret.broker.config import Config
from leveret.broker.net.client_listeners import ServedProtocol
from leveret.broker.protocols.amqp091.connection.connection import Connection

AMQP = "amqp"


def amqp091(config: Config, accept: Callable[[], Connection]) -> ServedProtocol:
    """Return the protocol. accept: makes the connection for an accepted client."""
    return ServedProtocol(
        AMQP, config.tcp.listeners, config.tls.listeners, "tcp.listeners", "tls.listeners", accept
    )

"""RabbitMQ's stream protocol as one of the protocols that a node serves."""

from functools import partial

from leveret.broker.net.client_listeners import ServedProtocol
from leveret.broker.protocols.stream.connection import STREAM, StreamConnection
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import ServedConnection


def stream_protocol(services: Services, connections: set[ServedConnection]) -> ServedProtocol:
    """The protocol. connections: those of the whole node."""
    settings = services.config.stream
    return ServedProtocol(
        STREAM, settings.listeners, settings.tls_listeners, "stream.listeners",
        "stream.tls_listeners", partial(StreamConnection, services, connections),
    )  # fmt: skip

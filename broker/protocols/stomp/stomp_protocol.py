"""STOMP as one of the protocols that a node serves."""

from functools import partial
from typing import Final

from leveret.broker.net.client_listeners import ServedProtocol
from leveret.broker.protocols.stomp.connection import StompConnection
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import ServedConnection

STOMP: Final = "stomp"


def stomp_protocol(services: Services, connections: set[ServedConnection]) -> ServedProtocol:
    """The protocol. connections: those of the whole node."""
    settings = services.config.stomp
    return ServedProtocol(
        STOMP, settings.listeners, settings.tls_listeners, "stomp.listeners",
        "stomp.tls_listeners", partial(StompConnection, services, connections),
    )  # fmt: skip

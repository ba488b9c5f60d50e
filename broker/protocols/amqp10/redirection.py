"""Where a client is sent when its node is put under maintenance.

RabbitMQ redirects no clients, and few follow: Qpid JMS with its failover does, and connects to
the node that it is told. Others treat a redirect as an error and end (rhea, Qpid Proton, RabbitMQ's
own clients), whereas they connect again after `amqp:connection:forced`. So a setting enables it.
"""

from typing import Final

from leveret.broker.amqp10.values import Value
from leveret.broker.protocols.amqp10.conditions import CONNECTION_REDIRECT
from leveret.broker.protocols.amqp10.performatives import Error
from leveret.broker.services.client_addresses import other_address
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import DRAINED

VHOST_PREFIX: Final = "vhost:"
"""Of a host name in `open` that selects a virtual host."""


def redirect(services: Services, client_id: str, hostname: str, is_tls: bool) -> Error | None:
    """The error that sends a client to another node; None if it is not to be sent.

    hostname: of the client's `open`. It stays, if it selects a virtual host.
    """
    if not services.config.amqp10.redirects_on_maintenance:
        return None
    address = other_address(services.amqp10_addresses.of_others, client_id, is_tls)
    if address is None:
        return None
    host, port = address
    info = {
        "network-host": Value("string", host),
        "port": Value("int", port),
        "hostname": Value("string", hostname if hostname.startswith(VHOST_PREFIX) else host),
    }
    pairs = [(Value("symbol", key), value) for key, value in info.items()]
    return Error(CONNECTION_REDIRECT, DRAINED, Value("map", pairs))

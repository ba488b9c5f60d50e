"""The protocols that a node serves without a plugin, beside AMQP 0-9-1.

A protocol without an address to listen on is not served.

A package names in the group `leveret.protocols` a function that makes a `ServedProtocol` of the
services of the node and the set of its open connections (docs/reference/plugins.md). It is
called when AMQP clients can already connect, since finding packages takes some milliseconds.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from leveret.broker.net.client_listeners import ServedProtocol
from leveret.broker.plugins.extensions import Extensions
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import ServedConnection

MakeProtocol: TypeAlias = Callable[[Services, set[ServedConnection]], ServedProtocol]

PROTOCOLS: Final[Extensions[MakeProtocol]] = Extensions("leveret.protocols", {})

logger = logging.getLogger("leveret.extensions")


def protocols_beside_amqp(
    services: Services, connections: set[ServedConnection]
) -> Iterator[ServedProtocol]:
    """The protocols. One that cannot be made is logged and left out."""
    for name, make in PROTOCOLS.items():
        # The function of a package may raise anything.
        try:
            protocol = make(services, connections)
        except Exception as error:
            logger.error(
                "'%s' of %s is not served: %s: %s",
                name, PROTOCOLS.group, type(error).__name__, error,
            )  # fmt: skip
            continue
        yield protocol

"""A new secret for an open connection: connection.update-secret.

A login with a token is valid until the token expires. A client stays connected by sending a new
token before that; otherwise the connection is closed on expiry.
"""

import logging
from typing import Any, Protocol

from pamqp import base, commands

from leveret.broker.amqp.errors import not_allowed
from leveret.broker.amqp.methods import long_string_argument
from leveret.broker.auth.identity import Identity
from leveret.broker.services.services import Services

logger = logging.getLogger("leveret.connection")


class CredentialsHolder(Protocol):
    """The connection."""

    name: str
    services: Services
    user: Identity

    def renew(self, user: Identity) -> None:
        """The user has another secret."""

    def send(self, channel: int, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method."""


async def update_secret(
    connection: CredentialsHolder, method: commands.Connection.UpdateSecret
) -> None:
    """Replace the connection's secret. Raises 530 if the new one is refused.

    The old secret stays in force until the backend has answered.
    """
    secret = long_string_argument(method.new_secret).decode("utf-8", "surrogateescape")
    identity = await connection.services.access.begin_renew(connection.user, secret)
    if identity is None:
        raise not_allowed("New secret was refused by one of the backends")
    connection.renew(identity)
    logger.info("%s updated its secret: %s", connection.name, method.reason)
    connection.send(0, commands.Connection.UpdateSecretOk)

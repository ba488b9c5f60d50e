"""Credentials of an open connection: connection.update-secret, and expiry.

A login with a token is valid until the token expires. A client stays connected by sending a new
token before that; otherwise the connection is closed on expiry.
"""

import logging
from typing import Any, Protocol

from pamqp import base, commands

from leveret.broker.amqp.errors import not_allowed
from leveret.broker.amqp.methods import long_string_argument
from leveret.broker.auth.identity import Identity
from leveret.broker.runtime.clock import Timer
from leveret.broker.services.services import Services
from leveret.broker.sessions.targets import Targets

logger = logging.getLogger("leveret.connection")


class CredentialsHolder(Protocol):
    """The connection. expiry_timer: fires when the credentials expire."""

    name: str
    services: Services
    user: Identity
    targets: Targets
    expiry_timer: Timer | None

    def send(self, channel: int, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method."""

    def force_close(self, explanation: str) -> None:
        """Close the connection with 320."""


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
    connection.user = identity
    # The cached publish targets were authorised with the old secret.
    connection.targets.clear()
    watch_expiry(connection)
    logger.info("%s updated its secret: %s", connection.name, method.reason)
    connection.send(0, commands.Connection.UpdateSecretOk)


def watch_expiry(connection: CredentialsHolder) -> None:
    """Close the connection when its credentials expire."""
    if connection.expiry_timer is not None:
        connection.expiry_timer.cancel()
        connection.expiry_timer = None
    ends_at_s = connection.user.expires_at_s
    if ends_at_s is not None:
        clock = connection.services.clock
        delay_ms = max(0.0, (ends_at_s - clock.wall_time_s()) * 1000)
        connection.expiry_timer = clock.call_later_ms(
            delay_ms, lambda: connection.force_close("credential expired")
        )

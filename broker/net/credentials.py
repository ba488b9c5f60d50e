"""Credentials that change while a connection is open: connection.update-secret, and their end.

A login by a token is good until the token ends; a client that wants to stay sends a new one. One
that does not is closed when the time comes.
"""

import logging
from typing import Any, Protocol

from pamqp import base, commands

from broker.amqp.errors import not_allowed
from broker.amqp.methods import long_string_argument
from broker.auth.access_control import Undecided
from broker.auth.identity import Identity
from broker.clock import Timer
from broker.services import Services

logger = logging.getLogger("leveret.connection")


class Holder(Protocol):
    """The connection. expiry_timer: goes off when the login is no longer good."""

    name: str
    services: Services
    user: Identity
    targets: dict[bytes, Any]
    expiry_timer: Timer | None
    secret_refused: bool

    def send(self, channel: int, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method."""

    def force_close(self, explanation: str) -> None:
        """Close the connection with 320."""


def renewal(connection: Holder, method: commands.Connection.UpdateSecret) -> Undecided:
    """The question whether a new secret is good, for the connection to wait for."""
    secret = long_string_argument(method.new_secret).decode("utf-8", "surrogateescape")

    async def settle() -> None:
        identity = await connection.services.access.renew(connection.user, secret)
        connection.secret_refused = identity is None
        if identity is not None:
            connection.user = identity
            # What publishers looked up was allowed to them with the old secret.
            connection.targets.clear()
            watch_expiry(connection)

    return Undecided(settle)


def renewed(connection: Holder, method: commands.Connection.UpdateSecret) -> None:
    """The answer to a new secret. Raises 530 if it is refused."""
    if connection.secret_refused:
        raise not_allowed("New secret was refused by one of the backends")
    logger.info("%s updated its secret: %s", connection.name, method.reason)
    connection.send(0, commands.Connection.UpdateSecretOk)


def watch_expiry(connection: Holder) -> None:
    """Close the connection when its login is no longer good."""
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

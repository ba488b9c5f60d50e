"""A client's login: its credentials by SASL, its user, and the virtual host that it opens.

These are the parts that protocols share. Each protocol answers refusals in its own way.
"""

import logging
from typing import Final, Protocol

from leveret.broker.amqp.errors import not_allowed
from leveret.broker.auth.certificates import CertificateRefused, name_from_session
from leveret.broker.auth.challenge_response import MECHANISM as CHALLENGE_RESPONSE
from leveret.broker.auth.challenge_response import ChallengeResponse
from leveret.broker.auth.identity import AMQP, Identity, LoginAttempt
from leveret.broker.auth.sasl import SaslError, read_response
from leveret.broker.auth.users import may_connect_from
from leveret.broker.events.connection_events import ConnectedClient, login_failed, login_succeeded
from leveret.broker.services.services import Services
from leveret.broker.vhost.virtual_host import VirtualHost

PLAIN: Final = "PLAIN"
AMQPLAIN: Final = "AMQPLAIN"
EXTERNAL: Final = "EXTERNAL"
MECHANISMS: Final = (PLAIN, AMQPLAIN, EXTERNAL, CHALLENGE_RESPONSE)

logger = logging.getLogger("leveret.connection")


class Unexpected(Exception):
    """The peer is no client of the protocol: the socket is closed without an answer."""


class AuthenticatingConnection(ConnectedClient, Protocol):
    """The connection of a client that logs in. tls: the TLS session, or None."""

    tls: object

    @property
    def services(self) -> Services:
        """The services of the node."""

    def check_node_limits(self) -> None:
        """Raise 530 if the node's connection limit is reached."""

    def check_limits(self, user: Identity, vhost: str) -> None:
        """Raise 530 if the connection limit of the vhost or of the user is reached."""


class Sasl:
    """The SASL exchange of one connection."""

    __slots__ = ("_challenge", "_connection")

    def __init__(self, connection: AuthenticatingConnection) -> None:
        self._connection = connection
        self._challenge: ChallengeResponse | None = None

    @property
    def mechanisms(self) -> list[str]:
        """The configured mechanisms that the broker supports and this connection can use."""
        connection = self._connection
        configured = connection.services.config.authentication.mechanisms
        return [
            name
            for name in configured
            if name in MECHANISMS and (name != EXTERNAL or connection.tls is not None)
        ]

    @property
    def is_challenged(self) -> bool:
        """Whether the client has to answer a challenge."""
        return self._challenge is not None

    def respond(self, mechanism: str, response: bytes) -> tuple[str, str | None] | bytes:
        """Name and password of the client, or the challenge that it has to answer next.

        mechanism: one of `MECHANISMS`. The password is None if a certificate has the name. Raises
        SaslError for a malformed response, and CertificateRefused, of which operators are told.
        """
        if mechanism == EXTERNAL:
            return certificate_name(self._connection), None
        if mechanism != CHALLENGE_RESPONSE:
            return read_response(mechanism, response)
        if self._challenge is None:
            self._challenge = ChallengeResponse()
            return self._challenge.challenge(response)
        challenge, self._challenge = self._challenge, None
        return challenge.credentials(response)

    def new_secret(self, mechanism: str, response: bytes, name: str) -> str | None:
        """The new secret of a client that has logged in; None if it gives none that counts.

        mechanism, name: those of its login have to be the same.
        """
        if mechanism != self._connection.mechanism or mechanism in (EXTERNAL, CHALLENGE_RESPONSE):
            return None
        try:
            credentials = read_response(mechanism, response)
        except SaslError as error:
            logger.error("%s: %s", self._connection.name, error)
            return None
        return credentials.password if credentials.name == name else None


def certificate_name(connection: AuthenticatingConnection) -> str:
    """The user name in the client's certificate.

    Raises CertificateRefused, after operators are told.
    """
    try:
        return name_from_session(connection.tls, connection.services.config.tls)
    except CertificateRefused as refused:
        logger.error("%s: %s", connection.name, refused)
        login_failed(connection, None, str(refused))
        raise


async def find_user(
    connection: AuthenticatingConnection, name: str, password: str | None, protocol: str = AMQP
) -> Identity | None:
    """Log a user in; None if its credentials are refused. Operators are told of both.

    protocol: the one under which attempts are counted.
    """
    attempt = LoginAttempt(name, password, connection.peer_host, connection.name, protocol)
    user = await connection.services.access.begin_log_in(attempt)
    if user is None:
        # RabbitMQ's texts for the event; the log has more detail.
        may_connect = is_allowed_host(connection, name)
        problem = " - invalid credentials" if may_connect else " can only connect via localhost"
        login_failed(connection, name, f"user '{name}'{problem}")
    else:
        login_succeeded(connection, user.name)
    return user


def is_allowed_host(connection: AuthenticatingConnection, name: str) -> bool:
    """Whether this user may log in from the client's host."""
    loopback_users = connection.services.config.loopback_users
    return may_connect_from(connection.peer_host, name, loopback_users)


async def find_vhost(
    connection: AuthenticatingConnection, user: Identity, name: str
) -> VirtualHost:
    """The virtual host of this name. Raises 530 if it does not exist or the user has no access."""
    services = connection.services
    vhost = services.vhosts.get(name)
    if vhost is None:
        raise not_allowed(f"vhost {name} not found")
    await services.access.check_vhost(user, name, connection.peer_host)
    if vhost.is_deleted:
        # Deleted while a backend was checking.
        raise not_allowed(f"vhost {name} not found")
    return vhost

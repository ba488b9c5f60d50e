"""The handshake of AMQP 1.0: SASL, then open.

    client                              broker
    AMQP 3 1 0 0                        the same, and the mechanisms
    sasl-init                           sasl-outcome; or a challenge, which sasl-response answers
    AMQP 0 1 0 0                        the same
    open, whose host name may be        open
    `vhost:NAME`

A client that begins without SASL is told the header of SASL, and its socket is closed. What else is
out of order closes the socket without an answer, as in RabbitMQ.
"""

import logging
import platform
from typing import Any, Final, Protocol

from leveret import __version__
from leveret.broker.amqp.errors import not_allowed
from leveret.broker.amqp10.values import Value
from leveret.broker.auth.certificates import CertificateRefused, name_from_session
from leveret.broker.auth.identity import Identity, LoginAttempt
from leveret.broker.auth.sasl import SaslError, read_response
from leveret.broker.auth.users import may_connect_from
from leveret.broker.config.authentication_settings import AuthenticationSettings
from leveret.broker.events.connection_events import login_failed, login_succeeded
from leveret.broker.protocols.amqp091.connection.handshake import (
    COMPATIBLE_VERSIONS,
    EXTERNAL,
    PRODUCT,
)
from leveret.broker.protocols.amqp10.performatives import (
    Open,
    Performative,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
)
from leveret.broker.services.services import Services
from leveret.broker.vhost.virtual_host import VirtualHost

SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
HEADER: Final = b"AMQP\x00\x01\x00\x00"
FRAME_BYTES_MAX: Final = 128 * 1024
"""RabbitMQ's largest frame if none is configured."""
FRAME_BYTES_MIN: Final = 512
"""The smallest max-frame-size that a client may ask for (part 2, section 2.7.1)."""
CHANNEL_MAX: Final = 63
IDLE_TIMEOUT_MS: Final = 30_000
"""Half of the time after which a silent client is given up."""
ANONYMOUS: Final = "ANONYMOUS"
_VHOST_PREFIX: Final = "vhost:"
_OK, _WRONG_CREDENTIALS = 0, 1
_CAPABILITIES: Final = ["LINK_PAIR_V1_0", "ANONYMOUS-RELAY"]

logger = logging.getLogger("leveret.connection")


class Unexpected(Exception):
    """The peer is no client of the protocol: the socket is closed without an answer."""


class LoginConnection(Protocol):
    """The connection, as the handshake sees it."""

    name: str
    own_host: str
    own_port: int
    peer_host: str
    peer_port: int
    mechanism: str
    protocol: str
    client_properties: Any
    tls: Any

    @property
    def services(self) -> Services:
        """The services of the node."""

    def tls_facts(self) -> dict[str, Any]:
        """RabbitMQ's management fields of the TLS session; empty without TLS."""

    def send_header(self, header: bytes) -> None:
        """Send a protocol header."""

    def send(self, performative: Performative) -> None:
        """Send a performative on channel 0."""

    def drop(self) -> None:
        """Close the socket after all output is sent."""

    def refuse_later(self, outcome: SaslOutcome) -> None:
        """Send this, and close the socket after a delay that slows guessing."""

    def check_node_limits(self) -> None:
        """Raise 530 if the node's connection limit is reached."""

    def check_limits(self, user: Identity, vhost: str) -> None:
        """Raise 530 if the connection limit of the vhost or of the user is reached."""

    def tune(self, request: Open) -> None:
        """Take the limits of the client. Raises ConnectionEnds."""

    def open(self, user: Identity, vhost: VirtualHost) -> None:
        """The handshake is complete."""


class Login:
    """The handshake of one connection. expects_header: a protocol header is what comes next."""

    __slots__ = ("_connection", "_user", "_was_sasl", "expects_header")

    def __init__(self, connection: LoginConnection) -> None:
        self._connection = connection
        self._user: Identity | None = None
        self._was_sasl = False
        self.expects_header = True

    def take_header(self, header: bytes) -> None:
        """Answer a protocol header. Raises Unexpected."""
        connection = self._connection
        if header == SASL_HEADER and not self._was_sasl:
            self._was_sasl = True
            connection.send_header(SASL_HEADER)
            connection.send(SaslMechanisms(self._mechanisms))
        elif header == HEADER and self._user is not None:
            connection.send_header(HEADER)
        elif header == HEADER and not self._was_sasl:
            connection.send_header(SASL_HEADER)
            raise Unexpected("a client has to authenticate with SASL")
        else:
            raise Unexpected(f"the protocol header {header!r} is not expected")
        self.expects_header = False

    async def handle(self, performative: Performative) -> None:
        """Handle the next performative; may wait for a backend.

        Raises Unexpected, Fault and ConnectionEnds.
        """
        if isinstance(performative, SaslInit) and self._user is None:
            await self._authenticate(performative)
        elif isinstance(performative, Open) and self._user is not None:
            await self._open(self._user, performative)
        else:
            name = type(performative).__name__.lower()
            raise Unexpected(f"the performative {name} is not expected in the handshake")

    @property
    def _mechanisms(self) -> list[str]:
        """The mechanisms that this connection can use.

        ANONYMOUS is one of RabbitMQ 4's default mechanisms, and of no others unless it is named.
        """
        connection = self._connection
        configured = connection.services.config.authentication.mechanisms
        found = [name for name in configured if name in {"PLAIN", "AMQPLAIN"}]
        if EXTERNAL in configured and connection.tls is not None:
            found.append(EXTERNAL)
        if ANONYMOUS in configured or configured == AuthenticationSettings().mechanisms:
            found.append(ANONYMOUS)
        return found

    async def _authenticate(self, request: SaslInit) -> None:
        connection = self._connection
        mechanism = request.mechanism
        if mechanism not in self._mechanisms:
            raise Unexpected(f"unknown authentication mechanism '{mechanism}'")
        connection.mechanism = mechanism
        try:
            name, password = self._credentials(mechanism, request.initial_response or b"")
        except SaslError as error:
            raise Unexpected(str(error)) from None
        except CertificateRefused as refused:
            logger.error("%s: %s", connection.name, refused)
            login_failed(connection, None, str(refused))
            connection.refuse_later(SaslOutcome(_WRONG_CREDENTIALS))
            return
        await self._log_in(name, password)

    def _credentials(self, mechanism: str, response: bytes) -> tuple[str, str | None]:
        connection = self._connection
        config = connection.services.config
        if mechanism == EXTERNAL:
            return name_from_session(connection.tls, config.tls), None
        if mechanism == ANONYMOUS:
            return config.default_user, config.default_pass
        credentials = read_response(mechanism, response)
        return credentials.name, credentials.password

    async def _log_in(self, name: str, password: str | None) -> None:
        connection = self._connection
        services = connection.services
        attempt = LoginAttempt(
            name, password, connection.peer_host, connection.name, connection.protocol
        )
        user = await services.access.begin_log_in(attempt)
        if user is None:
            is_local = may_connect_from(connection.peer_host, name, services.config.loopback_users)
            problem = "invalid credentials" if is_local else "can only connect via localhost"
            login_failed(connection, name, f"user '{name}' - {problem}")
            connection.refuse_later(SaslOutcome(_WRONG_CREDENTIALS))
            return
        login_succeeded(connection, user.name)
        self._user = user
        self.expects_header = True
        connection.send(SaslOutcome(_OK))

    async def _open(self, user: Identity, request: Open) -> None:
        connection = self._connection
        services = connection.services
        host = request.hostname or ""
        is_named = host.startswith(_VHOST_PREFIX)
        name = host.removeprefix(_VHOST_PREFIX) if is_named else services.config.default_vhost
        connection.check_node_limits()
        vhost = services.vhosts.get(name)
        if vhost is None:
            raise not_allowed(f"vhost {name} not found")
        await services.access.check_vhost(user, name, connection.peer_host)
        if vhost.is_deleted:
            # Deleted while a backend was checking.
            raise not_allowed(f"vhost {name} not found")
        connection.check_limits(user, name)
        connection.tune(request)
        connection.open(user, vhost)
        connection.send(_opened(services, request))


def _opened(services: Services, request: Open) -> Open:
    """The broker's open."""
    config = services.config
    channel_max = CHANNEL_MAX
    if request.channel_max is not None:
        channel_max = min(channel_max, request.channel_max)
    told = {
        "cluster_name": services.cluster_name,
        "copyright": "Copyright (c) the Leveret authors",
        "information": f"Leveret {__version__}, an AMQP broker",
        "node": config.node_name,
        "platform": f"Python {platform.python_version()}",
        "product": PRODUCT,
        "version": COMPATIBLE_VERSIONS[config.compat],
    }
    properties = [(Value("symbol", key), Value("string", text)) for key, text in told.items()]
    return Open(
        config.node_name, None, config.frame_max_bytes or FRAME_BYTES_MAX, channel_max,
        IDLE_TIMEOUT_MS, offered_capabilities=_CAPABILITIES, properties=Value("map", properties),
    )  # fmt: skip

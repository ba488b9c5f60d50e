"""The handshake of AMQP 1.0: SASL, then open.

    client                              broker
    AMQP 3 1 0 0                        the same, and the mechanisms
    sasl-init                           sasl-outcome; or a challenge, which sasl-response answers
    AMQP 0 1 0 0                        the same
    open, whose host name may be        open
    `vhost:NAME`

A client that begins without SASL is sent the header of SASL, and its socket is closed. Any other
frame out of order closes the socket without an answer, as in RabbitMQ.
"""

import logging
import platform
from typing import Final, Protocol

from leveret import __version__
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp10.conversion import field_of
from leveret.broker.amqp10.values import Value
from leveret.broker.auth.certificates import CertificateRefused
from leveret.broker.auth.identity import Identity
from leveret.broker.auth.sasl import SaslError
from leveret.broker.config.authentication_settings import AuthenticationSettings
from leveret.broker.protocols.amqp091.connection.handshake import COMPATIBLE_VERSIONS, PRODUCT
from leveret.broker.protocols.amqp10.performatives import (
    Open,
    Performative,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
)
from leveret.broker.protocols.amqp10.redirection import VHOST_PREFIX
from leveret.broker.protocols.logging_in import (
    AMQPLAIN,
    EXTERNAL,
    PLAIN,
    AuthenticatingConnection,
    Sasl,
    Unexpected,
    find_user,
    find_vhost,
)
from leveret.broker.runtime.counts import AMQP10
from leveret.broker.services.services import Services
from leveret.broker.vhost.virtual_host import VirtualHost

SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
HEADER: Final = b"AMQP\x00\x01\x00\x00"
FRAME_BYTES_MAX: Final = 128 * 1024
"""RabbitMQ's largest frame if none is configured."""
FRAME_BYTES_MIN: Final = 512
"""The smallest max-frame-size that a client may ask for (part 2, section 2.7.1)."""
CHANNEL_MAX: Final = 63
IDLE_TIMEOUT_MS_MIN: Final = 1000
"""RabbitMQ's minimum for a client's time-out: a shorter one would need frames all the time."""
ANONYMOUS: Final = "ANONYMOUS"
_ONE_STEP: Final = (PLAIN, AMQPLAIN, EXTERNAL)
"""The mechanisms without a challenge."""
_OK, _WRONG_CREDENTIALS = 0, 1
_CAPABILITIES: Final = ["LINK_PAIR_V1_0", "ANONYMOUS-RELAY"]

logger = logging.getLogger("leveret.connection")


class LoginConnection(AuthenticatingConnection, Protocol):
    """The connection, as the handshake sees it."""

    def send_header(self, header: bytes) -> None:
        """Send a protocol header."""

    def send(self, performative: Performative) -> None:
        """Send a performative on channel 0."""

    def drop(self) -> None:
        """Close the socket after all output is sent."""

    def refuse_later(self, outcome: SaslOutcome) -> None:
        """Send this, and close the socket after a delay that slows guessing."""

    def tune(self, request: Open) -> None:
        """Take the limits of the client. Raises ConnectionEnds."""

    def open(self, user: Identity, vhost: VirtualHost) -> None:
        """The handshake is complete."""


class Login:
    """The handshake of one connection. expects_header: the next bytes are a protocol header."""

    __slots__ = ("_connection", "_sasl", "_user", "_was_sasl", "expects_header")

    def __init__(self, connection: LoginConnection) -> None:
        self._connection = connection
        self._sasl = Sasl(connection)
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

        ANONYMOUS is one of RabbitMQ 4's default mechanisms. If mechanisms are configured, it has to
        be among them.
        """
        configured = self._connection.services.config.authentication.mechanisms
        found = [name for name in self._sasl.mechanisms if name in _ONE_STEP]
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
            credentials = self._credentials(mechanism, request.initial_response or b"")
        except SaslError as error:
            raise Unexpected(str(error)) from None
        except CertificateRefused:
            connection.refuse_later(SaslOutcome(_WRONG_CREDENTIALS))
            return
        await self._log_in(*credentials)

    def _credentials(self, mechanism: str, response: bytes) -> tuple[str, str | None]:
        if mechanism == ANONYMOUS:
            config = self._connection.services.config
            return config.default_user, config.default_pass
        credentials = self._sasl.respond(mechanism, response)
        assert not isinstance(credentials, bytes), "no mechanism with a challenge is offered"
        return credentials

    async def _log_in(self, name: str, password: str | None) -> None:
        connection = self._connection
        user = await find_user(connection, name, password, AMQP10)
        if user is None:
            connection.refuse_later(SaslOutcome(_WRONG_CREDENTIALS))
            return
        self._user = user
        self.expects_header = True
        connection.send(SaslOutcome(_OK))

    async def _open(self, user: Identity, request: Open) -> None:
        connection = self._connection
        services = connection.services
        host = request.hostname or ""
        is_named = host.startswith(VHOST_PREFIX)
        name = host.removeprefix(VHOST_PREFIX) if is_named else services.config.default_vhost
        connection.check_node_limits()
        vhost = await find_vhost(connection, user, name)
        connection.check_limits(user, name)
        connection.tune(request)
        connection.open(user, vhost)
        connection.send(_opened(services, request))


def properties_of(request: Open) -> Table:
    """The properties in a client's open, as client properties of AMQP 0-9-1."""
    properties: Table = {}
    for key, value in () if request.properties is None else request.properties.value:
        field = field_of(value)
        if field is not None and isinstance(key.value, str):
            properties[key.value] = field
    return properties


def _opened(services: Services, request: Open) -> Open:
    """The broker's `open`."""
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
    # Half of the time after which a silent client is disconnected.
    idle_ms = config.heartbeat_s * 500 or None
    return Open(
        config.node_name, None, config.frame_max_bytes or FRAME_BYTES_MAX, channel_max,
        idle_ms, offered_capabilities=_CAPABILITIES, properties=Value("map", properties),
    )  # fmt: skip

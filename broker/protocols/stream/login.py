"""The handshake of a connection: peer properties, SASL, tune, open.

    client                       broker
    peer properties              its own
    sasl handshake               the mechanisms
    sasl authenticate            ok, then its tune; or a challenge
    tune                         nothing
    open, with a virtual host    the advertised host and port

A command out of this order closes the socket without an answer, as in RabbitMQ: the peer may be no
client. An open connection may authenticate again, with the same mechanism and name: the secret is
replaced, such as a token that expires.
"""

import logging
from typing import Final, Protocol

from leveret.broker.amqp.errors import Fault
from leveret.broker.auth.certificates import CertificateRefused
from leveret.broker.auth.identity import Identity
from leveret.broker.auth.sasl import SaslError
from leveret.broker.events.connection_events import login_failed
from leveret.broker.protocols.amqp091.connection.handshake import server_properties
from leveret.broker.protocols.logging_in import (
    AuthenticatingConnection,
    Sasl,
    Unexpected,
    find_user,
    find_vhost,
    is_allowed_host,
)
from leveret.broker.protocols.stream import codes, responses
from leveret.broker.protocols.stream.requests import ClientRequest, Properties
from leveret.broker.protocols.stream.serving import note_error
from leveret.broker.vhost.virtual_host import VirtualHost

CONNECTED: Final = "connected"
IDENTIFIED: Final = "identified"
AUTHENTICATING: Final = "authenticating"
TUNING: Final = "tuning"
OPENING: Final = "opening"

logger = logging.getLogger("leveret.connection")


class StreamLoginConnection(AuthenticatingConnection, Protocol):
    """The connection, as the handshake sees it."""

    @property
    def user(self) -> Identity:
        """The user of an open connection."""

    def send(self, frame: bytes | memoryview) -> None:
        """Send a frame."""

    def drop(self) -> None:
        """Close the socket after all output is sent."""

    def refuse_later(self, response: bytes) -> None:
        """Send this and close the socket, after a delay that slows guessing."""

    def tune(self, frame_bytes_max: int, heartbeat_s: int) -> None:
        """The limits that the client has chosen. 0: none."""

    def open(self, user: Identity, vhost: VirtualHost) -> Properties:
        """The handshake is complete. Returns what the client is told."""

    def renew(self, user: Identity) -> None:
        """The user has a new secret."""


class StreamLogin:
    """The handshake of one connection, and later its new secrets."""

    __slots__ = ("_connection", "_sasl", "_step", "_user")

    def __init__(self, connection: StreamLoginConnection) -> None:
        self._connection = connection
        self._step = CONNECTED
        self._user: Identity | None = None
        self._sasl = Sasl(connection)

    async def handle(self, request: ClientRequest) -> None:
        """Handle the next command; may wait for a backend. Raises Unexpected."""
        key, step, fields = request.key, self._step, request.fields
        correlation = request.correlation or 0
        if key == codes.HEARTBEAT:
            return
        if key == codes.PEER_PROPERTIES and step == CONNECTED:
            self._identify(correlation, *fields)
        elif key == codes.SASL_HANDSHAKE and step in (CONNECTED, IDENTIFIED):
            self._name_mechanisms(correlation)
        elif key == codes.SASL_AUTHENTICATE and step == AUTHENTICATING:
            await self._authenticate(correlation, *fields)
        elif key & ~codes.RESPONSE == codes.TUNE and step == TUNING:
            self._connection.tune(*fields)
            self._step = OPENING
        elif key == codes.OPEN and step == OPENING:
            await self._open(correlation, *fields)
        else:
            raise Unexpected(f"command {key} is not expected while {step}")

    def _identify(self, correlation: int, properties: Properties) -> None:
        connection = self._connection
        connection.client_properties = {name: ("S", text) for name, text in properties.items()}
        self._step = IDENTIFIED
        services = connection.services
        own = server_properties(services.cluster_name, services.config.compat)
        told = {name: str(value) for name, (letter, value) in own.items() if letter == "S"}
        self._answer(codes.PEER_PROPERTIES, correlation, codes.OK, responses.pairs(told))

    def _name_mechanisms(self, correlation: int) -> None:
        if self._step == IDENTIFIED:
            self._step = AUTHENTICATING
        body = responses.strings(self._sasl.mechanisms)
        self._answer(codes.SASL_HANDSHAKE, correlation, codes.OK, body)

    # Authenticating

    async def _authenticate(self, correlation: int, mechanism: str, data: bytes) -> None:
        connection = self._connection
        if mechanism not in self._sasl.mechanisms:
            self._refuse(correlation, codes.SASL_MECHANISM_NOT_SUPPORTED)
            return
        connection.mechanism = mechanism
        try:
            credentials = self._sasl.respond(mechanism, data)
        except SaslError as error:
            logger.error("%s: %s", connection.name, error)
            login_failed(connection, None, str(error))
            self._refuse(correlation, codes.SASL_ERROR)
            return
        except CertificateRefused:
            self._refuse_later(correlation, codes.AUTHENTICATION_FAILURE)
            return
        if isinstance(credentials, bytes):
            body = responses.sasl_challenge(credentials)
            self._answer(codes.SASL_AUTHENTICATE, correlation, codes.SASL_CHALLENGE, body)
            return
        await self._log_in(correlation, *credentials)

    async def _log_in(self, correlation: int, name: str, password: str | None) -> None:
        connection = self._connection
        self._user = await find_user(connection, name, password, connection.protocol)
        if self._user is None:
            self._refuse_later(
                correlation,
                codes.AUTHENTICATION_FAILURE if is_allowed_host(connection, name)
                else codes.SASL_AUTHENTICATION_FAILURE_LOOPBACK,
            )  # fmt: skip
            return
        self._step = TUNING
        self._answer(codes.SASL_AUTHENTICATE, correlation, codes.OK)
        offered = connection.services.config.stream
        connection.send(responses.tune(offered.frame_max_bytes, offered.heartbeat_s))

    async def _open(self, correlation: int, name: str) -> None:
        connection = self._connection
        user = self._user
        assert user is not None, "a connection is opened before its user is known"
        try:
            vhost = await find_vhost(connection, user, name)
            connection.check_node_limits()
            connection.check_limits(user, name)
        except Fault as fault:
            logger.error("%s: %s", connection.name, fault.explanation)
            self._answer(codes.OPEN, correlation, codes.VHOST_ACCESS_FAILURE)
            connection.drop()
            return
        body = responses.opened(connection.open(user, vhost))
        self._answer(codes.OPEN, correlation, codes.OK, body)

    async def renew(self, correlation: int, mechanism: str, data: bytes) -> None:
        """Replace the secret of an open connection."""
        connection = self._connection
        secret = self._sasl.new_secret(mechanism, data, connection.user.name)
        if secret is None:
            self._refuse(correlation, codes.SASL_ERROR)
            return
        identity = await connection.services.access.begin_renew(connection.user, secret)
        if identity is None:
            self._refuse_later(correlation, codes.AUTHENTICATION_FAILURE)
            return
        connection.renew(identity)
        self._answer(codes.SASL_AUTHENTICATE, correlation, codes.OK)

    # Answers

    def _answer(self, key: int, correlation: int, code: int, body: bytes = b"") -> None:
        note_error(self._connection.services, code)
        self._connection.send(responses.response(key, correlation, code, body))

    def _refuse(self, correlation: int, code: int) -> None:
        self._answer(codes.SASL_AUTHENTICATE, correlation, code)
        self._connection.drop()

    def _refuse_later(self, correlation: int, code: int) -> None:
        note_error(self._connection.services, code)
        response = responses.response(codes.SASL_AUTHENTICATE, correlation, code)
        self._connection.refuse_later(response)

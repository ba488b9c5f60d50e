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
from typing import Any, Final, Protocol

from leveret.broker.amqp.errors import Fault, not_allowed
from leveret.broker.amqp.field_table import Table
from leveret.broker.auth.certificates import CertificateRefused, name_from_session
from leveret.broker.auth.challenge_response import MECHANISM as CHALLENGE_RESPONSE
from leveret.broker.auth.challenge_response import ChallengeResponse
from leveret.broker.auth.identity import Identity, LoginAttempt
from leveret.broker.auth.sasl import Credentials, SaslError, read_response
from leveret.broker.auth.users import may_connect_from
from leveret.broker.events.connection_events import login_failed, login_succeeded
from leveret.broker.protocols.amqp091.connection.handshake import (
    EXTERNAL,
    MECHANISMS,
    server_properties,
)
from leveret.broker.protocols.stream import codes, responses
from leveret.broker.protocols.stream.requests import ClientRequest, Properties
from leveret.broker.protocols.stream.serving import note_error
from leveret.broker.services.services import Services
from leveret.broker.vhost.virtual_host import VirtualHost

CONNECTED: Final = "connected"
IDENTIFIED: Final = "identified"
AUTHENTICATING: Final = "authenticating"
TUNING: Final = "tuning"
OPENING: Final = "opening"

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
    client_properties: Table
    tls: Any

    @property
    def user(self) -> Identity:
        """The user of an open connection."""

    @property
    def services(self) -> Services:
        """The services of the node."""

    def tls_facts(self) -> dict[str, Any]:
        """RabbitMQ's management fields of the TLS session; empty without TLS."""

    def send(self, frame: bytes) -> None:
        """Send a frame."""

    def drop(self) -> None:
        """Close the socket after all output is sent."""

    def refuse_later(self, response: bytes) -> None:
        """Send this and close the socket, after a delay that slows guessing."""

    def tune(self, frame_bytes_max: int, heartbeat_s: int) -> None:
        """The limits that the client has chosen. 0: none."""

    def check_node_limits(self) -> None:
        """Raise 530 if the node's connection limit is reached."""

    def check_limits(self, user: Identity, vhost: str) -> None:
        """Raise 530 if the connection limit of the vhost or of the user is reached."""

    def open(self, user: Identity, vhost: VirtualHost) -> Properties:
        """The handshake is complete. Returns what the client is told."""

    def renew(self, user: Identity) -> None:
        """The user has another secret."""


class Login:
    """The handshake of one connection, and later its new secrets."""

    __slots__ = ("_challenge", "_connection", "_step", "_user")

    def __init__(self, connection: LoginConnection) -> None:
        self._connection = connection
        self._step = CONNECTED
        self._user: Identity | None = None
        self._challenge: ChallengeResponse | None = None

    @property
    def is_authenticated(self) -> bool:
        """Whether the user is known, so that the limits of unknown peers end."""
        return self._user is not None

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
        body = responses.strings(self._mechanisms)
        self._answer(codes.SASL_HANDSHAKE, correlation, codes.OK, body)

    @property
    def _mechanisms(self) -> list[str]:
        """The configured mechanisms that this connection can use."""
        connection = self._connection
        configured = connection.services.config.authentication.mechanisms
        return [
            name
            for name in configured
            if name in MECHANISMS and (name != EXTERNAL or connection.tls is not None)
        ]

    # Authenticating

    async def _authenticate(self, correlation: int, mechanism: str, data: bytes) -> None:
        connection = self._connection
        if mechanism not in self._mechanisms:
            self._refuse(correlation, codes.SASL_MECHANISM_NOT_SUPPORTED)
            return
        connection.mechanism = mechanism
        try:
            credentials = self._credentials(mechanism, data)
        except SaslError as error:
            logger.error("%s: %s", connection.name, error)
            login_failed(connection, None, str(error))
            self._refuse(correlation, codes.SASL_ERROR)
            return
        except CertificateRefused as refused:
            logger.error("%s: %s", connection.name, refused)
            login_failed(connection, None, str(refused))
            self._refuse_later(correlation, codes.AUTHENTICATION_FAILURE)
            return
        if isinstance(credentials, bytes):
            body = responses.sasl_challenge(credentials)
            self._answer(codes.SASL_AUTHENTICATE, correlation, codes.SASL_CHALLENGE, body)
            return
        await self._log_in(correlation, *credentials)

    def _credentials(self, mechanism: str, data: bytes) -> tuple[str, str | None] | bytes:
        """Name and password, or the challenge that the client has to answer before."""
        connection = self._connection
        if mechanism == EXTERNAL:
            return name_from_session(connection.tls, connection.services.config.tls), None
        if mechanism != CHALLENGE_RESPONSE:
            return read_response(mechanism, data)
        if self._challenge is None:
            self._challenge = ChallengeResponse()
            return self._challenge.challenge(data)
        challenge, self._challenge = self._challenge, None
        return challenge.credentials(data)

    async def _log_in(self, correlation: int, name: str, password: str | None) -> None:
        connection = self._connection
        services = connection.services
        attempt = LoginAttempt(
            name, password, connection.peer_host, connection.name, connection.protocol
        )
        self._user = await services.access.begin_log_in(attempt)
        if self._user is None:
            is_local = may_connect_from(connection.peer_host, name, services.config.loopback_users)
            problem = "invalid credentials" if is_local else "can only connect via localhost"
            login_failed(connection, name, f"user '{name}' - {problem}")
            self._refuse_later(
                correlation,
                codes.AUTHENTICATION_FAILURE if is_local
                else codes.SASL_AUTHENTICATION_FAILURE_LOOPBACK,
            )  # fmt: skip
            return
        login_succeeded(connection, self._user.name)
        self._step = TUNING
        self._answer(codes.SASL_AUTHENTICATE, correlation, codes.OK)
        offered = services.config.stream
        connection.send(responses.tune(offered.frame_max_bytes, offered.heartbeat_s))

    async def _open(self, correlation: int, name: str) -> None:
        connection = self._connection
        services = connection.services
        user = self._user
        assert user is not None, "a connection is opened before its user is known"
        try:
            vhost = services.vhosts.get(name)
            if vhost is None:
                raise not_allowed(f"vhost {name} not found")
            await services.access.check_vhost(user, name, connection.peer_host)
            if vhost.is_deleted:
                # Deleted while a backend was checking.
                raise not_allowed(f"vhost {name} not found")
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
        credentials: Credentials | None = None
        if mechanism == connection.mechanism and mechanism not in (EXTERNAL, CHALLENGE_RESPONSE):
            try:
                credentials = read_response(mechanism, data)
            except SaslError as error:
                logger.error("%s: %s", connection.name, error)
        if credentials is None or credentials.name != connection.user.name:
            self._refuse(correlation, codes.SASL_ERROR)
            return
        renewing = connection.services.access.begin_renew(connection.user, credentials.password)
        identity = await renewing
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

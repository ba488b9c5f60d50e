"""The handshake of a connection: protocol header, start, tune, open.

Most errors get no reply: RabbitMQ waits three seconds and disconnects, since the peer may not be an
AMQP client or may be guessing passwords. `may_send_fault` selects the errors that are sent.
"""

import logging
from typing import Any, Protocol

from pamqp import base, commands

from leveret.broker.amqp.errors import ConnectionFault, frame_error, login_refused, not_allowed
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.frames import PROTOCOL_HEADER
from leveret.broker.amqp.methods import long_string_argument, method_name, table_argument
from leveret.broker.amqp.reply_codes import ACCESS_REFUSED
from leveret.broker.auth.certificates import CertificateRefused, name_from_session
from leveret.broker.auth.challenge_response import MECHANISM as CHALLENGE_RESPONSE
from leveret.broker.auth.challenge_response import ChallengeResponse
from leveret.broker.auth.identity import Identity, LoginAttempt
from leveret.broker.auth.sasl import SaslError, read_response
from leveret.broker.auth.users import may_connect_from
from leveret.broker.events.connection_events import login_failed, login_succeeded
from leveret.broker.protocols.amqp091.connection.handshake import (
    ACCEPTED_PROTOCOL_HEADERS,
    EXTERNAL,
    FRAME_BYTES_MIN,
    FRAME_BYTES_MIN_4,
    LOCALES,
    MECHANISMS,
    PLAIN_MECHANISM,
    check_tuning,
    server_properties,
)
from leveret.broker.protocols.amqp091.connection.output import Output
from leveret.broker.protocols.tuning import Tuning
from leveret.broker.services.services import Services
from leveret.broker.vhost.virtual_host import VirtualHost

HEADER_BYTES = 8
WAITING_FOR_HEADER, STARTING, TUNING, OPENING = "header", "starting", "tuning", "opening"

logger = logging.getLogger("leveret.connection")


class LoginConnection(Protocol):
    """The connection, as the handshake sees it."""

    name: str
    own_host: str
    own_port: int
    peer_host: str
    peer_port: int
    services: Services
    output: Output
    protocol: str
    client_properties: Table
    tuning: Tuning
    mechanism: str
    tls: Any

    def tls_facts(self) -> dict[str, Any]:
        """RabbitMQ's management fields of the TLS session; empty without TLS."""

    def has_capability(self, name: str) -> bool:
        """Whether the client announced this capability in its properties."""

    def send(self, channel: int, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method."""

    def tune(self, tuning: Tuning) -> None:
        """Apply the negotiated limits."""

    def check_node_limits(self) -> None:
        """Raise 530 if the node's connection limit is reached."""

    def check_limits(self, user: Identity, vhost: str) -> None:
        """Raise 530 if the connection limit of the vhost or of the user is reached."""

    def open(self, user: Identity, vhost: VirtualHost) -> None:
        """The handshake is complete: open the connection to the vhost."""

    def drop(self) -> None:
        """Close the socket after all written output is sent."""

    def give_away(self, header: bytes, data: bytes) -> bool:
        """Give the socket to another protocol with this header; False if there is none.

        data: the bytes after the header.
        """


class Login:
    """The handshake of one connection; discarded once it is complete.

    known_user: the user of a client within the node, whatever credentials it sends. is_limited:
    frames have a limit. Frames of a client in memory need none, and headers that links have added
    to a message may make it longer than a client's frame.
    """

    __slots__ = (
        "_challenge", "_connection", "_header", "_step", "_user", "is_limited", "known_user",
    )  # fmt: skip

    def __init__(self, connection: LoginConnection) -> None:
        self._connection = connection
        self._step = WAITING_FOR_HEADER
        self._header = b""
        self._user: Identity | None = None
        self.known_user: Identity | None = None
        self.is_limited = True
        self._challenge: ChallengeResponse | None = None

    @property
    def is_waiting_for_header(self) -> bool:
        """Whether the protocol header has not been received yet."""
        return self._step == WAITING_FOR_HEADER

    @property
    def is_authenticating(self) -> bool:
        """Whether the client is not authenticated yet."""
        return self._step == STARTING

    def read_protocol_header(self, data: bytes) -> bytes:
        """Check the protocol header and return the bytes after it; a wrong one disconnects."""
        self._header += data
        if len(self._header) < HEADER_BYTES:
            return b""
        header, rest = self._header[:HEADER_BYTES], self._header[HEADER_BYTES:]
        self._header = b""
        versions = ACCEPTED_PROTOCOL_HEADERS.get(header)
        connection = self._connection
        if versions is None and connection.give_away(header, rest):
            return b""
        if versions is None:
            logger.error("%s sent a wrong protocol header: %r", connection.name, header)
            connection.output.pieces.append(PROTOCOL_HEADER)
            connection.drop()
            return b""
        self._step = STARTING
        connection.send(
            0,
            commands.Connection.Start,
            version_major=versions[0],
            version_minor=versions[1],
            server_properties=server_properties(
                connection.services.cluster_name, connection.services.config.compat
            ),
            mechanisms=" ".join(self._mechanisms),
            locales=LOCALES,
        )
        return rest

    def may_send_fault(self, fault: ConnectionFault) -> bool:
        """Whether the client receives an error at this step of the handshake."""
        if self._step == STARTING:
            return fault.reply_code == ACCESS_REFUSED and self._connection.has_capability(
                "authentication_failure_close"
            )
        return self._step == OPENING

    async def handle(self, method: base.Frame) -> None:
        """Handle the next method; may wait for a backend. Raises ConnectionFault."""
        if self._step == STARTING and isinstance(method, commands.Connection.StartOk):
            await self._handle_start_ok(method)
        elif self._is_challenged and isinstance(method, commands.Connection.SecureOk):
            await self._handle_secure_ok(method)
        elif self._step == TUNING and isinstance(method, commands.Connection.TuneOk):
            self._handle_tune_ok(method)
        elif self._step == OPENING and isinstance(method, commands.Connection.Open):
            await self._handle_open(method)
        else:
            raise frame_error(f"{method_name(method)} is not expected while {self._step}")

    @property
    def _is_challenged(self) -> bool:
        return self._step == STARTING and self._challenge is not None

    @property
    def _mechanisms(self) -> list[str]:
        """The configured mechanisms that the broker supports and this connection can use."""
        connection = self._connection
        if self.known_user is not None:
            return [PLAIN_MECHANISM]
        configured = connection.services.config.authentication.mechanisms
        return [
            name
            for name in configured
            if name in MECHANISMS and (name != EXTERNAL or connection.tls is not None)
        ]

    async def _handle_start_ok(self, method: commands.Connection.StartOk) -> None:
        connection = self._connection
        connection.client_properties = table_argument(method.client_properties)
        if method.mechanism not in self._mechanisms:
            raise frame_error(f"unknown authentication mechanism '{method.mechanism}'")
        connection.mechanism = method.mechanism
        response = long_string_argument(method.response)
        if method.mechanism == CHALLENGE_RESPONSE:
            self._challenge = ChallengeResponse()
            connection.send(
                0,
                commands.Connection.Secure,
                challenge=self._challenge.challenge(response).decode(),
            )
            return
        credentials: tuple[str, str | None]
        try:
            if method.mechanism == EXTERNAL:
                credentials = self._certificate_credentials()
            else:
                credentials = read_response(method.mechanism, response)
        except SaslError as error:
            raise frame_error(str(error)) from None
        await self._log_in(*credentials)

    def _certificate_credentials(self) -> tuple[str, str | None]:
        """The user name in the client's certificate, without a password. Raises 403."""
        connection = self._connection
        try:
            return name_from_session(connection.tls, connection.services.config.tls), None
        except CertificateRefused as refused:
            logger.error("%s: %s", connection.name, refused)
            login_failed(connection, None, str(refused))
            raise self._refusal() from None

    async def _handle_secure_ok(self, method: commands.Connection.SecureOk) -> None:
        assert self._challenge is not None
        try:
            credentials = self._challenge.credentials(long_string_argument(method.response))
        except SaslError as error:
            raise frame_error(str(error)) from None
        await self._log_in(*credentials)

    def _refusal(self) -> ConnectionFault:
        return login_refused(
            f"Login was refused using authentication mechanism {self._connection.mechanism}. "
            "For details see the broker logfile."
        )

    async def _log_in(self, name: str, password: str | None) -> None:
        connection = self._connection
        attempt = LoginAttempt(name, password, connection.peer_host, connection.name)
        access = connection.services.access
        self._user = self.known_user or await access.begin_log_in(attempt)
        if self._user is None:
            login_failed(connection, name, self._refusal_reason(name))
            raise self._refusal()
        login_succeeded(connection, self._user.name)
        self._step = TUNING
        offered = self._offered_tuning()
        connection.send(
            0,
            commands.Connection.Tune,
            channel_max=offered.channel_max,
            frame_max=offered.frame_bytes_max,
            heartbeat=offered.heartbeat_s,
        )

    def _refusal_reason(self, name: str) -> str:
        """RabbitMQ's text for the authentication failure event; the log has more detail."""
        loopback_users = self._connection.services.config.loopback_users
        if not may_connect_from(self._connection.peer_host, name, loopback_users):
            return f"user '{name}' can only connect via localhost"
        return f"user '{name}' - invalid credentials"

    def _offered_tuning(self) -> Tuning:
        config = self._connection.services.config
        frame_bytes_max = config.frame_max_bytes if self.is_limited else 0
        return Tuning(config.channel_max, frame_bytes_max, config.heartbeat_s)

    def _handle_tune_ok(self, method: commands.Connection.TuneOk) -> None:
        chosen = Tuning(method.channel_max, method.frame_max, method.heartbeat)
        is_4_3 = self._connection.services.config.is_as_rabbitmq_4_3
        least = FRAME_BYTES_MIN_4 if is_4_3 else FRAME_BYTES_MIN
        check_tuning(self._offered_tuning(), chosen, least)
        self._step = OPENING
        self._connection.tune(chosen)

    async def _handle_open(self, method: commands.Connection.Open) -> None:
        connection = self._connection
        services = connection.services
        user = self._user
        assert user is not None
        name = method.virtual_host
        connection.check_node_limits()
        vhost = services.vhosts.get(name)
        if vhost is None:
            raise not_allowed(f"vhost {name} not found")
        await services.access.check_vhost(user, name, connection.peer_host)
        if vhost.is_deleted:
            # Deleted while a backend was checking.
            raise not_allowed(f"vhost {name} not found")
        connection.check_limits(user, name)
        connection.open(user, vhost)

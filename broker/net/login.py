"""The steps before a connection is open: protocol header, start, tune, open.

What goes wrong here is mostly answered with silence: RabbitMQ waits three seconds and drops the
client, since it may be no AMQP client at all, or one that guesses passwords. Only some errors are
told (`may_say`).
"""

import logging
from typing import Any, Protocol

from pamqp import base, commands

from broker.amqp.errors import ConnectionFault, frame_error, login_refused, not_allowed
from broker.amqp.field_table import Table
from broker.amqp.frames import PROTOCOL_HEADER
from broker.amqp.methods import long_string_argument, method_name, table_argument
from broker.amqp.reply_codes import ACCESS_REFUSED
from broker.auth.access_control import Undecided
from broker.auth.certificates import CertificateRefused, name_from_session
from broker.auth.challenge_response import MECHANISM as CHALLENGE_RESPONSE
from broker.auth.challenge_response import ChallengeResponse
from broker.auth.identity import Identity, LoginAttempt
from broker.auth.sasl import SaslError, read_response
from broker.auth.users import may_connect_from
from broker.net.connection_events import login_failed, login_succeeded
from broker.net.handshake import (
    ACCEPTED_PROTOCOL_HEADERS,
    EXTERNAL,
    FRAME_BYTES_MIN,
    FRAME_BYTES_MIN_4,
    LOCALES,
    MECHANISMS,
    Tuning,
    check_tuning,
    server_properties,
)
from broker.services import Services
from broker.vhost import VirtualHost

HEADER_BYTES = 8
WAITING_FOR_HEADER, STARTING, TUNING, OPENING = "header", "starting", "tuning", "opening"

logger = logging.getLogger("leveret.connection")


class Guest(Protocol):
    """What the handshake needs of the connection it is for."""

    name: str
    own_host: str
    own_port: int
    peer_host: str
    peer_port: int
    services: Services
    out: list[bytes]
    client_properties: Table
    tuning: Tuning
    mechanism: str
    tls: Any

    def tls_facts(self) -> dict[str, Any]:
        """What there is to say of the TLS session."""

    def has_capability(self, name: str) -> bool:
        """The client said in its properties that it can do this."""

    def send(self, channel: int, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method."""

    def tune(self, tuning: Tuning) -> None:
        """The limits are agreed."""

    def check_node_limits(self) -> None:
        """Raise 530 if the node has as many connections as it may."""

    def check_limits(self, user: Identity, vhost: str) -> None:
        """Raise 530 if the vhost, or the user, has as many connections as it may."""

    def open(self, user: Identity, vhost: VirtualHost) -> None:
        """The handshake is over."""

    def drop(self) -> None:
        """Close the socket when what was sent has gone out."""


class Login:
    """The handshake of one connection; dropped when it is over."""

    __slots__ = ("_challenge", "_connection", "_header", "_is_judged", "_step", "_user")

    def __init__(self, connection: Guest) -> None:
        self._connection = connection
        self._step = WAITING_FOR_HEADER
        self._header = b""
        self._user: Identity | None = None
        self._is_judged = False
        self._challenge: ChallengeResponse | None = None

    @property
    def is_waiting_for_header(self) -> bool:
        """The protocol header has not come yet."""
        return self._step == WAITING_FOR_HEADER

    @property
    def is_authenticating(self) -> bool:
        """The client has not said yet who it is."""
        return self._step == STARTING

    def read_protocol_header(self, data: bytes) -> bytes:
        """Take the protocol header; what follows it is returned. A wrong one ends the matter."""
        self._header += data
        if len(self._header) < HEADER_BYTES:
            return b""
        header, rest = self._header[:HEADER_BYTES], self._header[HEADER_BYTES:]
        self._header = b""
        versions = ACCEPTED_PROTOCOL_HEADERS.get(header)
        connection = self._connection
        if versions is None:
            logger.error("%s sent a wrong protocol header: %r", connection.name, header)
            connection.out.append(PROTOCOL_HEADER)
            connection.drop()
            return b""
        self._step = STARTING
        connection.send(
            0,
            commands.Connection.Start,
            version_major=versions[0],
            version_minor=versions[1],
            server_properties=server_properties(
                connection.services.config.cluster_name or connection.services.config.node_name,
                connection.services.config.compat,
            ),
            mechanisms=" ".join(self._mechanisms),
            locales=LOCALES,
        )
        return rest

    def may_say(self, fault: ConnectionFault) -> bool:
        """Whether the client is told of an error at this stage."""
        if self._step == STARTING:
            return fault.reply_code == ACCESS_REFUSED and self._connection.has_capability(
                "authentication_failure_close"
            )
        return self._step == OPENING

    def handle(self, method: base.Frame) -> None:
        """The next step. Raises ConnectionFault."""
        if self._step == STARTING and isinstance(method, commands.Connection.StartOk):
            self._handle_start_ok(method)
        elif self._is_challenged and isinstance(method, commands.Connection.SecureOk):
            self._handle_secure_ok(method)
        elif self._step == TUNING and isinstance(method, commands.Connection.TuneOk):
            self._handle_tune_ok(method)
        elif self._step == OPENING and isinstance(method, commands.Connection.Open):
            self._handle_open(method)
        else:
            raise frame_error(f"{method_name(method)} is not expected while {self._step}")

    @property
    def _is_challenged(self) -> bool:
        return self._step == STARTING and self._challenge is not None

    @property
    def _mechanisms(self) -> list[str]:
        """Those that are configured and known here, and make sense on this connection."""
        connection = self._connection
        configured = connection.services.config.auth_mechanisms
        return [
            name
            for name in configured
            if name in MECHANISMS and (name != EXTERNAL or connection.tls is not None)
        ]

    def _handle_start_ok(self, method: commands.Connection.StartOk) -> None:
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
        self._log_in(*credentials, method)

    def _certificate_credentials(self) -> tuple[str, str | None]:
        """The name in the client's certificate, which proves itself. Raises 403."""
        connection = self._connection
        try:
            return name_from_session(connection.tls, connection.services.config), None
        except CertificateRefused as refused:
            logger.error("%s: %s", connection.name, refused)
            login_failed(connection, None, str(refused))
            raise self._refusal() from None

    def _handle_secure_ok(self, method: commands.Connection.SecureOk) -> None:
        assert self._challenge is not None
        try:
            credentials = self._challenge.credentials(long_string_argument(method.response))
        except SaslError as error:
            raise frame_error(str(error)) from None
        self._log_in(*credentials, method)

    def _refusal(self) -> ConnectionFault:
        return login_refused(
            f"Login was refused using authentication mechanism {self._connection.mechanism}. "
            "For details see the broker logfile."
        )

    def _log_in(self, name: str, password: str | None, method: base.Frame) -> None:
        connection = self._connection
        attempt = LoginAttempt(name, password, connection.peer_host, connection.name)
        self._authenticate(attempt, method)
        if self._user is None:
            login_failed(connection, name, self._why_refused(name))
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

    def _why_refused(self, name: str) -> str:
        """What is told to whoever listens to events, in RabbitMQ's words; the log knows more."""
        loopback_users = self._connection.services.config.loopback_users
        if not may_connect_from(self._connection.peer_host, name, loopback_users):
            return f"user '{name}' can only connect via localhost"
        return f"user '{name}' - invalid credentials"

    def _authenticate(self, attempt: LoginAttempt, method: base.Frame) -> None:
        """Learn who it is. Raises Undecided if somebody else has to be asked first."""
        access = self._connection.services.access
        if self._is_judged:
            return
        if access.decides_at_once:
            self._user = access.log_in_at_once(attempt)
            return

        async def settle() -> None:
            self._user = await access.log_in(attempt)
            self._is_judged = True

        undecided = Undecided(settle)
        undecided.retry = lambda: self.handle(method)
        raise undecided

    def _offered_tuning(self) -> Tuning:
        config = self._connection.services.config
        return Tuning(config.channel_max, config.frame_max_bytes, config.heartbeat_s)

    def _handle_tune_ok(self, method: commands.Connection.TuneOk) -> None:
        chosen = Tuning(method.channel_max, method.frame_max, method.heartbeat)
        is_4 = self._connection.services.config.is_as_rabbitmq_4
        least = FRAME_BYTES_MIN_4 if is_4 else FRAME_BYTES_MIN
        check_tuning(self._offered_tuning(), chosen, least)
        self._step = OPENING
        self._connection.tune(chosen)

    def _handle_open(self, method: commands.Connection.Open) -> None:
        connection = self._connection
        services = connection.services
        user = self._user
        assert user is not None
        name = method.virtual_host
        connection.check_node_limits()
        vhost = services.vhosts.get(name)
        if vhost is None:
            raise not_allowed(f"vhost {name} not found")
        try:
            services.access.check_vhost(user, name, connection.peer_host)
        except Undecided as undecided:
            undecided.retry = lambda: self.handle(method)
            raise
        connection.check_limits(user, name)
        connection.open(user, vhost)

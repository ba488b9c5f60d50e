"""The handshake of a connection: protocol header, start, tune, open.

Most errors get no reply: RabbitMQ waits three seconds and disconnects, since the peer may not be an
AMQP client or may be guessing passwords. `may_send_fault` selects the errors that are sent.
"""

import logging
from typing import Any, Protocol

from pamqp import base, commands

from leveret.broker.amqp.errors import ConnectionFault, frame_error, login_refused
from leveret.broker.amqp.frames import PROTOCOL_HEADER
from leveret.broker.amqp.methods import long_string_argument, method_name, table_argument
from leveret.broker.amqp.reply_codes import ACCESS_REFUSED
from leveret.broker.auth.certificates import CertificateRefused
from leveret.broker.auth.identity import Identity
from leveret.broker.auth.sasl import SaslError
from leveret.broker.events.connection_events import login_succeeded
from leveret.broker.protocols.amqp091.connection.handshake import (
    ACCEPTED_PROTOCOL_HEADERS,
    FRAME_BYTES_MIN,
    FRAME_BYTES_MIN_4,
    LOCALES,
    check_tuning,
    server_properties,
)
from leveret.broker.protocols.amqp091.connection.output import Output
from leveret.broker.protocols.logging_in import (
    PLAIN,
    AuthenticatingConnection,
    Sasl,
    find_user,
    find_vhost,
)
from leveret.broker.protocols.tuning import Tuning
from leveret.broker.vhost.virtual_host import VirtualHost

HEADER_BYTES = 8
WAITING_FOR_HEADER, STARTING, TUNING, OPENING = "header", "starting", "tuning", "opening"

logger = logging.getLogger("leveret.connection")


class LoginConnection(AuthenticatingConnection, Protocol):
    """The connection, as the handshake sees it."""

    output: Output
    tuning: Tuning

    def has_capability(self, name: str) -> bool:
        """Whether the client announced this capability in its properties."""

    def send(self, channel: int, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method."""

    def tune(self, tuning: Tuning) -> None:
        """Apply the negotiated limits."""

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
        "_connection", "_header", "_sasl", "_step", "_user", "is_limited", "known_user",
    )  # fmt: skip

    def __init__(self, connection: LoginConnection) -> None:
        self._connection = connection
        self._sasl = Sasl(connection)
        self._step = WAITING_FOR_HEADER
        self._header = b""
        self._user: Identity | None = None
        self.known_user: Identity | None = None
        self.is_limited = True

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
            await self._respond(long_string_argument(method.response))
        elif self._step == TUNING and isinstance(method, commands.Connection.TuneOk):
            self._handle_tune_ok(method)
        elif self._step == OPENING and isinstance(method, commands.Connection.Open):
            await self._handle_open(method)
        else:
            raise frame_error(f"{method_name(method)} is not expected while {self._step}")

    @property
    def _is_challenged(self) -> bool:
        return self._step == STARTING and self._sasl.is_challenged

    @property
    def _mechanisms(self) -> list[str]:
        """The mechanisms that this connection can use."""
        return self._sasl.mechanisms if self.known_user is None else [PLAIN]

    async def _handle_start_ok(self, method: commands.Connection.StartOk) -> None:
        connection = self._connection
        connection.client_properties = table_argument(method.client_properties)
        if method.mechanism not in self._mechanisms:
            raise frame_error(f"unknown authentication mechanism '{method.mechanism}'")
        connection.mechanism = method.mechanism
        await self._respond(long_string_argument(method.response))

    async def _respond(self, response: bytes) -> None:
        """Handle the response of start-ok or of secure-ok."""
        connection = self._connection
        try:
            credentials = self._sasl.respond(connection.mechanism, response)
        except SaslError as error:
            raise frame_error(str(error)) from None
        except CertificateRefused:
            raise self._refusal() from None
        if isinstance(credentials, bytes):
            connection.send(0, commands.Connection.Secure, challenge=credentials.decode())
            return
        await self._log_in(*credentials)

    def _refusal(self) -> ConnectionFault:
        return login_refused(
            f"Login was refused using authentication mechanism {self._connection.mechanism}. "
            "For details see the broker logfile."
        )

    async def _log_in(self, name: str, password: str | None) -> None:
        connection = self._connection
        self._user = self.known_user
        if self._user is not None:
            login_succeeded(connection, self._user.name)
        else:
            self._user = await find_user(connection, name, password)
            if self._user is None:
                raise self._refusal()
        self._step = TUNING
        offered = self._offered_tuning()
        connection.send(
            0,
            commands.Connection.Tune,
            channel_max=offered.channel_max,
            frame_max=offered.frame_bytes_max,
            heartbeat=offered.heartbeat_s,
        )

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
        user = self._user
        assert user is not None
        name = method.virtual_host
        connection.check_node_limits()
        vhost = await find_vhost(connection, user, name)
        connection.check_limits(user, name)
        connection.open(user, vhost)

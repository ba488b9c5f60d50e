"""A connection of STOMP: an asyncio protocol, composed of parts.

    socket -> StompInput -> login, Sending, Subscribing, acknowledge -> StompSession -> StompOutput

The connection itself has the client's session and its heart-beats; the rest is common to all
protocols (protocols/socket_connection.py). The parts refer to it weakly.
"""

import asyncio
import logging
import weakref
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from leveret.broker.amqp.json_form import text
from leveret.broker.auth.identity import Identity
from leveret.broker.config import StompSettings
from leveret.broker.events.channel_events import channel_created
from leveret.broker.protocols.ending import Ending
from leveret.broker.protocols.socket_connection import SocketConnection
from leveret.broker.protocols.stomp.errors import StompError
from leveret.broker.protocols.stomp.frames import FRAME_END, NUL
from leveret.broker.protocols.stomp.heart_beats import HeartBeats
from leveret.broker.protocols.stomp.incoming import StompInput
from leveret.broker.protocols.stomp.stomp_session import StompOutput, StompSession
from leveret.broker.protocols.tuning import Tuning
from leveret.broker.runtime.generated_names import generate_name
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import ServedConnection
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.status import ConnectionStatus
from leveret.broker.vhost.virtual_host import VirtualHost

STOMP: Final = "STOMP"
CLOSE_TIMEOUT_MS: Final = 10_000
"""How long a client may take to close its socket."""
_HEART_BEAT: Final = b"\n"

logger = logging.getLogger("leveret.connection")


class StompConnection(SocketConnection, asyncio.BaseProtocol):
    """One client's connection. session: None unless it is open. version: the negotiated one.

    credentials: a name and a password that replace those of the client.
    """

    __slots__ = ("__weakref__", "_heart_beats", "credentials", "incoming", "session", "version")

    output: StompOutput

    def __init__(self, services: Services, connections: set[ServedConnection]) -> None:
        """connections: those of the whole node, with this one while its socket is open."""
        super().__init__(services, connections, STOMP)
        self.session: StompSession | None = None
        self.version = "1.0"
        self.credentials: tuple[str, str] | None = None
        self._heart_beats: HeartBeats | None = None
        self.client_properties = {"product": ("S", "STOMP client")}
        itself = weakref.proxy(self)
        end = FRAME_END if self.settings.trailing_lf else NUL
        output = StompOutput(services.turns, services.clock, end)
        output.caught_up = itself.resume_consumers
        self.incoming = StompInput(itself)
        self.reading.unblocked = self.incoming.go_on
        self.compose(self.incoming, output, Ending(itself, services.clock, CLOSE_TIMEOUT_MS))

    def __repr__(self) -> str:
        return f"STOMP connection {self.name}"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        super().connection_made(transport)
        self.ending.call_later(self.settings.login_timeout_ms, self._login_too_long)

    def _login_too_long(self) -> None:
        logger.error("closing connection %s: the client did not log in in time", self.name)
        self.drop()

    @property
    def settings(self) -> StompSettings:
        """The settings of the protocol."""
        return self.services.config.stomp

    def use_credentials(self, credentials: tuple[str, str] | None) -> None:
        """Log the client in with this name and password; without them, as the default user."""
        settings = self.settings
        self.credentials = credentials or (settings.default_user, settings.default_pass)

    # The handshake (login.py calls these)

    def open(self, user: Identity, vhost: VirtualHost, version: str) -> StompSession:
        """The client has logged in."""
        self.version = version
        self.tuning = Tuning(1, 0, 0)
        self.open_vhost(user, vhost, STOMP)
        session = StompSession(self, self.output, generate_name("session"))
        self.session = self.output.session = session
        channel_created(session)
        self.incoming.open(session, version)
        return session

    def begin_heart_beats(self, sent_s: int, expected_s: int) -> None:
        """Send heart-beats, and expect the client's, in these intervals. 0: none."""
        self.tuning = Tuning(1, 0, expected_s)
        if sent_s or expected_s:
            itself = weakref.proxy(self)
            self._heart_beats = HeartBeats(itself, self.services.clock, sent_s, expected_s)

    def handle_input(self) -> None:
        """Handle input that has waited."""
        self.incoming.handle()

    def resume_consumers(self) -> None:
        """The output is no longer congested: queues may deliver again."""
        if self.session is not None:
            self.session.credit_consumers()

    # Reading (net/reading.py) and heart-beats

    @property
    def is_reading(self) -> bool:
        """Whether the socket is being read."""
        return not self.incoming.is_held and super().is_reading

    def send_heartbeat(self) -> None:
        """Write a heart-beat."""
        self.output.write(_HEART_BEAT)

    # For the broker and management

    @property
    def channels(self) -> Mapping[int, Session]:
        """Its session, which management shows as a channel."""
        return {} if self.session is None else {1: self.session}

    def status(self) -> ConnectionStatus:
        """Its status, once the client has logged in."""
        variables = {
            "session_id": "" if self.session is None else self.session.name_for_client,
            "version": self.version,
            "auth_login": text(self.user.name),
            "auth_mechanism": self.mechanism,
            "implicit_connect": self.settings.implicit_connect,
        }
        return replace(super().status(), mechanism="", kind="direct", variables=variables)

    def check_consumer_timeout(self, timeout_ms: int) -> None:
        """Close the connection if it holds a delivery unsettled for longer than its timeout."""
        self.incoming.check_consumer_timeout(timeout_ms)

    def end_timed_out(self, session_number: int, timeout_ms: int) -> None:
        """Close the connection, because it has held deliveries for too long."""
        self.incoming.end_timed_out(timeout_ms)

    # Closing

    def fail(self, error: StompError) -> None:
        """Send an error; close the connection if it is fatal."""
        logger.error("%s: %s", self.name, error)
        self.output.send_error(error)
        if error.is_fatal:
            self.drop()

    def force_close(self, explanation: str) -> None:
        """Close the connection at an operator's request, or because the broker stops."""
        if self.is_open:
            error = StompError("connection_forced", f"CONNECTION_FORCED - {explanation}")
            self.output.send_error(error)
        self.drop()

    def release_sessions(self) -> None:
        """Release the session; may be called several times."""
        self.incoming.release()
        if self._heart_beats is not None:
            self._heart_beats.stop()
            self._heart_beats = None
        session, self.session = self.session, None
        self.output.session = None
        if session is not None:
            session.release()

"""A connection of AMQP 1.0: an asyncio protocol, composed of parts.

    socket -> Incoming -> Login, sessions and their links -> Output -> socket

Clients of AMQP 1.0 connect to the ports of AMQP 0-9-1, and are told apart by the protocol header: a
connection of that protocol then gives its socket to one of these.
"""

import asyncio
import logging
import weakref
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import structs

from leveret.broker.amqp.json_form import text
from leveret.broker.amqp10.unsigned import UINT_MAX
from leveret.broker.auth.identity import Identity
from leveret.broker.net.socket_output import SocketOutput
from leveret.broker.protocols.amqp10.amqp10_session import Amqp10Session
from leveret.broker.protocols.amqp10.conditions import (
    CONNECTION_FORCED,
    FRAMING_ERROR,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
    ConnectionEnds,
    SessionEnds,
)
from leveret.broker.protocols.amqp10.idle_times import IdleTimes
from leveret.broker.protocols.amqp10.incoming import Incoming
from leveret.broker.protocols.amqp10.login import (
    CHANNEL_MAX,
    FRAME_BYTES_MAX,
    FRAME_BYTES_MIN,
    IDLE_TIMEOUT_MS_MIN,
    properties_of,
)
from leveret.broker.protocols.amqp10.performatives import (
    Begin,
    Close,
    Error,
    Open,
    Performative,
    SaslOutcome,
    frame_of,
)
from leveret.broker.protocols.amqp10.redirection import redirect
from leveret.broker.protocols.amqp10.session_status import session_status
from leveret.broker.protocols.ending import CLOSE_TIMEOUT_MS, CLOSING, GONE, Ending
from leveret.broker.protocols.socket_connection import SocketConnection
from leveret.broker.protocols.tuning import Tuning
from leveret.broker.queues.contract.link_status import SessionStatus
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.turns import Turns
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import DRAINED, ServedConnection
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.status import ConnectionStatus
from leveret.broker.vhost.virtual_host import VirtualHost

AMQP_1_0: Final = "AMQP 1-0"
"""RabbitMQ's name of the protocol in management."""
FORCED_MS: Final = 1_000
"""Time for a client to answer that its connection was ended by the broker."""
REFUSAL_MS: Final = 3_000
"""RabbitMQ's delay before it closes the socket of a client that sent a wrong password."""

logger = logging.getLogger("leveret.connection")


class Output(SocketOutput):
    """The output of one connection. before_flush: called before a write, to add outcomes."""

    __slots__ = ("before_flush",)

    def __init__(self, turns: Turns, clock: Clock) -> None:
        super().__init__(turns, clock)
        self.before_flush: Callable[[], object] = _nothing

    def disconnect(self) -> None:
        """The socket is closed: drop all output."""
        super().disconnect()
        self.before_flush = _nothing

    def flush(self) -> None:
        """Write the gathered output."""
        self.before_flush()
        super().flush()


class Connection(SocketConnection, asyncio.BaseProtocol):
    """One client's connection.

    frame_bytes_max: the client's limit. channel_max: the highest channel that both ends allow.
    container_id: the client's name. hostname: the host in its `open`.
    """

    __slots__ = (
        "__weakref__", "_idle_times", "_settling", "channel_max", "container_id", "frame_bytes_max",
        "hostname", "incoming",
    )  # fmt: skip

    output: Output

    def __init__(self, services: Services, connections: set[ServedConnection]) -> None:
        """connections: those of the whole node, with this one while its socket is open."""
        super().__init__(services, connections, AMQP_1_0)
        self.frame_bytes_max = UINT_MAX
        self.channel_max = CHANNEL_MAX
        self.container_id = self.hostname = ""
        self._idle_times: IdleTimes | None = None
        self._settling: dict[Amqp10Session, None] = {}
        itself = weakref.proxy(self)
        output = Output(services.turns, services.clock)
        self.output = output
        self.incoming = Incoming(itself)
        output.before_flush = itself.send_outcomes
        output.caught_up = itself.caught_up
        self.reading.unblocked = self.incoming.go_on
        self.compose(self.incoming, output, Ending(itself, services.clock))

    def __repr__(self) -> str:
        return f"connection {self.name}"

    # The handshake (login.py calls these)

    def send_header(self, header: bytes) -> None:
        """Send a protocol header."""
        self.output.write(header)

    def send_frame(self, frame: bytes) -> None:
        """Send a frame."""
        self.output.write(frame)

    def send(self, performative: Performative) -> None:
        """Send a performative on channel 0."""
        self.output.write(frame_of(0, performative))

    def refuse_later(self, outcome: SaslOutcome) -> None:
        """Send this, and close the socket after a delay that slows guessing."""
        self.send(outcome)
        self.output.flush()
        self.ending.state = GONE
        self.ending.call_later(REFUSAL_MS, self.drop)

    def tune(self, request: Open) -> None:
        """Take the limits of the client. Raises ConnectionEnds."""
        config = self.services.config
        if request.max_frame_size is not None:
            self.frame_bytes_max = request.max_frame_size
        if self.frame_bytes_max < FRAME_BYTES_MIN:
            raise ConnectionEnds(
                FRAMING_ERROR,
                f"max-frame-size ({self.frame_bytes_max}) is below the minimum ({FRAME_BYTES_MIN})",
            )
        if request.channel_max is not None:
            self.channel_max = min(CHANNEL_MAX, request.channel_max)
        self.container_id = request.container_id
        self.hostname = request.hostname or ""
        self.client_properties = properties_of(request)
        self.incoming.limit(config.frame_max_bytes or FRAME_BYTES_MAX)
        idle_ms = request.idle_time_out or 0
        if 0 < idle_ms < IDLE_TIMEOUT_MS_MIN:
            raise ConnectionEnds(
                NOT_ALLOWED,
                f"idle-time-out ({idle_ms} ms) < minimum idle-time-out ({IDLE_TIMEOUT_MS_MIN} ms)",
            )
        silent_ms = 1000 * config.heartbeat_s
        self.tuning = Tuning(self.channel_max, self.frame_bytes_max, silent_ms // 1000)
        self._idle_times = IdleTimes(weakref.proxy(self), self.services.clock, idle_ms, silent_ms)

    def open(self, user: Identity, vhost: VirtualHost) -> None:
        """The handshake is complete."""
        self.open_vhost(user, vhost, AMQP_1_0)

    # Sessions

    def new_session(self, channel: int, request: Begin) -> Amqp10Session:
        """The session that a client begins."""
        return Amqp10Session(self, self, channel, request)

    def settle_later(self, session: Amqp10Session) -> None:
        """Call the session's `send_outcomes` before the output is written."""
        self._settling[session] = None
        self.output.flush_later()

    def end_session(self, session: Amqp10Session, error: SessionEnds) -> None:
        """End a session with an error, unless it has ended."""
        self.incoming.end_session(session, error)

    def send_outcomes(self) -> None:
        """Send the outcomes that are due."""
        if self._settling and not self.services.holds_confirms:
            settling, self._settling = self._settling, {}
            for session in settling:
                session.send_outcomes()

    def caught_up(self) -> None:
        """The client reads again."""
        for session in list(self.incoming.sessions.values()):
            session.can_go_on()

    def handle_input(self) -> None:
        """Handle the frames that have come."""
        self.incoming.handle()

    @property
    def is_consuming(self) -> bool:
        """Whether it has consumers, or deliveries that it has not settled."""
        sessions = self.incoming.sessions.values()
        return any(session.consumers or session.unacked for session in sessions)

    @property
    def is_reading(self) -> bool:
        """Whether the socket is being read."""
        return not self.incoming.is_held and super().is_reading

    def check_consumer_timeout(self, timeout_ms: int) -> None:
        """End each session that holds a delivery unsettled for longer than its timeout."""
        self.incoming.check_consumer_timeout(timeout_ms)

    def end_timed_out(self, session_number: int, timeout_ms: int) -> None:
        """End a session that has held deliveries for too long."""
        self.incoming.end_timed_out(session_number - 1, timeout_ms)

    # Management

    @property
    def sessions(self) -> Iterable[Session]:
        """Its sessions, which are not shown as channels."""
        return tuple(self.incoming.sessions.values())

    def sessions_with_links(self) -> list[SessionStatus] | None:
        """The status of its sessions, by their channels."""
        return [session_status(one) for _, one in sorted(self.incoming.sessions.items())]

    def status(self) -> ConnectionStatus:
        """Its status, once it has logged in. RabbitMQ shows container ids since 4.1."""
        status, config = super().status(), self.services.config
        if config.is_as_rabbitmq_4 and not config.is_as_rabbitmq_4_3:
            return status
        return structs.replace(status, container_id=text(self.container_id))

    # Alarms and silence

    def alarms_changed(self) -> None:
        """An alarm was raised or cleared: the windows of the sessions are closed or opened."""
        super().alarms_changed()
        are_in_force = self.services.alarms.are_in_force
        for session in self.incoming.sessions.values():
            session.windows.alarms_changed(are_in_force)

    def peer_is_silent(self) -> None:
        """The client has sent nothing for the idle time-out."""
        self.fail(
            Error(
                RESOURCE_LIMIT_EXCEEDED,
                "no frame received from client within idle timeout threshold",
            )
        )
        self.drop()

    def secret_refused(self, explanation: str) -> None:
        """A new token is refused: close the connection, as RabbitMQ does."""
        self.fail(Error(UNAUTHORIZED_ACCESS, explanation))

    def credential_expired(self) -> None:
        """The user's token is no longer valid."""
        self.fail(Error(UNAUTHORIZED_ACCESS, "credential expired"))

    # Closing

    def fail(self, error: Error) -> None:
        """Close the connection with an error."""
        if not self.is_open:
            return
        logger.error("closing connection %s: %s", self.name, error.description or error.condition)
        self._close(error)

    def _close(self, error: Error) -> None:
        self.send_outcomes()
        self.ending.state = CLOSING
        self.release()
        self.send(Close(error))
        self.ending.abort_later(CLOSE_TIMEOUT_MS, "the client does not answer close")

    def closed_by_client(self) -> None:
        """The client has closed the connection, or answered its close."""
        if self.ending.state is not CLOSING:
            logger.info("closing connection %s: the client closed it", self.name)
            self.send_outcomes()
            self.ending.state = CLOSING
            self.release()
            self.send(Close())
        self.drop()

    def force_close(self, explanation: str) -> None:
        """Close the connection at an operator's request, or because the broker stops."""
        if explanation == DRAINED and self._ignores_maintenance:
            return
        if self.is_open:
            error = None
            if explanation == DRAINED:
                error = redirect(self.services, self.container_id, self.hostname, self.is_tls)
            self._close(error or Error(CONNECTION_FORCED, explanation))
            # Clients of Qpid Proton do not answer: they connect again when the socket is closed.
            self.ending.call_later(FORCED_MS, self.drop)
        else:
            self.drop()

    @property
    def _ignores_maintenance(self) -> bool:
        """Whether the client wants to stay connected while its node is under maintenance, as since
        RabbitMQ 4.0.
        """
        wish = self.client_properties.get("ignore-maintenance")
        return self.services.config.is_as_rabbitmq_4 and wish == ("t", True)

    def release(self) -> None:
        """Release everything that the connection holds; may be called several times."""
        if self._idle_times is not None:
            self._idle_times.stop()
            self._idle_times = None
        super().release()

    def release_sessions(self) -> None:
        """Release the sessions; may be called several times."""
        self._settling.clear()
        self.incoming.release()


def _nothing() -> None:
    """Do nothing: there is no listener."""

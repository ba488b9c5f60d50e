"""A connection of the stream protocol: an asyncio protocol, composed of parts.

    socket -> StreamInput -> StreamLogin, Publishers, Subscriptions, StreamCommands
           -> StreamOutput -> socket

The connection itself has the session for declarations, and the streams that its client uses; the
rest is that of all protocols (protocols/socket_connection.py). The parts refer to it weakly.
"""

import asyncio
import logging
import weakref
from typing import Final

from leveret.broker.auth.identity import Identity
from leveret.broker.protocols.ending import CLOSING, GONE, Ending
from leveret.broker.protocols.socket_connection import SocketConnection
from leveret.broker.protocols.stream import codes, responses
from leveret.broker.protocols.stream.addresses import own_address_for
from leveret.broker.protocols.stream.incoming import StreamInput
from leveret.broker.protocols.stream.output import StreamOutput
from leveret.broker.protocols.stream.requests import Properties
from leveret.broker.protocols.stream.serving import note_error
from leveret.broker.protocols.stream.stream_session import StreamSession
from leveret.broker.protocols.tuning import Tuning
from leveret.broker.queues.contract.status import PublisherFigures, SubscriptionFigures
from leveret.broker.queues.contract.stream import Stream
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import ServedConnection
from leveret.broker.sessions.session import Session
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.disk.disk import StoreError
from leveret.storage.disk.file_parts import FilePart

STREAM: Final = "stream"
"""RabbitMQ's name of the protocol."""
FRAME_BYTES_MAX: Final = 128 * 1024 * 1024
"""The largest frame if none is configured."""
CLOSE_TIMEOUT_MS: Final = 10_000
"""How long a client may take to answer close, or to close its socket."""
REFUSAL_MS: Final = 3_000
"""RabbitMQ's delay before it answers a wrong password."""

logger = logging.getLogger("leveret.connection")


class StreamConnection(SocketConnection, asyncio.BaseProtocol):
    """One client's connection."""

    __slots__ = ("__weakref__", "_session", "_uses", "incoming")

    output: StreamOutput

    def __init__(self, services: Services, connections: set[ServedConnection]) -> None:
        """connections: those of the whole node, with this one while its socket is open."""
        super().__init__(services, connections, STREAM)
        self._session: StreamSession | None = None
        self._uses: dict[Stream, int] = {}
        itself = weakref.proxy(self)
        output = StreamOutput(services.turns, services.clock)
        self.incoming = StreamInput(itself)
        output.before_flush = self.incoming.publishers.send_confirms
        output.caught_up = self.incoming.subscriptions.go_on
        output.failed = itself.output_failed
        self.reading.unblocked = self.incoming.go_on
        self.compose(self.incoming, output, Ending(itself, services.clock, CLOSE_TIMEOUT_MS))

    def __repr__(self) -> str:
        return f"stream connection {self.name}"

    # The handshake (login.py calls these)

    def send(self, frame: bytes | memoryview) -> None:
        """Send a frame, or a part of one."""
        self.output.write(frame)

    def refuse_later(self, response: bytes) -> None:
        """Send this and close the socket, after a delay that slows guessing."""
        self.ending.state = GONE

        def refuse() -> None:
            self.send(response)
            self.drop()

        self.ending.call_later(REFUSAL_MS, refuse)

    def tune(self, frame_bytes_max: int, heartbeat_s: int) -> None:
        """The limits that the client has chosen. 0: none.

        As in RabbitMQ, the client may send larger frames than it has chosen, up to the offer.
        """
        offered = self.services.config.stream.frame_max_bytes
        self.incoming.limit(offered or FRAME_BYTES_MAX)
        chosen = min(filter(None, (offered, frame_bytes_max)), default=0)
        self.tuning = Tuning(0, chosen, heartbeat_s)
        self.begin_heartbeats(heartbeat_s)

    def open(self, user: Identity, vhost: VirtualHost) -> Properties:
        """The handshake is complete. Returns what the client is told."""
        self.open_vhost(user, vhost, STREAM)
        host, port = own_address_for(self)
        return {"advertised_host": host, "advertised_port": str(port)}

    # Commands (serving.py)

    @property
    def session(self) -> Session:
        """The session that declares for it."""
        if self._session is None:
            self._session = StreamSession(self, 1)
        return self._session

    @property
    def is_congested(self) -> bool:
        """Whether its client does not read what is sent to it."""
        return self.output.is_congested

    @property
    def sends_files(self) -> bool:
        """Whether parts of files can be sent to its client."""
        return self.output.sends_files

    def send_part(self, part: FilePart) -> None:
        """Send a part of a file."""
        self.output.send_part(part)

    def confirm_later(self) -> None:
        """Send the confirms that are due at the end of the round."""
        self.output.flush_later()

    def handle_input(self) -> None:
        """Handle the frames that have come."""
        self.incoming.handle()

    def go_on(self) -> None:
        """Handle input that had to wait for confirms."""
        self.incoming.go_on()

    def use(self, stream: Stream) -> None:
        """A publisher or a subscription of a stream begins."""
        if stream not in self._uses:
            stream.add_user(self)
        self._uses[stream] = self._uses.get(stream, 0) + 1

    def end_use(self, stream: Stream) -> None:
        """A publisher or a subscription of a stream ends."""
        self._uses[stream] -= 1
        if not self._uses[stream]:
            del self._uses[stream]
            stream.remove_user(self)

    def stream_deleted(self, stream: Stream) -> None:
        """A stream that it uses is deleted."""
        self.lose(stream)

    def lose(self, stream: Stream) -> None:
        """A stream cannot be used any longer: end its publishers and subscriptions."""
        if stream in self._uses:
            self.incoming.publishers.lose(stream)
            self.incoming.subscriptions.lose(stream)
            note_error(self.services, codes.STREAM_NOT_AVAILABLE)
            self.send(responses.metadata_update(codes.STREAM_NOT_AVAILABLE, stream.name))

    # Reading (net/reading.py) and heartbeats (runtime/heartbeat.py)

    @property
    def is_consuming(self) -> bool:
        """Whether it has subscriptions."""
        return bool(self.incoming.subscriptions.by_number)

    @property
    def is_reading(self) -> bool:
        """Whether the socket is being read."""
        return not self.incoming.is_held and super().is_reading

    def send_heartbeat(self) -> None:
        """Write a heartbeat."""
        self.send(responses.HEARTBEAT)

    def output_failed(self, error: Exception) -> None:
        """The data to send cannot be read, or the socket is closed."""
        if isinstance(error, StoreError):
            self.ending.give_up(str(error))
        self.abort()

    # For the broker and management

    def publishers(self) -> list[PublisherFigures]:
        """Its publishers."""
        return self.incoming.publishers.statuses()

    def subscriptions(self) -> list[SubscriptionFigures]:
        """Its subscriptions."""
        return self.incoming.subscriptions.statuses()

    # Closing

    def fail(self, code: int, reason: str) -> None:
        """Close the connection with a code."""
        if not self.is_open:
            return
        logger.error("closing connection %s: %s", self.name, reason)
        self.ending.state = CLOSING
        self.release()
        self.send(responses.close(1, code, reason))
        self.ending.abort_later(CLOSE_TIMEOUT_MS, "the client does not answer close")

    def force_close(self, explanation: str) -> None:
        """Close the connection at an operator's request, or because the broker stops.

        As in RabbitMQ, only the socket is closed: some clients take a close frame for a mistake of
        their program, and do not reconnect.
        """
        if self.is_open:
            logger.error("closing connection %s: %s", self.name, explanation)
        self.drop()

    def release(self) -> None:
        """Release everything that the connection holds."""
        self.incoming.release()
        super().release()

    def release_sessions(self) -> None:
        """Release the session that declares."""
        session, self._session = self._session, None
        if session is not None:
            session.release()

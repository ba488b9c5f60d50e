"""A connection of the stream protocol: an asyncio protocol, composed of parts.

    socket -> Incoming -> Login, Publishers, Subscriptions, Commands -> Output -> socket

The connection itself has the client's identity, its limits, and its end. The parts refer to their
connection weakly, so a closed connection is freed at once.
"""

import asyncio
import logging
import weakref
from functools import partial
from typing import Any, Final, NamedTuple, cast

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.json_form import table_to_json, text
from leveret.broker.auth.identity import Identity
from leveret.broker.config import Listener
from leveret.broker.declarations.requester import Requester
from leveret.broker.events.connection_events import (
    connection_closed,
    connection_created,
    vhost_left,
)
from leveret.broker.net import connection_limits as limits
from leveret.broker.net.progress_watch import PROGRESS_MS_MAX
from leveret.broker.net.reading import Reading
from leveret.broker.net.tls import session_facts
from leveret.broker.protocols.stream import codes, responses
from leveret.broker.protocols.stream.addresses import own_address_for
from leveret.broker.protocols.stream.incoming import CLOSING, GONE, HANDSHAKE, RUNNING, Incoming
from leveret.broker.protocols.stream.output import Output
from leveret.broker.protocols.stream.requests import Properties
from leveret.broker.protocols.stream.serving import note_error
from leveret.broker.protocols.stream.stream_session import StreamSession
from leveret.broker.queues.contract.status import PublisherFigures, SubscriptionFigures
from leveret.broker.queues.contract.stream import Stream
from leveret.broker.runtime.clock import Timer
from leveret.broker.runtime.heartbeat import Heartbeat
from leveret.broker.runtime.loop_watch import NOTED_SECONDS
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import ServedConnection
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.session_connection import SessionConnection
from leveret.broker.sessions.status import ConnectionStatus
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


class Tuning(NamedTuple):
    """The limits of a connection. 0: no limit, or no heartbeat."""

    heartbeat_s: int
    frame_bytes_max: int
    channel_max: int


class StreamConnection(SessionConnection, asyncio.BaseProtocol):
    """One client's connection. tls: the TLS session, or None."""

    __slots__ = (
        "__weakref__", "_expiry_timer", "_heartbeat", "_registry", "_session", "_timer",
        "_transport", "_uses", "bytes_in", "client_properties", "connected_at_s", "incoming",
        "mechanism", "output", "own_host", "own_port", "reading", "reads", "state", "tls", "tuning",
    )  # fmt: skip

    protocol = STREAM

    def __init__(self, services: Services, registry: set[ServedConnection]) -> None:
        """registry: all connections of the node; contains this one while its socket is open."""
        super().__init__(services)
        self._registry = registry
        self.own_host = ""
        self.own_port = 0
        self.tls: Any = None
        self.mechanism = ""
        self.client_properties: Table = {}
        self.tuning = Tuning(0, 0, 0)
        self.connected_at_s = services.clock.wall_time_s()
        self.bytes_in = self.reads = 0
        self.state = HANDSHAKE
        self._transport: asyncio.Transport | None = None
        self._timer: Timer | None = None
        self._expiry_timer: Timer | None = None
        self._heartbeat: Heartbeat | None = None
        self._session: StreamSession | None = None
        self._uses: dict[Stream, int] = {}
        itself = weakref.proxy(self)
        self.output = Output(services.turns, services.clock)
        self.reading = Reading(services, itself)
        self.incoming = Incoming(itself)
        self.output.before_flush = self.incoming.publishers.send_confirms
        self.output.caught_up = self.incoming.subscriptions.go_on
        self.output.stuck = itself.client_is_stuck
        self.output.failed = itself.output_failed

    def __repr__(self) -> str:
        return f"stream connection {self.name}"

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        peer = transport.get_extra_info("peername") or ("?", 0)
        own = transport.get_extra_info("sockname") or ("?", 0)
        self.peer_host, self.peer_port = str(peer[0]), int(peer[1])
        self.own_host, self.own_port = str(own[0]), int(own[1])
        self.tls = transport.get_extra_info("ssl_object")
        self.name = f"{peer[0]}:{peer[1]} -> {own[0]}:{own[1]}"
        # uvloop's transports implement asyncio's interface but are not subclasses of it.
        socket = cast(asyncio.Transport, transport)
        self._transport = socket
        plain = None if self.tls is not None else transport.get_extra_info("socket")
        self.output.connect(socket, -1 if plain is None else plain.fileno())
        self.reading.connect(socket)
        self.reading.unblocked = self.incoming.go_on
        timeout_ms = self.services.config.handshake_timeout_ms
        if timeout_ms is not None:
            self._call_later(timeout_ms, "the handshake timed out")
        self._registry.add(self)
        self.services.counts.connections_opened += 1

    def data_received(self, data: bytes) -> None:
        """Bytes were read from the socket."""
        turns = self.services.turns
        started = turns.begin_read()
        self.bytes_in += len(data)
        self.reads += 1
        try:
            self.incoming.add(data)
        finally:
            elapsed = turns.end_read(started, len(data))
            if elapsed > NOTED_SECONDS:
                turns.watch.note(elapsed, str(self))

    def pause_writing(self) -> None:
        """The socket's write buffer is full."""
        self.output.pause()

    def resume_writing(self) -> None:
        """The socket's write buffer has drained."""
        self.output.resume()

    def eof_received(self) -> None:
        """The client closed its sending side: let asyncio close the socket."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed: release everything that the connection holds."""
        self.services.turns.watch.run(partial(self._closed, exc), self)

    def _closed(self, exc: Exception | None) -> None:
        was_orderly, had_vhost = self.state in (CLOSING, GONE), self.is_logged_in
        self.state = GONE
        self._registry.discard(self)
        self.services.counts.add_connection(self.bytes_in, self.bytes_out, self.reads, self.writes)
        self._release()
        if had_vhost:
            vhost_left(self)
        connection_closed(self)
        self.reading.disconnect()
        self.output.disconnect()
        self._cancel_timer()
        self._transport = None
        if not was_orderly:
            logger.warning("closing connection %s: the client closed its socket unexpectedly: %s",
                           self.name, exc or "end of file")  # fmt: skip

    # The handshake (login.py calls these)

    def tls_facts(self) -> dict[str, Any]:
        """RabbitMQ's management fields of the TLS session; empty without TLS."""
        return {} if self.tls is None else session_facts(self.tls)

    def send(self, frame: bytes) -> None:
        """Send a frame, or a part of one."""
        self.output.send(frame)

    def refuse_later(self, response: bytes) -> None:
        """Send this and close the socket, after a delay that slows guessing."""
        self.state = GONE
        self._cancel_timer()

        def refuse() -> None:
            self.send(response)
            self.drop()

        self._timer = self.services.clock.call_later_ms(REFUSAL_MS, refuse)

    def tune(self, frame_bytes_max: int, heartbeat_s: int) -> None:
        """The limits that the client has chosen. 0: none.

        As in RabbitMQ, the client may send larger frames than it has chosen, up to the offer.
        """
        offered = self.services.config.stream.frame_max_bytes
        self.incoming.limit(offered or FRAME_BYTES_MAX)
        chosen = min(filter(None, (offered, frame_bytes_max)), default=0)
        self.tuning = Tuning(heartbeat_s, chosen, 0)
        if heartbeat_s:
            self._heartbeat = Heartbeat(weakref.proxy(self), self.services.clock, heartbeat_s)

    def check_limits(self, user: Identity, vhost: str) -> None:
        """Raise 530 if a limit of connections is reached."""
        limits.check_node(self.services, self._registry)
        limits.check_connections(self.services, user, vhost)

    def open(self, user: Identity, vhost: VirtualHost) -> Properties:
        """The handshake is complete. Returns what the client is told."""
        self.user, self.vhost = user, vhost
        address = str(Listener(self.peer_host, self.peer_port))
        self.requester = Requester(user.name, address, STREAM)
        self.state = RUNNING
        self._cancel_timer()
        self._watch_expiry()
        connection_created(self)
        logger.info("%s: user '%s' opened vhost '%s'", self.name, user.name, vhost.name)
        host, port = own_address_for(self)
        return {"advertised_host": host, "advertised_port": str(port)}

    def renewed(self, user: Identity) -> None:
        """The user has another secret."""
        self.user = user
        self._watch_expiry()

    def _watch_expiry(self) -> None:
        """Close the connection when its credentials expire."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        if self.user.expires_at_s is not None:
            clock = self.services.clock
            delay_ms = max(0.0, (self.user.expires_at_s - clock.wall_time_s()) * 1000)
            self._expiry_timer = clock.call_later_ms(
                delay_ms, lambda: self.force_close("credential expired")
            )

    # Commands (serving.py)

    @property
    def session(self) -> Session:
        """The session that declares for it."""
        if self._session is None:
            self._session = StreamSession(self, 1)
        return self._session

    @property
    def is_tls(self) -> bool:
        """Whether it has TLS."""
        return self.tls is not None

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

    def send_blocked(self, reason: str) -> None:
        """Do nothing: the protocol does not tell clients of alarms."""

    def send_unblocked(self) -> None:
        """Do nothing, as above."""

    @property
    def is_reading(self) -> bool:
        """Whether the socket is being read."""
        return not (self.reading.is_held_back or self.incoming.is_held)

    def send_heartbeat(self) -> None:
        """Write a heartbeat."""
        self.send(responses.HEARTBEAT)

    def peer_is_silent(self) -> None:
        """The client sent nothing for the heartbeat timeout."""
        logger.error(
            "closing connection %s: missed heartbeats from client, timeout: %d s",
            self.name, self.tuning.heartbeat_s,
        )  # fmt: skip
        self.state = CLOSING
        self.abort()

    def client_is_stuck(self) -> None:
        """The client reads nothing of what is sent to it."""
        logger.error(
            "closing connection %s: the client has read nothing for %d s",
            self.name, PROGRESS_MS_MAX // 1000,
        )  # fmt: skip
        self.state = CLOSING
        self.abort()

    def output_failed(self, error: Exception) -> None:
        """What is sent cannot be read, or the socket is closed."""
        if isinstance(error, StoreError):
            logger.error("closing connection %s: %s", self.name, error)
            self.state = CLOSING
        self.abort()

    # For the broker and management

    @property
    def is_logged_in(self) -> bool:
        """Whether it has opened a vhost: user and vhost are known."""
        return hasattr(self, "vhost")

    @property
    def is_open(self) -> bool:
        """Whether a vhost is open, and the end of the connection has not begun."""
        return self.state is RUNNING

    @property
    def generation(self) -> int | None:
        """The generation of its vhost; None before it has one."""
        return self.vhost.generation if self.is_logged_in else None

    @property
    def publishing_state(self) -> str:
        """`blocked`, `flow` or `running`: the state that RabbitMQ's management shows."""
        return self.reading.publishing_state

    @property
    def channels(self) -> dict[int, Session]:
        """None: its publishers and subscriptions are no channels."""
        return {}

    @property
    def bytes_out(self) -> int:
        """Total bytes written."""
        return self.output.bytes_out

    @property
    def writes(self) -> int:
        """Total writes to the socket."""
        return self.output.writes

    def publishers(self) -> list[PublisherFigures]:
        """Its publishers."""
        return self.incoming.publishers.statuses()

    def subscriptions(self) -> list[SubscriptionFigures]:
        """Its subscriptions."""
        return self.incoming.subscriptions.statuses()

    def status(self) -> ConnectionStatus:
        """Its status, once the handshake is complete."""
        return ConnectionStatus(
            name=self.name,
            protocol=STREAM,
            state=self.publishing_state,
            user=text(self.user.name),
            vhost=text(self.vhost.name),
            mechanism=self.mechanism,
            client_properties=table_to_json(self.client_properties),
            connected_at_s=self.connected_at_s,
            channels=0,
            channel_max=0,
            frame_bytes_max=self.tuning.frame_bytes_max,
            heartbeat_s=self.tuning.heartbeat_s,
            host=self.own_host,
            port=self.own_port,
            peer_host=self.peer_host,
            peer_port=self.peer_port,
            reads=self.reads,
            writes=self.writes,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            tls=self.tls_facts(),
        )

    def alarms_changed(self) -> None:
        """An alarm was raised or cleared."""
        self.reading.alarms_changed()

    def congestion_changed(self) -> None:
        """The store became congested, or is no longer congested."""
        self.reading.congestion_changed()

    def check_consumer_timeout(self, timeout_ms: int) -> None:
        """Do nothing: its deliveries are not settled."""

    # Closing

    def fail(self, code: int, reason: str) -> None:
        """Close the connection with a code."""
        if self.state is not RUNNING:
            return
        logger.error("closing connection %s: %s", self.name, reason)
        self.state = CLOSING
        self._release()
        self.send(responses.close(1, code, reason))
        self._call_later(CLOSE_TIMEOUT_MS, "the client does not answer close")

    def force_close(self, explanation: str) -> None:
        """Close the connection at an operator's request, or because the broker stops."""
        if self.state is RUNNING:
            self.fail(codes.OK, explanation)
        else:
            self.drop()

    def drop(self) -> None:
        """Close the socket after all output is sent."""
        self.output.flush()
        self.state = GONE
        self._release()
        if self._transport is not None:
            self.output.when_sent(self._transport.close)
            self._call_later(CLOSE_TIMEOUT_MS, "the client does not close its socket")

    def abort(self) -> None:
        """Close the socket immediately and discard unsent output."""
        if self._transport is not None:
            self._transport.abort()

    def _release(self) -> None:
        """Release everything that the connection holds."""
        self.incoming.release()
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        session, self._session = self._session, None
        if session is not None:
            session.release()
        self.reading.stop_blocking()
        self.targets.clear()

    def _call_later(self, delay_ms: int, why: str) -> None:
        """Abort the connection after a delay."""
        self._cancel_timer()

        def give_up() -> None:
            logger.error("closing connection %s: %s", self.name, why)
            self.abort()

        self._timer = self.services.clock.call_later_ms(delay_ms, give_up)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

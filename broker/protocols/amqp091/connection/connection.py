"""A connection: an asyncio protocol composed of independent parts.

    bytes from the socket -> SocketInput -> FrameScanner -> Incoming -> channels -> Output -> bytes
    to the socket

`SocketInput` counts what is received. `Incoming` dispatches frames to channels and handles faults.
`OpenChannels` holds the channels. `Output` buffers what they send and writes it once per round
(broker/runtime/turns.py). `Reading` pauses and resumes reading of the socket. `Closing` closes the
connection. The connection itself holds the client's identity, the login until it is complete, and
the methods of channel 0.

The parts refer to their connection weakly, or forget it when its socket is closed, so that no
reference cycle remains and a closed connection is freed immediately, not by the garbage collector.
"""

import asyncio
import logging
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from pamqp import base, commands

from leveret.broker.amqp.errors import ConnectionFault, channel_error
from leveret.broker.amqp.frames import FrameScanner, FrameSink
from leveret.broker.amqp.json_form import table_to_json, text
from leveret.broker.amqp.methods import method_name
from leveret.broker.auth.identity import Identity
from leveret.broker.config import Listener
from leveret.broker.declarations.requester import AMQP, Requester
from leveret.broker.events.connection_events import (
    AMQP_0_9_1,
    connection_closed,
    connection_created,
    vhost_left,
)
from leveret.broker.net import connection_limits as limits
from leveret.broker.net.reading import Reading
from leveret.broker.net.tls import session_facts
from leveret.broker.protocols.amqp091.channel.channel import Channel, ChannelConnection
from leveret.broker.protocols.amqp091.connection import credentials
from leveret.broker.protocols.amqp091.connection.closing import CLOSED, RUNNING, Closing
from leveret.broker.protocols.amqp091.connection.handshake import Tuning
from leveret.broker.protocols.amqp091.connection.incoming import Incoming
from leveret.broker.protocols.amqp091.connection.login import Login
from leveret.broker.protocols.amqp091.connection.open_channels import OpenChannels
from leveret.broker.protocols.amqp091.connection.output import Output
from leveret.broker.protocols.amqp091.connection.socket_input import SocketInput
from leveret.broker.queues.contract.status import PublisherFigures, SubscriptionFigures
from leveret.broker.runtime.clock import Timer
from leveret.broker.runtime.heartbeat import Heartbeat
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import ServedConnection
from leveret.broker.sessions.status import ConnectionStatus
from leveret.broker.vhost.virtual_host import VirtualHost

logger = logging.getLogger("leveret.connection")


class Connection(ChannelConnection, asyncio.BaseProtocol):
    """One client's connection of AMQP 0-9-1.

    login: the handshake; None once it is complete. tuning: the negotiated limits. tls: the TLS
    session, or None. data_received: called by the transport with the bytes that it has read.
    """

    __slots__ = (
        "__weakref__", "_heartbeat", "_input", "_registry", "closing", "connected_at_s",
        "data_received", "expiry_timer", "incoming", "login", "mechanism", "open_channels",
        "own_host", "own_port", "reading", "scanner", "tls", "tuning",
    )  # fmt: skip

    output: Output
    protocol = AMQP_0_9_1

    def __init__(self, services: Services, registry: set[ServedConnection]) -> None:
        """registry: all connections of the node; contains this one while its socket is open."""
        super().__init__(services)
        self._registry = registry
        self.own_host = ""
        self.own_port = 0
        self.tls: Any = None
        itself = weakref.proxy(self)
        login = Login(itself)
        self.login: Login | None = login
        self.mechanism = ""
        self.tuning = Tuning(0, 0, 0)
        self.connected_at_s = services.clock.wall_time_s()
        self.expiry_timer: Timer | None = None
        self._heartbeat: Heartbeat | None = None
        self.open_channels = OpenChannels(self, registry)
        self.output = Output(services, self.open_channels.resume_consumers)
        self.reading = Reading(services, itself)
        self.closing = Closing(itself, services.clock)
        self.output.stuck = self.closing.drop_stuck_peer
        self.incoming = Incoming(itself)
        self.scanner = FrameScanner(self.frame_sink(), self.output.frame_bytes_max)
        self._input = SocketInput(
            services.turns, self.incoming, self.scanner, self.reading, login, itself
        )
        self.data_received: Callable[[bytes], None] = self._input.receive

    def __repr__(self) -> str:
        return f"connection {self.name}"

    def frame_sink(self) -> FrameSink:
        """The receiver of incoming frames."""
        return self.incoming

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
        self.output.connect(socket)
        self.reading.connect(socket)
        self.closing.connect(socket, self.services.config.handshake_timeout_ms)
        self._registry.add(self)
        self.services.counts.connections_opened += 1

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
        was_orderly = self.closing.has_begun
        self.closing.disconnect()
        self.reading.disconnect()
        self._registry.discard(self)
        output = self.output
        self.services.counts.add_connection(
            self.bytes_in, output.bytes_out, self.reads, output.writes
        )
        self.release()
        if self.login is None:
            vhost_left(self)
        connection_closed(self)
        output.disconnect()
        self.incoming.disconnect()
        if not was_orderly:
            logger.warning("closing connection %s: the client closed its socket unexpectedly: %s",
                           self.name, exc or "end of file")  # fmt: skip

    # The handshake (login.py calls these)

    def send(self, channel: int, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method on a channel, or on the connection itself (0)."""
        self.output.send(channel, method, **arguments)

    def tls_facts(self) -> dict[str, Any]:
        """RabbitMQ's management fields of the TLS session; empty without TLS."""
        return {} if self.tls is None else session_facts(self.tls)

    def check_node_limits(self) -> None:
        """Raise 530 if the node's connection limit is reached."""
        limits.check_node(self.services, self._registry)

    def check_limits(self, user: Identity, vhost: str) -> None:
        """Raise 530 if the connection limit of the vhost or of the user is reached."""
        limits.check_connections(self.services, user, vhost)

    def tune(self, tuning: Tuning) -> None:
        """Apply the negotiated limits and start heartbeats."""
        self.tuning = tuning
        self.open_channels.channel_max = tuning.channel_max
        self.output.frame_bytes_max = self.scanner.frame_bytes_max = tuning.frame_bytes_max
        if tuning.heartbeat_s:
            self._heartbeat = Heartbeat(
                weakref.proxy(self), self.services.clock, tuning.heartbeat_s
            )

    def open(self, user: Identity, vhost: VirtualHost) -> None:
        """The handshake is complete: open the connection to the vhost."""
        self.user, self.vhost = user, vhost
        self.requester = Requester(user.name, str(Listener(self.peer_host, self.peer_port)), AMQP)
        credentials.watch_expiry(self)
        self.login = None
        self.closing.open()
        self.send(0, commands.Connection.OpenOk)
        connection_created(self)
        logger.info("%s: user '%s' opened vhost '%s'", self.name, user.name, vhost.name)

    @property
    def generation(self) -> int | None:
        """The generation of its vhost; None before it has one."""
        return self.vhost.generation if self.login is None else None

    # Methods on channel 0

    def handle_method(self, method: base.Frame) -> None:
        """Handle a method on channel 0. Raises ConnectionFault."""
        state = self.closing.state
        if isinstance(method, commands.Connection.Close):
            self.closing.answer()
        elif state is CLOSED:
            if isinstance(method, commands.Connection.CloseOk):
                self.drop()
        elif state is RUNNING:
            if not isinstance(method, commands.Connection.UpdateSecret):
                raise channel_error("unexpected method in connection state running")
            steps = credentials.update_secret(self, method)
            self.incoming.run(None, steps, partial(method_name, method))
        elif self.login is not None:
            self.incoming.run(None, self.login.handle(method), partial(method_name, method))

    @property
    def is_consuming(self) -> bool:
        """Whether it has consumers, or deliveries that it has not settled."""
        return any(channel.consumers or channel.unacked for channel in self.channels.values())

    # Alarms (net/reading.py)

    def send_blocked(self, reason: str) -> None:
        """Send connection.blocked to a client that knows it."""
        if self.has_capability("connection.blocked"):
            self.send(0, commands.Connection.Blocked, reason=reason)

    def send_unblocked(self) -> None:
        """Send connection.unblocked to a client that knows it."""
        if self.has_capability("connection.blocked"):
            self.send(0, commands.Connection.Unblocked)

    # Heartbeats (broker/runtime/heartbeat.py)

    @property
    def is_reading(self) -> bool:
        """Whether the socket is being read."""
        return not self.reading.is_held_back

    def send_heartbeat(self) -> None:
        """Write a heartbeat frame."""
        self.output.send_heartbeat()

    def peer_is_silent(self) -> None:
        """The client sent nothing for the heartbeat timeout."""
        self.closing.drop_silent_peer()

    # For the broker and management

    @property
    def state(self) -> str:
        """Its state, one of those in closing.py."""
        return self.closing.state

    @property
    def is_logged_in(self) -> bool:
        """Whether it has opened a vhost: user and vhost are known."""
        return self.login is None

    @property
    def is_open(self) -> bool:
        """Whether a vhost is open, and the end of the connection has not begun."""
        return self.closing.state is RUNNING

    @property
    def publishing_state(self) -> str:
        """`blocked`, `flow` or `running`: the state that RabbitMQ's management shows."""
        return self.reading.publishing_state

    @property
    def channels(self) -> dict[int, Channel]:
        """The open channels, by number."""
        return self.open_channels.by_number

    @property
    def bytes_in(self) -> int:
        """Total bytes read."""
        return self._input.bytes_in

    @property
    def reads(self) -> int:
        """Total reads of the socket."""
        return self._input.reads

    @property
    def bytes_out(self) -> int:
        """Total bytes written."""
        return self.output.bytes_out

    @property
    def writes(self) -> int:
        """Total writes to the socket."""
        return self.output.writes

    def publishers(self) -> list[PublisherFigures]:
        """None: it has channels."""
        return []

    def subscriptions(self) -> list[SubscriptionFigures]:
        """None: it has channels."""
        return []

    def status(self) -> ConnectionStatus:
        """Its status, once the handshake is complete."""
        tuning = self.tuning
        return ConnectionStatus(
            name=self.name,
            protocol=self.protocol,
            state=self.publishing_state,
            user=text(self.user.name),
            vhost=text(self.vhost.name),
            mechanism=self.mechanism,
            client_properties=table_to_json(self.client_properties),
            connected_at_s=self.connected_at_s,
            channels=len(self.channels),
            channel_max=tuning.channel_max,
            frame_bytes_max=tuning.frame_bytes_max,
            heartbeat_s=tuning.heartbeat_s,
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
        """Close each channel that holds a delivery unsettled for longer than its timeout."""
        self.incoming.check_consumer_timeout(timeout_ms)

    def end_timed_out(self, session_number: int, timeout_ms: int) -> None:
        """Close a channel that has held deliveries for too long."""
        self.incoming.end_timed_out(session_number, timeout_ms)

    # Closing

    @property
    def is_readable(self) -> bool:
        """Whether the client's bytes can still be split into frames."""
        return not self.scanner.is_broken

    @property
    def blames_methods(self) -> bool:
        """Whether faults name the failed method: not before the client is authenticated."""
        return self.is_readable and not (self.login is not None and self.login.is_authenticating)

    def may_send_fault(self, fault: ConnectionFault) -> bool:
        """Whether the client receives this error."""
        return self.login is None or self.login.may_send_fault(fault)

    def force_close(self, explanation: str) -> None:
        """Close the connection at an operator's request, or because the broker stops."""
        self.closing.force(explanation)

    def drop(self) -> None:
        """Close the socket after all written output is sent."""
        self.closing.drop()

    def abort(self) -> None:
        """Close the socket immediately and discard unsent output."""
        self.closing.abort()

    def release(self) -> None:
        """Release everything that the connection holds."""
        self.incoming.release()
        self.reading.stop_blocking()
        if self.expiry_timer is not None:
            self.expiry_timer.cancel()
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        self.open_channels.release()
        self.services.registry.exclusive_owners.remove(self)
        if self.exclusive_queues:
            what = f"deleting the exclusive queues of {self!r}"
            self.vhost.delete_queues(self.exclusive_queues.values(), what)
        self.targets.clear()

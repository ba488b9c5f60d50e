"""A connection of AMQP 0-9-1: an asyncio protocol composed of independent parts.

    bytes from the socket -> ScannerInput -> FrameScanner -> Incoming -> channels -> Output -> bytes
    to the socket

`ScannerInput` counts what is received. `Incoming` dispatches frames to channels and handles faults.
`OpenChannels` holds the channels. `Output` buffers what they send and writes it once per round
(broker/runtime/turns.py). `Closing` closes the connection. The connection itself holds the login
until it is complete, and the methods of channel 0; the rest is that of all protocols
(protocols/socket_connection.py).
"""

import asyncio
import weakref
from functools import partial

from pamqp import base, commands

from leveret.broker.amqp.errors import ConnectionFault, channel_error
from leveret.broker.amqp.frames import FrameScanner, FrameSink
from leveret.broker.amqp.methods import method_name
from leveret.broker.auth.identity import Identity
from leveret.broker.declarations.requester import AMQP
from leveret.broker.events.connection_events import AMQP_0_9_1
from leveret.broker.protocols.amqp091.channel.channel import Channel, ChannelConnection
from leveret.broker.protocols.amqp091.connection import credentials
from leveret.broker.protocols.amqp091.connection.closing import Closing
from leveret.broker.protocols.amqp091.connection.incoming import Incoming
from leveret.broker.protocols.amqp091.connection.login import Login
from leveret.broker.protocols.amqp091.connection.open_channels import OpenChannels
from leveret.broker.protocols.amqp091.connection.output import Output
from leveret.broker.protocols.amqp091.connection.scanner_input import ScannerInput
from leveret.broker.protocols.ending import CLOSING, RUNNING
from leveret.broker.protocols.shared_ports import protocol_of
from leveret.broker.protocols.tuning import Tuning
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import ServedConnection
from leveret.broker.vhost.virtual_host import VirtualHost


class Connection(ChannelConnection, asyncio.BaseProtocol):
    """One client's connection of AMQP 0-9-1. login: the handshake; None once it is complete."""

    __slots__ = ("__weakref__", "incoming", "login", "open_channels", "scanner")

    output: Output
    ending: Closing

    def __init__(self, services: Services, connections: set[ServedConnection]) -> None:
        """connections: those of the whole node, with this one while its socket is open."""
        super().__init__(services, connections, AMQP_0_9_1)
        itself = weakref.proxy(self)
        login = Login(itself)
        self.login: Login | None = login
        self.open_channels = OpenChannels(self, connections)
        output = Output(services, self.open_channels.resume_consumers)
        # Incoming refers to both.
        self.output, self.ending = output, Closing(itself, services.clock)
        self.incoming = Incoming(itself)
        self.scanner = FrameScanner(self.frame_sink(), output.frame_bytes_max)
        received = ScannerInput(
            services.turns, self.incoming, self.scanner, self.reading, login, itself
        )
        self.compose(received, output, self.ending)

    def __repr__(self) -> str:
        return f"connection {self.name}"

    def frame_sink(self) -> FrameSink:
        """The receiver of incoming frames."""
        return self.incoming

    # The handshake (login.py calls these)

    def give_away(self, header: bytes, data: bytes) -> bool:
        """Give the socket to another protocol with this header; False if there is none.

        data: the bytes after the header.
        """
        make = protocol_of(header, self.services)
        if make is None:
            return False
        self.hand_over(make(self.services, self.connections), header + data)
        return True

    def tune(self, tuning: Tuning) -> None:
        """Apply the negotiated limits and start heartbeats."""
        self.tuning = tuning
        self.open_channels.channel_max = tuning.channel_max
        self.output.frame_bytes_max = self.scanner.frame_bytes_max = tuning.frame_bytes_max
        self.begin_heartbeats(tuning.heartbeat_s)

    def open(self, user: Identity, vhost: VirtualHost) -> None:
        """The handshake is complete: open the connection to the vhost."""
        self.login = None
        self.send(0, commands.Connection.OpenOk)
        self.open_vhost(user, vhost, AMQP)

    # Methods on channel 0

    def handle_method(self, method: base.Frame) -> None:
        """Handle a method on channel 0. Raises ConnectionFault."""
        state = self.ending.state
        if isinstance(method, commands.Connection.Close):
            self.ending.answer()
        elif state is CLOSING:
            if isinstance(method, commands.Connection.CloseOk):
                self.drop()
        elif state is RUNNING:
            if not isinstance(method, commands.Connection.UpdateSecret):
                raise channel_error("unexpected method in connection state running")
            steps = credentials.update_secret(self, method)
            self.incoming.run(None, steps, partial(method_name, method))
        elif self.login is not None:
            self.incoming.run(None, self.login.handle(method), partial(method_name, method))

    # Alarms (net/reading.py) and heartbeats (runtime/heartbeat.py)

    def send_blocked(self, reason: str) -> None:
        """Send connection.blocked to a client that knows it."""
        if self.has_capability("connection.blocked"):
            self.send(0, commands.Connection.Blocked, reason=reason)

    def send_unblocked(self) -> None:
        """Send connection.unblocked to a client that knows it."""
        if self.has_capability("connection.blocked"):
            self.send(0, commands.Connection.Unblocked)

    def send_heartbeat(self) -> None:
        """Write a heartbeat frame."""
        self.output.send_heartbeat()

    # For the broker and management

    @property
    def channels(self) -> dict[int, Channel]:
        """The open channels, by number."""
        return self.open_channels.by_number

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
        self.ending.force(explanation)

    def release(self) -> None:
        """Release everything that the connection holds."""
        self.incoming.release()
        super().release()

    def release_sessions(self) -> None:
        """Release the channels."""
        self.open_channels.release()

    def disconnected(self) -> None:
        """The socket is closed, and everything is released."""
        self.incoming.disconnect()

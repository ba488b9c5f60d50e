"""A connection: bytes from a socket to its channels, and what they produce back to the socket.

It is an asyncio protocol. `data_received` feeds the frame scanner; the scanner calls back for each
frame (`on_publish`, `on_ack`, `on_frame`), and what is raised below, a `ChannelFault` or a
`ConnectionFault`, is caught here and nowhere else. What channels send is gathered in `out` and
written once a round (broker/actor.py).

States, in order: `HEADER` (waiting for the protocol header), `STARTING`, `TUNING`, `OPENING`,
`RUNNING`, `CLOSED` (connection.close or its answer was sent; the socket goes soon) and `GONE`.
The steps of the first ones are in net/login.py.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from pamqp import base, commands

from broker.amqp.erlang_terms import format_snippet
from broker.amqp.errors import (
    ChannelFault,
    ConnectionFault,
    Fault,
    channel_error,
    frame_error,
    internal_error,
    not_allowed,
    unexpected_frame,
)
from broker.amqp.field_table import Table
from broker.amqp.frames import (
    BASIC_ACK,
    BASIC_PUBLISH,
    HEADER,
    HEARTBEAT,
    METHOD,
    FrameScanner,
    is_known_frame,
)
from broker.amqp.methods import METHOD_ID_BYTES, UnknownMethod, decode_method
from broker.amqp.properties import PropertiesError
from broker.auth.access_control import Undecided
from broker.auth.identity import Identity
from broker.channel import methods_basic, publishing
from broker.channel.channel import Channel
from broker.channel.channel_events import channel_created
from broker.channel.content_assembler import ContentAssembler
from broker.channel.dispatch import dispatch
from broker.clock import Timer
from broker.net import connection_limits as limits
from broker.net import credentials
from broker.net.closing import CLOSED, GONE, HANDSHAKE, RUNNING, ClosingSide
from broker.net.connection_events import connection_closed, connection_created, vhost_left
from broker.net.handshake import Tuning
from broker.net.heartbeat import Heartbeat
from broker.net.login import Login
from broker.net.socket_side import BIG_READ_BYTES
from broker.queues.actor import Queue
from broker.services import Services
from broker.vhost import VirtualHost

logger = logging.getLogger("leveret.connection")


class Connection(ClosingSide):
    """One client's connection. Channels know it as `ConnectionLink`."""

    __slots__ = (
        "_channel_at_work", "_heartbeat", "_registry", "_waiting", "channels", "client_properties",
        "connected_at_s", "exclusive_queues", "expiry_timer", "frame_bytes_max", "mechanism",
        "secret_refused", "targets", "user", "vhost",
    )  # fmt: skip

    user: Identity
    vhost: VirtualHost

    def __init__(self, services: Services, registry: "set[Connection]") -> None:
        super().__init__(services)
        self.login: Login | None = Login(self)
        self.channels: dict[int, Channel] = {}
        self.frame_bytes_max = services.config.initial_frame_max_bytes
        self.targets: dict[bytes, Any] = {}
        self.exclusive_queues: dict[str, Queue] = {}
        self.client_properties: Table = {}
        self.connected_at_s = services.clock.wall_time_s()
        self._registry = registry
        self._scanner = FrameScanner(self, self.frame_bytes_max)
        self._heartbeat: Heartbeat | None = None
        self.expiry_timer: Timer | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._channel_at_work: Channel | None = None
        self.mechanism = ""
        self.secret_refused = False

    def __repr__(self) -> str:
        return f"<Connection {self.name}>"

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        super().connection_made(transport)
        self._registry.add(self)
        self.services.counts.connections_opened += 1
        timeout_ms = self.services.config.handshake_timeout_ms
        if timeout_ms is not None:
            clock = self.services.clock
            self._close_timer = clock.call_later_ms(timeout_ms, self._handshake_too_long)

    def data_received(self, data: bytes) -> None:
        """Bytes came in."""
        self.bytes_in += len(data)
        self.reads += 1
        turns = self.services.turns
        turns.now_ms = turns.clock_ms()
        login = self.login
        if login is not None and login.is_waiting_for_header:
            data = login.read_protocol_header(data)
            if not data:
                return
        self._scanner.add(data)
        if not self.is_waiting:
            self._handle(self._scanner.scan)
        if len(data) >= BIG_READ_BYTES:
            self.consider_giving_way(len(data))

    def _handle(self, step: Callable[[], object]) -> None:
        """Handle every whole frame; a fault ends what it happened on, and the rest goes on."""
        while True:
            try:
                step()
                return
            except Undecided as undecided:
                self._wait_for(undecided)
                return
            except ChannelFault as fault:
                self._blame_method(fault)
                assert self._channel_at_work is not None
                self._channel_at_work.fail(fault)
            except ConnectionFault as fault:
                self._blame_method(fault)
                self.fail(fault)
            except UnknownMethod as unknown:
                logger.error("%s sent what is no method: %s", self, unknown)
                self.drop()
            except Exception:
                logger.exception("%s: an internal error; the connection is closed", self)
                self.drop()
            step = self._scanner.scan

    def _wait_for(self, undecided: Undecided) -> None:
        """Read no more until somebody over the network has said what the client may do."""
        self.is_waiting = True
        self.pause_reading()
        # Kept, since the event loop itself does not keep tasks from being collected.
        self._waiting = asyncio.get_running_loop().create_task(self._settle(undecided))

    async def _settle(self, undecided: Undecided) -> None:
        try:
            await undecided.settle()
        except Exception:
            logger.exception("%s: a backend failed; the connection is closed", self)
            self.drop()
        self.is_waiting = False
        if self.state in (CLOSED, GONE):
            # It ended while it waited, and what the answer has brought is given back as well.
            self.release()
        else:
            assert undecided.retry is not None
            self._handle(undecided.retry)
        if self.state is not GONE:
            self.resume_reading()
            if not self.is_waiting:
                self._handle(self._scanner.scan)

    def _blame_method(self, fault: Fault) -> None:
        """Name the method that failed in the fault, unless it knows better or none is to blame."""
        if self._scanner.is_broken or (self.login is not None and self.login.is_authenticating):
            return
        if not fault.class_id and self._method_at_work:
            fault.class_id = self._method_at_work >> 16
            fault.method_id = self._method_at_work & 0xFFFF

    def consumers_have_room(self) -> None:
        """The client keeps up again."""
        for channel in tuple(self.channels.values()):
            channel.room_appeared()

    def eof_received(self) -> None:
        """The client will send no more; nor shall we."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone, and with it all that belonged to the connection."""
        was_orderly = self.state in (CLOSED, GONE)
        self.state = GONE
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._registry.discard(self)
        self.services.counts.add_connection(self.bytes_in, self.bytes_out, self.reads, self.writes)
        self.release()
        if self.login is None:
            vhost_left(self)
        connection_closed(self)
        self._transport = None
        if not was_orderly:
            logger.warning("closing connection %s: the client closed its socket unexpectedly: %s",
                           self.name, exc or "end of file")  # fmt: skip

    # Frames (amqp/frames.py calls these)

    def on_publish(
        self,
        channel: int,
        arguments: bytes,
        properties: bytes,
        body_bytes: int,
        bodies: list[bytes],
    ) -> None:
        """A run of messages with the same method arguments, properties and body size."""
        target_channel = self.channels.get(channel)
        self._method_at_work = BASIC_PUBLISH
        if self.state is not RUNNING or target_channel is None:
            self._require_channel(channel)
            return
        self._channel_at_work = target_channel
        if target_channel.is_closing:
            return
        if target_channel.assembler is not None:
            target_channel.assembler.add(METHOD, b"")
        if self.services.flow.is_held and self.hold_back():
            publishing.refuse(target_channel, len(bodies), self.services.alarms.reason)
            return
        header = self._header(properties)
        target = self.targets.get(arguments) or publishing.target_for(target_channel, arguments)
        try:
            publishing.publish(target_channel, target, header, body_bytes, bodies)
        except Undecided as undecided:
            undecided.retry = lambda: self.on_publish(
                channel, arguments, properties, body_bytes, bodies
            )
            raise

    def on_ack(self, channel: int, delivery_tag: int, multiple: int) -> None:
        """A basic.ack."""
        target_channel = self.channels.get(channel)
        self._method_at_work = BASIC_ACK
        if self.state is not RUNNING or target_channel is None:
            self._require_channel(channel)
            return
        self._channel_at_work = target_channel
        if target_channel.assembler is not None:
            target_channel.assembler.add(METHOD, b"")
        if not target_channel.is_closing:
            methods_basic.ack(target_channel, delivery_tag, multiple)

    def on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Any other frame."""
        self._method_at_work = 0
        if self.state is GONE:
            return
        if not is_known_frame(kind, payload):
            if self.state is not CLOSED:
                snippet = format_snippet(payload)
                raise frame_error(f"type {kind}, {snippet}: unknown_frame")
        elif channel == 0:
            self._on_connection_frame(kind, payload)
        elif self.state is RUNNING:
            self._on_channel_frame(kind, channel, payload)
        elif self.state is HANDSHAKE:
            raise unexpected_frame(f"type {kind}, {format_snippet(payload)}")

    def _on_connection_frame(self, kind: int, payload: bytes) -> None:
        if kind == METHOD:
            method = decode_method(payload)
            self._method_at_work = method.index
            self._handle_connection_method(method)
        elif kind != HEARTBEAT and self.state is not CLOSED:
            raise unexpected_frame(f"type {kind}, {format_snippet(payload)}")

    def _on_channel_frame(self, kind: int, number: int, payload: bytes) -> None:
        if kind == HEARTBEAT:
            raise unexpected_frame(f"type {kind}, {format_snippet(payload)}")
        channel = self.channels.get(number)
        if channel is not None and channel.assembler is not None:
            self._channel_at_work = channel
            self._assemble(channel, channel.assembler, kind, payload)
            return
        if kind != METHOD:
            if channel is not None and channel.is_closing:
                # The rest of a message that the channel failed on.
                return
            raise unexpected_frame("expected method frame, got non method frame instead")
        method = decode_method(payload)
        self._method_at_work = method.index
        if isinstance(method, commands.Channel.Open):
            self._open_channel(channel, number)
        elif channel is None:
            self._require_channel(number)
        elif channel.is_closing:
            self._handle_on_closing_channel(channel, method)
        elif isinstance(method, commands.Channel.Close):
            self._close_channel(channel)
        elif isinstance(method, commands.Basic.Publish):
            channel.assembler = ContentAssembler(payload[METHOD_ID_BYTES:])
        else:
            self._dispatch(channel, method)

    def _dispatch(self, channel: Channel, method: base.Frame) -> None:
        if channel.is_closing:
            # It failed while its method waited for an answer.
            return
        self._channel_at_work = channel
        self._method_at_work = method.index
        try:
            dispatch(channel, method)
        except Undecided as undecided:
            undecided.retry = lambda: self._dispatch(channel, method)
            raise

    def _assemble(
        self, channel: Channel, assembler: ContentAssembler, kind: int, payload: bytes
    ) -> None:
        """A frame of a message that comes in several."""
        self._method_at_work = BASIC_PUBLISH
        content = assembler.add(kind, payload)
        if kind == HEADER and not channel.is_closing:
            publishing.check_message_size(channel, assembler.body_bytes)
        if content is None:
            return
        channel.assembler = None
        body = content.body
        self.on_publish(channel.number, content.arguments, content.properties, len(body), [body])

    def _header(self, properties: bytes) -> Any:
        try:
            return self.services.header_cache.get(properties)
        except PropertiesError as error:
            logger.error("%s: cannot decode the properties of a message: %s", self.name, error)
            self._method_at_work = 0
            raise internal_error("") from None

    # Channels

    def _require_channel(self, number: int) -> None:
        """Complain of a method on a channel that is not open."""
        if self.state is HANDSHAKE:
            raise unexpected_frame(f"type {METHOD} on channel {number} before connection.open")
        if number == 0:
            raise channel_error("unexpected method in connection state running")
        if self.state is RUNNING and number not in self.channels:
            raise channel_error("expected 'channel.open'")

    def _open_channel(self, channel: Channel | None, number: int) -> None:
        if channel is not None and not channel.is_closing:
            raise channel_error("second 'channel.open' seen")
        if channel is not None:
            return
        limit = self.tuning.channel_max
        if limit and len(self.channels) >= limit:
            self._method_at_work = 0
            raise not_allowed(
                f"number of channels opened ({len(self.channels)}) has reached the negotiated "
                f"channel_max ({limit})"
            )
        limits.check_channels(self, self._registry)
        channel = self.channels[number] = Channel(self, number)
        channel.send(commands.Channel.OpenOk)
        channel_created(channel)

    def _close_channel(self, channel: Channel) -> None:
        if channel.has_confirms_due:
            channel.send_confirms()
        channel.release()
        channel.send(commands.Channel.CloseOk)
        channel.is_closing = True
        del self.channels[channel.number]

    def _handle_on_closing_channel(self, channel: Channel, method: base.Frame) -> None:
        """After a channel error only the end of the channel is of interest."""
        if isinstance(method, commands.Channel.CloseOk):
            del self.channels[channel.number]
        elif isinstance(method, commands.Channel.Close):
            self.send(channel.number, commands.Channel.CloseOk)

    # Connection methods

    def _handle_connection_method(self, method: base.Frame) -> None:
        if isinstance(method, commands.Connection.Close):
            self._handle_close()
        elif self.state is CLOSED:
            if isinstance(method, commands.Connection.CloseOk):
                self.drop()
        elif self.state is RUNNING:
            self._handle_running_method(method)
        elif self.login is not None:
            self.login.handle(method)

    def _handle_running_method(self, method: base.Frame) -> None:
        if not isinstance(method, commands.Connection.UpdateSecret):
            raise channel_error("unexpected method in connection state running")
        renewing = credentials.renewal(self, method)
        renewing.retry = lambda: credentials.renewed(self, method)
        raise renewing

    def _handle_close(self) -> None:
        """The client says goodbye: exclusive queues go before the answer, as in RabbitMQ."""
        if self.state is HANDSHAKE:
            self._wait_then_drop("the client closed the connection before it was open")
            return
        self.release()
        self.send(0, commands.Connection.CloseOk)
        if self.state is RUNNING:
            logger.info("closing connection %s: the client closed it", self.name)
        self.state = CLOSED
        self._drop_later(self._close_patience_ms())

    def forget_queue(self, name: str) -> None:
        """An exclusive queue of this connection is gone."""
        self.exclusive_queues.pop(name, None)

    def check_node_limits(self) -> None:
        """Raise 530 if the node has as many connections as it may."""
        limits.check_node(self.services, self._registry)

    def check_limits(self, user: Identity, vhost: str) -> None:
        """Raise 530 if the vhost, or the user, has as many connections as it may."""
        limits.check_connections(self.services, self._registry, user, vhost)

    def open(self, user: Identity, vhost: VirtualHost) -> None:
        """The handshake is over."""
        self.user, self.vhost = user, vhost
        credentials.watch_expiry(self)
        self.login = None
        self.state = RUNNING
        if self._close_timer is not None:
            self._close_timer.cancel()
            self._close_timer = None
        self.send(0, commands.Connection.OpenOk)
        connection_created(self)
        logger.info("%s: user '%s' opened vhost '%s'", self.name, user.name, vhost.name)

    def tune(self, tuning: Tuning) -> None:
        """The limits are agreed; heartbeats begin."""
        self.tuning = tuning
        self.frame_bytes_max = self._scanner.frame_bytes_max = tuning.frame_bytes_max
        if tuning.heartbeat_s:
            self._heartbeat = Heartbeat(self, self.services.clock, tuning.heartbeat_s)

    def has_capability(self, name: str) -> bool:
        """The client said at login that it can do this."""
        capabilities = self.client_properties.get("capabilities")
        return bool(
            capabilities is not None
            and capabilities[0] == "F"
            and capabilities[1].get(name) == ("t", True)
        )

    # Ending

    def check_consumer_timeout(self, timeout_ms: int) -> None:
        """Close the channels on which a delivery was not settled in time."""
        for channel in tuple(self.channels.values()):
            channel.check_consumer_timeout(timeout_ms)

    def peer_is_silent(self) -> None:
        """No heartbeat for too long: the client is gone, whatever TCP thinks."""
        logger.error("closing connection %s: missed heartbeats from client, timeout: %d s",
                     self.name, self.tuning.heartbeat_s)  # fmt: skip
        self.state = CLOSED
        self.release()
        self.abort()

    def _handshake_too_long(self) -> None:
        logger.error("closing connection %s: the handshake took too long", self.name)
        self.drop()

    def release(self) -> None:
        """Give back all that the connection holds."""
        if self.expiry_timer is not None:
            self.expiry_timer.cancel()
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        channels, self.channels = self.channels, {}
        for channel in channels.values():
            if not channel.is_closing:
                if channel.has_confirms_due:
                    channel.send_confirms()
                channel.is_closing = True
                channel.release()
        queues, self.exclusive_queues = self.exclusive_queues, {}
        for queue in queues.values():
            self.vhost.delete_queue(queue)
        self.targets = {}

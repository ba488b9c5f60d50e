"""A connection to an AMQP 0-9-1 server, for shovels, federation links, leveret perf and replay.

    bytes from the socket -> DeliveryScanner -> ClientIncoming -> ClientChannel -> the consumer's
    take; publish, ack, call -> ClientOutput -> bytes to the socket

aiormq, the usual asyncio client, is not used, because it has a task or a future for each message,
and decodes and encodes the properties of each with pamqp, which changes unknown ones. Where one
connection of aiormq publishes 9,000 messages of 1 KB a second with confirms, this one publishes
200,000 (tests/bench/client_speed.py); a shovel has to move 30,000.

The connection ends once, in `_end`, whatever the reason is: a close method of either side, a fault,
silence for two heartbeat intervals, or an error of the socket.
"""

import asyncio
import logging
import os
import socket
import ssl
import weakref
from collections.abc import Callable
from typing import Any, cast

from pamqp import base, commands

from leveret.broker.amqp.errors import ConnectionFault, command_invalid
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.frames import HEARTBEAT_FRAME, PROTOCOL_HEADER
from leveret.broker.amqp.json_form import text
from leveret.broker.amqp.methods import method_frame, method_name, table_argument
from leveret.broker.amqp.reply_codes import NOT_ALLOWED, REPLY_SUCCESS
from leveret.broker.moving.client import login
from leveret.broker.moving.client.address import ServerAddress
from leveret.broker.moving.client.awaited_answer import AwaitedAnswer
from leveret.broker.moving.client.channel import ClientChannel
from leveret.broker.moving.client.ended import (
    NO_REPLY_CODE,
    ChannelClosed,
    Closed,
    ConnectionClosed,
    ConnectionFailed,
    ServerUnreachable,
    by_server,
)
from leveret.broker.moving.client.incoming import ClientIncoming
from leveret.broker.moving.client.output import ClientOutput
from leveret.broker.moving.client.tls import context_of, server_name
from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.heartbeat import Heartbeat
from leveret.broker.runtime.loop_watch import LoopWatch
from leveret.broker.runtime.system_clock import SystemClock
from leveret.broker.runtime.tls_errors import reason_of

CLOSE_SECONDS = 5.0
"""How long a server may take to answer connection.close, and a socket to send the last bytes."""
BIG_READ_BYTES = 128 * 1024
"""A chunk of this size is probably followed by more."""
BIG_READS_MAX = 3
"""Such chunks handled in a turn: the event loop reads a socket up to 32 times in a row."""
BLOCKED_LINES_MS = 60_000
"""How often the log reports that a server blocks and unblocks publishes."""
LOCALE = "en_US"
CONNECTING, STARTING, TUNING, OPENING, OPEN = range(5)
STEPS = ("the connection", "connection.start", "the login", "connection.open", "")
"""The failed step when a connection ends before it is open."""

logger = logging.getLogger("leveret.client")


class ClientConnection(asyncio.Protocol):
    """An open connection, from `open`.

    closed: done when it has ended. server_properties: those of connection.start. limits: those that
    were negotiated. bytes_in: the total. name: the name that the server's operators see, unless a
    proxy or NAT changes addresses.
    """

    def __init__(
        self,
        address: ServerAddress,
        properties: Table,
        clock: Clock,
        on_blocked: Callable[[str | None], object] | None = None,
    ) -> None:
        """on_blocked: see `open`."""
        loop = asyncio.get_running_loop()
        self.address = address
        self._properties = properties
        self._clock = clock
        self._on_blocked = on_blocked
        self.closed: asyncio.Future[Closed] = loop.create_future()
        # The reason why it was not opened, or an empty text. An exception would be in a reference
        # cycle with the awaiting frame, which refers to the connection.
        self.opened: asyncio.Future[str] = loop.create_future()
        self._is_disconnected = asyncio.Event()
        self.server_properties: Table = {}
        self.limits = login.NegotiatedLimits(0, 0, 0)
        self._step = CONNECTING
        self._is_closing = False
        self._transport: asyncio.Transport | None = None
        self._call_soon = loop.call_soon
        self._incoming = ClientIncoming(weakref.proxy(self))
        self._output = ClientOutput(
            loop.call_soon, self._output_is_writable, self._server_does_not_read
        )
        self._heartbeat: Heartbeat | None = None
        self._abortion: asyncio.TimerHandle | None = None
        self.bytes_in = 0
        self.name = "?"
        self.is_reading = True
        self._big_reads = 0
        self._waits_for_turn = False
        self._blocked_logged_ms = -BLOCKED_LINES_MS

    def __repr__(self) -> str:
        return f"<ClientConnection to {self.address}>"

    @classmethod
    async def open(
        cls,
        address: ServerAddress,
        properties: Table,
        clock: Clock | None = None,
        connect: "Callable[[ClientConnection], object] | None" = None,
        on_blocked: Callable[[str | None], object] | None = None,
    ) -> "ClientConnection":
        """Connect, log in and open the vhost. Raises ConnectionFailed.

        properties: what the server's management shows of this client; its capabilities are added.
        clock: for heartbeats; None for the event loop's. connect: gives the connection a transport;
        None for one to the address. on_blocked: called with the server's reason when it blocks
        publishes, and with None when it takes them again; None for a line of the log.
        """
        loop = asyncio.get_running_loop()
        context = context_of(address)
        connection = cls(
            address, properties, clock or SystemClock(loop, LoopWatch(loop.call_later)), on_blocked
        )
        failure = "given up"
        try:
            async with asyncio.timeout(address.connection_timeout_s):
                if connect is not None:
                    connect(connection)
                else:
                    await loop.create_connection(
                        lambda: connection,
                        address.host,
                        address.port,
                        ssl=context,
                        server_hostname=server_name(address),
                    )
                failure = await connection.opened
        except TimeoutError:
            if connection._step == CONNECTING:
                raise ConnectionFailed(_too_slow(address, "cannot be reached")) from None
            missing = STEPS[connection._step]
            raise ConnectionFailed(_too_slow(address, f"does not answer {missing}")) from None
        except (OSError, ValueError) as error:
            # A ValueError means that the host name is not valid.
            raise ServerUnreachable(_unreachable(address, error)) from None
        finally:
            if failure:
                # It may be open: the caller was cancelled before it knew.
                connection.drop(failure)
        if failure:
            raise (ConnectionFailed if connection.bytes_in else ServerUnreachable)(failure)
        return connection

    @property
    def is_open(self) -> bool:
        """Whether the handshake is complete and the connection has not ended."""
        return self._step == OPEN and not self.closed.done()

    @property
    def is_blocked(self) -> bool:
        """Whether the server takes no publishes at present (connection.blocked)."""
        return self._output.is_blocked

    @property
    def message_bytes_max(self) -> int:
        """The largest body that is taken."""
        return self.address.message_bytes_max

    @property
    def bytes_out(self) -> int:
        """Total bytes written."""
        return self._output.bytes_out

    # Channels

    async def open_channel(self) -> ClientChannel:
        """Open a channel. Raises ChannelClosed if there is none left, and ConnectionClosed."""
        if self._is_closing or self.closed.done():
            raise ConnectionClosed(self.closed.result() if self.closed.done() else _BY_THIS_NODE)
        channels = self._incoming.channels
        most = self.limits.channel_max
        number = next((each for each in range(1, most + 1) if each not in channels), 0)
        if not number:
            raise ChannelClosed(Closed(NOT_ALLOWED, f"all {most} channels are in use"))
        channel = channels[number] = ClientChannel(self, self._output, number)
        await channel.open()
        return channel

    def forget_channel(self, number: int) -> None:
        """Free the number of a channel."""
        self._incoming.channels.pop(number, None)

    def await_answer(self, method: type[base.Frame]) -> Timer:
        """The timer of an answer, with the time limit for opening the connection."""
        seconds = self.address.connection_timeout_s
        return AwaitedAnswer(self, self._clock, method_name(method), seconds)

    def _output_is_writable(self) -> None:
        for channel in tuple(self._incoming.channels.values()):
            channel.output_is_writable()

    def _server_does_not_read(self) -> None:
        self.drop("the server sends requests and does not read the answers")

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected: begin the handshake."""
        # uvloop's transports implement asyncio's interface but are not subclasses of it.
        self._transport = cast(asyncio.Transport, transport)
        own, peer = (transport.get_extra_info(key) or ("?", 0) for key in ("sockname", "peername"))
        self.name = f"{own[0]}:{own[1]} -> {peer[0]}:{peer[1]}"
        if self.closed.done():
            self._transport.abort()
            return
        self._output.connect(self._transport)
        self._step = STARTING
        self._transport.write(PROTOCOL_HEADER)

    def data_received(self, data: bytes) -> None:
        """Process bytes from the socket."""
        if not self.bytes_in:
            try:
                login.check_greeting(self.address, data)
            except ConnectionFailed as failed:
                self._refuse(failed)
        self.bytes_in += len(data)
        self._incoming.receive(data)
        if len(data) >= BIG_READ_BYTES:
            self._big_reads += 1
            if self._big_reads >= BIG_READS_MAX:
                self.wait_for_turn()

    def wait_for_turn(self) -> None:
        """Stop reading and handling in this turn of the event loop."""
        if not self._waits_for_turn:
            self._waits_for_turn = True
            if self._transport is not None and self.is_reading and not self.closed.done():
                self._transport.pause_reading()
            self._call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._waits_for_turn, self._big_reads = False, 0
        self._incoming.go_on()
        if not self._waits_for_turn:
            self._read_on()

    def eof_received(self) -> None:
        """The server closed its sending side: let asyncio close the socket."""

    def pause_writing(self) -> None:
        """The socket's write buffer is full."""
        self._output.pause()

    def resume_writing(self) -> None:
        """The socket's write buffer has drained."""
        self._output.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        if isinstance(exc, ssl.SSLError):
            reason = f"TLS fails: {reason_of(exc)}"
        else:
            reason = f"the server closed the socket: {exc or 'end of file'}"
            if not self.bytes_in and self.address.tls is None:
                reason += "; if it speaks TLS, connect with amqps://"
        self._transport = None
        self._output.disconnect()
        self._end(Closed(NO_REPLY_CODE, reason))
        if self._abortion is not None:
            self._abortion.cancel()
        self._is_disconnected.set()

    def set_reading(self, is_reading: bool) -> None:
        """Read from the socket, or not."""
        if is_reading:
            self.resume_reading()
        else:
            self.pause_reading()

    def pause_reading(self) -> None:
        """Stop reading the socket for a while: the server stops sending when it is full."""
        if self._transport is not None and self.is_reading and not self.closed.done():
            self.is_reading = False
            if not self._waits_for_turn:
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if not self.is_reading:
            self.is_reading = True
            self._read_on()

    def _read_on(self) -> None:
        if self.is_reading and not self._waits_for_turn and not self.closed.done():
            assert self._transport is not None, "it has not ended"
            self._transport.resume_reading()

    # Heartbeats (broker/runtime/heartbeat.py)

    def send_heartbeat(self) -> None:
        """Write a heartbeat frame."""
        self._output.write(HEARTBEAT_FRAME)

    def peer_is_silent(self) -> None:
        """The server sent nothing for two intervals."""
        seconds = 2 * self.limits.heartbeat_s
        self.drop(f"the server has sent nothing, not even a heartbeat, for {seconds} s")

    # Methods of channel 0

    def handle_method(self, method: base.Frame) -> None:
        """Handle a method on channel 0. Raises ConnectionFault."""
        if isinstance(method, commands.Connection.Close):
            self._send(commands.Connection.CloseOk)
            self._end(by_server(method.reply_code, method.reply_text))
        elif isinstance(method, commands.Connection.CloseOk) and self._is_closing:
            self._end(_BY_THIS_NODE)
        elif self._is_closing:
            # The server sent it before it knew of the close.
            return
        elif self._step == OPEN:
            self._handle_open_method(method)
        else:
            try:
                self._handle_handshake(method)
            except ConnectionFailed as failed:
                self._refuse(failed)

    def _handle_open_method(self, method: base.Frame) -> None:
        if isinstance(method, commands.Connection.Blocked):
            self._tell_blocked(text(method.reason))
            self._output.set_blocked(True)
        elif isinstance(method, commands.Connection.Unblocked):
            if self._on_blocked is not None:
                self._on_blocked(None)
            self._output.set_blocked(False)
        else:
            raise command_invalid(f"{method_name(method)} is not expected")

    def _tell_blocked(self, reason: str) -> None:
        if self._on_blocked is not None:
            self._on_blocked(reason)
            return
        now_ms = self._clock.now_ms()
        if now_ms - self._blocked_logged_ms >= BLOCKED_LINES_MS:
            self._blocked_logged_ms = now_ms
            logger.warning("%s blocks publishes: %s", self.address, reason)

    def _handle_handshake(self, method: base.Frame) -> None:
        if self._step == STARTING and isinstance(method, commands.Connection.Start):
            self.server_properties = table_argument(method.server_properties)
            mechanism = login.choose_mechanism(self.address, login.mechanisms_of(method))
            self._step = TUNING
            self._send(
                commands.Connection.StartOk,
                client_properties=login.client_properties(self._properties),
                mechanism=mechanism,
                response=login.response(mechanism, self.address),
                locale=LOCALE,
            )
        elif self._step == TUNING and isinstance(method, commands.Connection.Tune):
            self._tune(login.choose_limits(self.address, method))
            self._step = OPENING
            self._send(commands.Connection.Open, virtual_host=self.address.vhost)
        elif self._step == OPENING and isinstance(method, commands.Connection.OpenOk):
            self._step = OPEN
            if not self.opened.done():
                self.opened.set_result("")
        else:
            raise command_invalid(f"{method_name(method)} is not expected in the handshake")

    def _tune(self, limits: login.NegotiatedLimits) -> None:
        self.limits = limits
        self._output.frame_bytes_max = limits.frame_max
        self._incoming.set_frame_max(limits.frame_max)
        self._send(
            commands.Connection.TuneOk,
            channel_max=limits.channel_max,
            frame_max=limits.frame_max,
            heartbeat=limits.heartbeat_s,
        )
        if limits.heartbeat_s:
            self._heartbeat = Heartbeat(self, self._clock, limits.heartbeat_s)

    def _send(self, method: type[base.Frame], **arguments: Any) -> None:
        self._output.write(method_frame(0, method, **arguments))

    # The end

    async def close(self) -> None:
        """Close the connection, gracefully if the server answers, and wait until it is closed."""
        if not self.closed.done() and not self._is_closing:
            self._is_closing = self._incoming.is_closing = True
            self._send(commands.Connection.Close, reply_code=REPLY_SUCCESS, reply_text="Goodbye")
            try:
                await asyncio.wait((self.closed,), timeout=CLOSE_SECONDS)
            finally:
                self.drop(f"the server did not answer connection.close in {CLOSE_SECONDS:.0f} s")
        await self._is_disconnected.wait()

    def fail(self, fault: ConnectionFault) -> None:
        """The server has broken the protocol: close the connection with this code and text."""
        self._send(
            commands.Connection.Close, reply_code=fault.reply_code, reply_text=fault.reply_text
        )
        self._end(Closed(fault.reply_code, fault.reply_text))

    def drop(self, reason: str) -> None:
        """Close the socket without connection.close; does nothing if the connection has ended."""
        if not self.closed.done():
            # Nothing is written from here: if `open` was cancelled, uvloop has closed the socket,
            # refuses to write to it, and does not say that it is closing.
            self._output.disconnect()
            self._end(Closed(NO_REPLY_CODE, reason))
            if self._transport is not None:
                self._transport.abort()

    def _refuse(self, failed: ConnectionFailed) -> None:
        """The client cannot log in at the server."""
        if not self.opened.done():
            self.opened.set_result(str(failed))
        self.drop(str(failed))

    def _end(self, closed: Closed) -> None:
        """Tell all channels and waiters that the connection has ended, and close the socket."""
        if self.closed.done():
            return
        self._output.flush()
        self._output.disconnect()
        channels = tuple(self._incoming.channels.values())
        self._incoming.end()
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        self.closed.set_result(closed)
        if not self.opened.done():
            self.opened.set_result(self._refusal(closed))
        for channel in channels:
            channel.end(closed, ConnectionClosed)
        if self._transport is not None:
            self._transport.close()
            loop = asyncio.get_running_loop()
            self._abortion = loop.call_later(CLOSE_SECONDS, self._transport.abort)

    def _refusal(self, closed: Closed) -> str:
        """Why the connection was not opened."""
        address = self.address
        if self._step == TUNING:
            return f"{address} refuses the login of user '{address.user}': {closed}"
        if self._step == OPENING:
            return f"{address} refuses vhost '{address.vhost}' to user '{address.user}': {closed}"
        return f"{address} refuses the connection: {closed}"


_BY_THIS_NODE = Closed(REPLY_SUCCESS, "closed by this node")


def _too_slow(address: ServerAddress, problem: str) -> str:
    return f"{address} {problem} within {address.connection_timeout_s:g} s"


def _unreachable(address: ServerAddress, error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{address}: TLS fails: {reason_of(error)}"
    if isinstance(error, OSError):
        return f"{address} cannot be reached: {_reason(error)}"
    return f"{address} cannot be reached: the name of the host is not valid: {error}"


def _reason(error: OSError) -> str:
    """The system's text, without the addresses that asyncio adds."""
    if error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return error.strerror or str(error)

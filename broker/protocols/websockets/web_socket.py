"""A WebSocket, which stands in for the socket of a connection.

    socket -> WebSocket -> connection of MQTT or STOMP -> WebSocket -> socket

To the socket it is a protocol, in the sense of asyncio; to the connection it is a transport. What
comes in the frames of one read is one read of the connection, and what the connection writes at
once is one frame. Nothing is gathered here: pauses of reading and writing are passed on in both
directions. The connection refers to its transport, and this to the connection, until the socket is
closed.

A client that has sent its request for the opening, or nothing, is not a connection of the broker
yet.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, cast

from leveret.broker.config import WebSocketSettings
from leveret.broker.protocols.socket_connection import SocketConnection
from leveret.broker.protocols.websockets.deflating import DEFLATED_BYTES_MIN, deflate
from leveret.broker.protocols.websockets.frames import (
    BINARY,
    CLOSE,
    NORMAL,
    PING,
    PONG,
    PROTOCOL_ERROR,
    TEXT,
    ClientFrames,
    FrameRefused,
    close_frame,
    frame_head,
)
from leveret.broker.protocols.websockets.opening import Offer, OpeningRefused, open_web_socket
from leveret.broker.runtime.clock import Clock, Timer

_CLOSE_CODE_BYTES: Final = 2

logger = logging.getLogger("leveret.connection")


class CloseReason(NamedTuple):
    """The code and the reason of a close frame."""

    code: int
    reason: str


class WebProtocol(NamedTuple):
    """A protocol over WebSockets.

    make_connection: makes a connection of the protocol. closing: the close frame when such a
    connection closes its transport. has_binary_only: text frames of clients are refused.
    sends_text: clients get text frames. opening_timeout_ms: the limit of the time between
    connecting and opening.
    """

    settings: WebSocketSettings
    offer: Offer
    make_connection: Callable[[], Any]
    closing: Callable[[SocketConnection], CloseReason]
    has_binary_only: bool
    sends_text: bool
    opening_timeout_ms: int


class WebSocket(asyncio.BaseProtocol):
    """One WebSocket of a client."""

    __slots__ = (
        "_clock", "_connection", "_frames", "_idle_timer", "_is_closing", "_is_compressed",
        "_is_paused", "_last_read_ms", "_opcode", "_ping", "_protocol", "_request", "_socket",
        "_timer",
    )  # fmt: skip

    def __init__(self, clock: Clock, protocol: WebProtocol) -> None:
        self._clock = clock
        self._protocol = protocol
        self._socket: asyncio.Transport | None = None
        self._connection: Any = None
        self._request = b""
        settings = protocol.settings
        self._frames = ClientFrames(settings.frame_bytes_max, protocol.has_binary_only)
        self._opcode = TEXT if protocol.sends_text else BINARY
        self._is_closing = self._is_paused = self._is_compressed = False
        self._ping: bytes | None = None
        """The ping to answer when the client reads again."""
        self._last_read_ms = clock.now_ms()
        self._timer: Timer | None = None
        self._idle_timer: Timer | None = None

    # A protocol, to the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        # uvloop's transports implement asyncio's interface but are not subclasses of it.
        self._socket = cast(asyncio.Transport, transport)
        delay_ms = self._protocol.opening_timeout_ms
        self._timer = self._clock.call_later_ms(delay_ms, self._opening_too_long)

    def data_received(self, data: bytes) -> None:
        """Bytes were read from the socket."""
        self._last_read_ms = self._clock.now_ms()
        if self._connection is None:
            self._open(data)
        else:
            self._receive(data)

    def pause_writing(self) -> None:
        """The socket's write buffer is full."""
        self._is_paused = True
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        """The socket's write buffer has drained."""
        self._is_paused = False
        if self._connection is not None:
            ping, self._ping = self._ping, None
            if ping is not None:
                self._answer_ping(ping)
            self._connection.resume_writing()

    def eof_received(self) -> None:
        """The client closed its sending side: let asyncio close the socket."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._cancel_timers()
        self._socket = None
        self._request = b""
        self._frames.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.connection_lost(exc)

    # Opening

    def _open(self, data: bytes) -> None:
        socket = self._socket
        if socket is None or self._is_closing:
            return
        self._request += data
        try:
            opened = open_web_socket(self._request, self._protocol.offer)
        except OpeningRefused as refused:
            peer = socket.get_extra_info("peername")
            logger.error("a WebSocket of %s is not opened: %s", peer, refused)
            self._is_closing = True
            self._request = b""
            socket.write(refused.answer)
            socket.close()
            return
        if opened is None:
            return
        self._request = b""
        self._cancel_timers()
        socket.write(opened.answer)
        self._watch_idleness()
        if opened.is_compressed:
            self._frames.inflates = self._is_compressed = True
        self._connection = self._protocol.make_connection()
        if self._protocol.offer.uses_http_auth:
            self._connection.use_credentials(opened.credentials)
        self._connection.connection_made(self)
        if opened.rest:
            self._receive(opened.rest)

    def _opening_too_long(self) -> None:
        if self._socket is not None:
            peer = self._socket.get_extra_info("peername")
            logger.error("closing the connection of %s: it has opened no WebSocket in time", peer)
            self._socket.abort()

    # Receiving

    def _receive(self, data: bytes) -> None:
        refused: FrameRefused | None = None
        payload = b""
        try:
            payload = self._frames.add(data)
        except FrameRefused as error:
            refused = error
        if payload and not self._is_closing:
            self._connection.data_received(payload)
        for opcode, content in self._frames.take_control():
            self._control(opcode, content)
        if refused is not None and not self._is_closing:
            name = getattr(self._connection, "name", "?")
            logger.error("closing connection %s: a WebSocket frame is refused: %d %s",
                         name, refused.code, refused.reason)  # fmt: skip
            self._send_close(CloseReason(refused.code, refused.reason))
            if self._socket is not None:
                self._socket.close()

    def _control(self, opcode: int, content: bytes) -> None:
        if self._socket is None:
            return
        if opcode == PING and not self._is_closing:
            if self._is_paused:
                self._ping = content
            else:
                self._answer_ping(content)
        elif opcode == CLOSE:
            if not self._is_closing:
                is_empty = len(content) < _CLOSE_CODE_BYTES
                code = NORMAL if is_empty else int.from_bytes(content[:2], "big")
                self._send_close(CloseReason(code, ""))
            self._socket.close()

    def _answer_ping(self, content: bytes) -> None:
        if self._socket is not None and not self._is_closing:
            self._socket.write(frame_head(PONG, len(content)) + content)

    # Idle clients

    def _watch_idleness(self) -> None:
        timeout_ms = self._protocol.settings.idle_timeout_ms
        if timeout_ms is not None:
            silent_ms = self._clock.now_ms() - self._last_read_ms
            delay_ms = max(1, timeout_ms - silent_ms)
            self._idle_timer = self._clock.call_later_ms(delay_ms, self._check_idleness)

    def _check_idleness(self) -> None:
        timeout_ms = self._protocol.settings.idle_timeout_ms
        if timeout_ms is None or self._socket is None:
            return
        if self._clock.now_ms() - self._last_read_ms < timeout_ms or not self._is_reading:
            self._watch_idleness()
            return
        logger.error("closing connection %s: its WebSocket was idle", self._connection.name)
        self._send_close(CloseReason(NORMAL, ""))
        self._socket.close()

    @property
    def _is_reading(self) -> bool:
        """Whether the socket is read. Silence does not count while it is not."""
        return self._socket is not None and self._socket.is_reading()

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._idle_timer = None

    # A transport, to the connection

    def write(self, data: bytes) -> None:
        """Send bytes as one message."""
        if self._socket is None or self._is_closing:
            return
        opcode = self._opcode
        if opcode == TEXT and not _is_text(data):
            opcode = BINARY
        if self._is_compressed and len(data) >= DEFLATED_BYTES_MIN:
            deflated = deflate(data)
            head = frame_head(opcode, len(deflated), is_deflated=True)
            self._socket.writelines((head, deflated))
        else:
            self._socket.writelines((frame_head(opcode, len(data)), data))

    def writelines(self, pieces: Iterable[bytes]) -> None:
        """Send bytes as one message."""
        self.write(b"".join(pieces))

    def close(self) -> None:
        """Send a close frame; the socket is closed when the client has answered it.

        A connection aborts its transport if that takes too long.
        """
        if self._is_closing or self._socket is None:
            return
        self._send_close(self._protocol.closing(self._connection))
        # The answer has to be read even if the connection has paused reading.
        self._socket.resume_reading()

    def _send_close(self, closing: CloseReason) -> None:
        self._is_closing = True
        if self._socket is not None:
            self._socket.write(close_frame(closing.code, closing.reason))

    def abort(self) -> None:
        """Close the socket immediately and discard unsent output."""
        if self._socket is not None:
            self._socket.abort()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._is_closing or self._socket is None

    def pause_reading(self) -> None:
        """Do not read the socket."""
        if self._socket is not None and not self._is_closing:
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Read the socket again."""
        if self._socket is not None and not self._is_closing:
            self._socket.resume_reading()

    def is_reading(self) -> bool:
        """Whether the socket is read."""
        return self._is_reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the marks at which writing is paused and resumed."""
        if self._socket is not None:
            self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """The bytes that the system has not accepted."""
        return 0 if self._socket is None else self._socket.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the socket knows; `over` is the beginning of the protocol's name."""
        if name == "over":
            return "Web "
        return default if self._socket is None else self._socket.get_extra_info(name, default)


def _is_text(data: bytes) -> bool:
    """Whether bytes may be in a text frame."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def died(connection: SocketConnection, name: str) -> CloseReason:
    """How RabbitMQ closes the WebSocket of a connection that has ended."""
    return CloseReason(NORMAL, f"{name} died")


def broke(reason: str) -> CloseReason:
    """How RabbitMQ closes the WebSocket of a client that does not speak the protocol."""
    return CloseReason(PROTOCOL_ERROR, reason)

"""The output of a client's connection, gathered in a round of the event loop, written at its end.

Publishes, acks and methods are appended to one buffer. A body that is large, or does not fit into
one frame, has pieces of its own and is not copied. A large amount of output is written before the
round ends, so that the server can work on it while the rest is encoded.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter

from leveret.broker.amqp.content import COPIED_BYTES_MAX, Piece, content_frames, write_content
from leveret.broker.amqp.frames import FRAME_OVERHEAD_BYTES, HEADER, METHOD, encode_frame

HEADER_FRAME_FIXED_BYTES: Final = FRAME_OVERHEAD_BYTES + 12
"""The bytes of a header frame besides the properties."""
GATHERED_BYTES_MAX: Final = 64 * 1024
"""More is written without waiting for the end of the round."""
WRITE_BUFFER_HIGH_BYTES: Final = 256 * 1024
WRITE_BUFFER_LOW_BYTES: Final = 64 * 1024
"""Above the high mark the output is not writable; below the low one it is again."""
UNREAD_BYTES_MAX: Final = 4 * 1024 * 1024
"""Acks and answers that a server may leave unread: the acks of 200,000 messages."""


class PublishFrames:
    """The common parts of the frames of messages published to one address on a channel."""

    __slots__ = ("before_body", "before_size", "channel", "method")

    def __init__(self, channel: int, method: bytes) -> None:
        """method: the encoded basic.publish."""
        number = channel.to_bytes(2, "big")
        self.channel = channel
        self.method = method
        self.before_size = encode_frame(METHOD, channel, method) + bytes((HEADER,)) + number
        self.before_body = b"\xce\x03" + number


class ClientOutput:
    """The output of one connection.

    frame_bytes_max: as negotiated; 0 for no limit. is_blocked: the server takes no publishes
    (connection.blocked). bytes_out: the total. on_writable: called when `is_writable` becomes true.
    on_unread: called when the server has left too many acks and answers unread.
    """

    __slots__ = (
        "_call_soon", "_is_dirty", "_is_full", "_pieces", "_transport", "_unread_bytes", "_writer",
        "bytes_out", "frame_bytes_max", "is_blocked", "on_unread", "on_writable",
    )  # fmt: skip

    def __init__(
        self,
        call_soon: Callable[[Callable[[], object]], object],
        on_writable: Callable[[], object],
        on_unread: Callable[[], object],
    ) -> None:
        """call_soon: calls back at the end of the round."""
        self._call_soon = call_soon
        self.on_writable = on_writable
        self.on_unread = on_unread
        self._unread_bytes = 0
        self._writer = BytesWriter()
        self._pieces: list[Piece] = []
        self._transport: asyncio.Transport | None = None
        self._is_dirty = self._is_full = False
        self.is_blocked = False
        self.frame_bytes_max = 0
        self.bytes_out = 0

    def connect(self, transport: asyncio.Transport) -> None:
        """Write to this socket."""
        self._transport = transport
        transport.set_write_buffer_limits(WRITE_BUFFER_HIGH_BYTES, WRITE_BUFFER_LOW_BYTES)

    def disconnect(self) -> None:
        """The connection has ended: discard all later output."""
        self._transport = None
        self._pieces = []
        self._writer.truncate(0)
        # These refer to the connection: breaking the cycle frees it immediately.
        self.on_writable = self.on_unread = _no_waiter

    @property
    def is_writable(self) -> bool:
        """Whether the socket and the server take more messages."""
        return not (self._is_full or self.is_blocked)

    def write(self, data: bytes) -> None:
        """Append whole frames."""
        self._writer.write(data)
        if self._is_full:
            self._count_unread(len(data))
        self._gathered()

    def _count_unread(self, size: int) -> None:
        self._unread_bytes += size
        if self._unread_bytes > UNREAD_BYTES_MAX:
            self._unread_bytes = 0
            self._call_soon(self.on_unread)

    def publish(self, frames: PublishFrames, properties: bytes, body: bytes) -> None:
        """Append the frames of a message.

        Raises ValueError if the properties do not fit into a frame: the server would close the
        connection.
        """
        size = len(body)
        limit = self.frame_bytes_max
        if limit and len(properties) > limit - HEADER_FRAME_FIXED_BYTES:
            raise ValueError(
                f"its properties have {len(properties)} bytes, and a frame of this connection has "
                f"room for {limit - HEADER_FRAME_FIXED_BYTES}, with a frame_max of {limit}"
            )
        if size > COPIED_BYTES_MAX or (limit and size > limit - FRAME_OVERHEAD_BYTES):
            self._take_over()
            self._pieces += content_frames(frames.channel, frames.method, properties, body, limit)
            self.flush()
            return
        writer = self._writer
        writer.write(frames.before_size)
        write_content(writer, frames.before_body, properties, body)
        self._gathered()

    def _gathered(self) -> None:
        if len(self._writer) > GATHERED_BYTES_MAX:
            self.flush()
        elif not self._is_dirty:
            self._is_dirty = True
            self._call_soon(self._end_round)

    def _end_round(self) -> None:
        self._is_dirty = False
        self.flush()

    def _take_over(self) -> None:
        """Turn the written bytes into a piece."""
        if len(self._writer):
            self._pieces.append(self._writer.getvalue())
            self._writer.truncate(0)

    def flush(self) -> None:
        """Write the gathered pieces."""
        self._take_over()
        pieces, self._pieces = self._pieces, []
        transport = self._transport
        if transport is None or not pieces:
            return
        for piece in pieces:
            self.bytes_out += len(piece)
        if len(pieces) == 1:
            transport.write(pieces[0])
        else:
            transport.writelines(pieces)

    def pause(self) -> None:
        """The socket's buffer is full."""
        self._is_full = True

    def resume(self) -> None:
        """The socket's buffer has drained."""
        self._is_full = False
        self._unread_bytes = 0
        if not self.is_blocked:
            self.on_writable()

    def set_blocked(self, is_blocked: bool) -> None:
        """The server takes no publishes, or takes them again."""
        was_blocked, self.is_blocked = self.is_blocked, is_blocked
        if was_blocked and self.is_writable:
            self.on_writable()


def _no_waiter() -> None:
    """The connection has ended."""

"""The output of a connection of the stream protocol: frames, and parts of files.

Parts of files are not held in memory; from the first one on, everything goes to the socket by
socket_sender.py. No chunk is taken for the subscriptions of a client that does not read until its
output is no longer congested: so it holds the buffer and one turn's chunks, whatever its credit.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from leveret.broker.net.socket_output import SocketOutput
from leveret.broker.protocols.stream.socket_sender import Piece, SocketSender
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.turns import Turns
from leveret.storage.disk.file_parts import FilePart


class StreamOutput(SocketOutput):
    """The output of one connection.

    before_flush: called before each flush, to add frames that are due. failed: called with the
    error when a file, or the socket, has failed.
    """

    __slots__ = ("_has_parts", "_sender", "_socket", "_when_sent", "before_flush", "failed")

    def __init__(self, turns: Turns, clock: Clock) -> None:
        super().__init__(turns, clock)
        self._socket = -1
        self._sender: SocketSender | None = None
        self._when_sent: Callable[[], object] | None = None
        self._has_parts = False
        self.before_flush: Callable[[], object] = _nothing
        self.failed: Callable[[Exception], object] = _ignore

    def connect(self, transport: asyncio.Transport) -> None:
        """Write to this socket. Files can be sent to it unless it has TLS."""
        super().connect(transport)
        is_plain = transport.get_extra_info("ssl_object") is None
        socket = transport.get_extra_info("socket") if is_plain else None
        self._socket = -1 if socket is None else socket.fileno()

    def disconnect(self) -> None:
        """The socket is closed: drop all output."""
        super().disconnect()
        self._when_sent = None
        self.before_flush = _nothing
        self.failed = _ignore
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()

    @property
    def sends_files(self) -> bool:
        """Whether parts of files can be sent."""
        return self._socket >= 0

    def send_part(self, part: FilePart) -> None:
        """Send a part of a file."""
        self._has_parts = True
        cast(list[object], self.pieces).append(part)
        self.gathered(part.size)

    def flush(self) -> None:
        """Write the gathered output."""
        self.before_flush()
        if self._has_parts:
            self._send_directly()
        else:
            super().flush()

    def when_sent(self, callback: Callable[[], object]) -> None:
        """Call back when the transport has all that was flushed."""
        if self._sender is not None and self._sender.unsent_bytes:
            self._when_sent = callback
        else:
            callback()

    # Parts of files

    def _send_directly(self) -> None:
        pieces, self.pieces = cast(list[Piece], self.pieces), []
        gathered_bytes, self.gathered_bytes = self.gathered_bytes, 0
        transport, sender = self._transport, self._sender
        if transport is None or not pieces:
            return
        self.writes += 1
        self.bytes_out += gathered_bytes
        if sender is None:
            sender = self._sender = SocketSender(self._socket, self._sent, self.failed)
            sender.send(pieces)
            # Without a buffer the transport calls `resume` when it has sent everything.
            transport.set_write_buffer_limits(0)
            if not transport.get_write_buffer_size():
                sender.release()
        else:
            sender.send(pieces)
        if sender.unsent_bytes and not self._is_write_paused:
            self.pause()
        self.end_round()

    def _sent(self) -> None:
        """The sender has sent everything."""
        when_sent, self._when_sent = self._when_sent, None
        if when_sent is not None:
            when_sent()
        if self._is_write_paused:
            self.resume()

    def resume(self) -> None:
        """The socket's buffer has drained."""
        sender = self._sender
        if sender is not None and sender.unsent_bytes:
            sender.release()
        else:
            super().resume()

    def sent_bytes(self) -> int:
        """The bytes that the system has accepted."""
        unsent_bytes = 0 if self._sender is None else self._sender.unsent_bytes
        return super().sent_bytes() - unsent_bytes


def _nothing() -> None:
    """Do nothing: there is no listener."""


def _ignore(error: Exception) -> None:
    """Do nothing: there is no listener."""

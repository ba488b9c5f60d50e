"""The output of a connection of the stream protocol: gathered in a round, written at its end.

A client that does not read makes the output congested: no chunk is taken for its
subscriptions until the socket's buffer has drained. So it holds the buffer and one turn's chunks,
whatever its credit. Parts of files are not held in memory; from the first one on, everything goes
to the socket by socket_sender.py.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from leveret.broker.net.progress_watch import ProgressWatch
from leveret.broker.protocols.stream.socket_sender import SocketSender
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.turns import Flushable, Turns
from leveret.storage.disk.file_parts import FilePart

OUTPUT_BYTES_MAX: Final = 1024 * 1024
"""Output gathered in one round; more waits for the next one."""
WRITE_BUFFER_HIGH_BYTES: Final = 256 * 1024
WRITE_BUFFER_LOW_BYTES: Final = 64 * 1024
JOINED_PIECE_BYTES: Final = 4 * 1024
"""Pieces that are smaller on average are joined: copying costs less than a long writev."""


class Output(Flushable):
    """The output of one connection.

    bytes_out, writes: totals. before_flush: called before each flush, to add frames that are due.
    caught_up: called when the output is no longer congested. stuck: called when the client reads
    nothing. failed: called with the error when a file, or the socket, has failed.
    """

    __slots__ = (
        "_gathered_bytes", "_has_parts", "_is_over", "_is_write_paused", "_pieces", "_sender",
        "_socket", "_transport", "_turns", "_watch", "_when_sent", "before_flush", "bytes_out",
        "caught_up", "failed", "stuck", "writes",
    )  # fmt: skip

    def __init__(self, turns: Turns, clock: Clock) -> None:
        super().__init__()
        self._turns = turns
        self._watch = ProgressWatch(clock)
        self._transport: asyncio.Transport | None = None
        self._socket = -1
        self._sender: SocketSender | None = None
        self._when_sent: Callable[[], object] | None = None
        self._pieces: list[bytes | FilePart] = []
        self._gathered_bytes = 0
        self._has_parts = self._is_over = self._is_write_paused = False
        self.bytes_out = self.writes = 0
        self.before_flush: Callable[[], object] = _nothing
        self.caught_up: Callable[[], object] = _nothing
        self.stuck: Callable[[], object] = _nothing
        self.failed: Callable[[Exception], object] = _ignore

    def connect(self, transport: asyncio.Transport, socket: int = -1) -> None:
        """Write to this socket. socket: its descriptor, if files can be sent to it."""
        self._transport = transport
        self._socket = socket
        transport.set_write_buffer_limits(WRITE_BUFFER_HIGH_BYTES, WRITE_BUFFER_LOW_BYTES)

    def disconnect(self) -> None:
        """The socket is closed: drop all output."""
        self._transport = self._when_sent = None
        self._pieces = []
        self.before_flush = self.caught_up = self.stuck = _nothing
        self.failed = _ignore
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()
        self._watch.end()

    @property
    def sends_files(self) -> bool:
        """Whether parts of files can be sent."""
        return self._socket >= 0

    @property
    def is_congested(self) -> bool:
        """Whether chunks have to wait."""
        return self._is_over or self._is_write_paused

    def send(self, frame: bytes) -> None:
        """Send a frame, or a part of one."""
        self._pieces.append(frame)
        self._gathered_bytes += len(frame)
        if self._gathered_bytes > OUTPUT_BYTES_MAX:
            self._is_over = True
        self.flush_later()

    def send_part(self, part: FilePart) -> None:
        """Send a part of a file."""
        self._has_parts = True
        self._pieces.append(part)
        self._gathered_bytes += part.size
        if self._gathered_bytes > OUTPUT_BYTES_MAX:
            self._is_over = True
        self.flush_later()

    def flush_later(self) -> None:
        """Flush at the end of the round."""
        if not self.is_dirty:
            self._turns.flush_later(self)

    def flush(self) -> None:
        """Write the gathered output."""
        self.before_flush()
        pieces, self._pieces = self._pieces, []
        gathered_bytes, self._gathered_bytes = self._gathered_bytes, 0
        transport = self._transport
        if transport is None or not pieces:
            return
        self.writes += 1
        self.bytes_out += gathered_bytes
        if self._has_parts:
            self._send_directly(transport, pieces)
        elif gathered_bytes > JOINED_PIECE_BYTES * len(pieces):
            transport.writelines(cast(list[bytes], pieces))
        else:
            transport.write(b"".join(cast(list[bytes], pieces)))
        if self._is_over and not self._is_write_paused:
            self._is_over = False
            self.caught_up()

    def when_sent(self, callback: Callable[[], object]) -> None:
        """Call back when the transport has all that was flushed."""
        if self._sender is not None and self._sender.unsent_bytes:
            self._when_sent = callback
        else:
            callback()

    # Parts of files

    def _send_directly(self, transport: asyncio.Transport, pieces: list[bytes | FilePart]) -> None:
        sender = self._sender
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

    def _sent(self) -> None:
        """The sender has sent everything."""
        when_sent, self._when_sent = self._when_sent, None
        if when_sent is not None:
            when_sent()
        if self._is_write_paused:
            self.resume()

    # The socket's buffer

    def pause(self) -> None:
        """The socket's buffer is full."""
        self._is_write_paused = True
        self._watch.begin(self)

    def resume(self) -> None:
        """The socket's buffer has drained."""
        sender = self._sender
        if sender is not None and sender.unsent_bytes:
            sender.release()
            return
        self._is_write_paused = self._is_over = False
        self._watch.end()
        self.caught_up()

    def sent_bytes(self) -> int:
        """The bytes that the system has accepted."""
        unsent_bytes = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if self._sender is not None:
            unsent_bytes += self._sender.unsent_bytes
        return self.bytes_out - unsent_bytes


def _nothing() -> None:
    """Do nothing: there is no listener."""


def _ignore(error: Exception) -> None:
    """Do nothing: there is no listener."""

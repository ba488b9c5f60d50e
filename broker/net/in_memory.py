"""Two transports in one process that are each other's socket: the node as a client of itself.

Bytes that one end writes reach the other end's protocol in a later turn of the event loop, in
order, as from a socket. While a protocol does not read, writes to its end wait; above `HIGH_BYTES`
the writing protocol is told to pause, until `LOW_BYTES` are left.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

HIGH_BYTES: Final = 64 * 1024
LOW_BYTES: Final = 16 * 1024
READ_BYTES: Final = 256 * 1024
"""Bytes that a protocol gets at a time, as from a socket: each time takes a turn of the loop."""


class InMemoryAddress(NamedTuple):
    """Stands for the address and the port of an end."""

    host: str
    port: int


class InMemoryTransport(asyncio.Transport):
    """One end. other: the other end. own, peer: stand for the addresses of the two."""

    def __init__(
        self, protocol: asyncio.Protocol, own: InMemoryAddress, peer: InMemoryAddress
    ) -> None:
        super().__init__({"peername": peer, "sockname": own})
        self.other: InMemoryTransport
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        # Bytes that the other end has written, and this end has not read.
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._is_reading = True
        self._is_due = False
        self._has_eof = False
        self._is_closing = False
        self._is_lost = False
        self._is_writing_paused = False

    # Writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Have the other end read these bytes."""
        if data and not self._is_closing:
            self.other._take(bytes(data))
            if self.other._unread_bytes > HIGH_BYTES and not self._is_writing_paused:
                self._is_writing_paused = True
                self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Have the other end read all of these bytes."""
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        """Bytes that the other end has not read."""
        return 0 if self._is_lost else self.other._unread_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: the limits are fixed."""

    def can_write_eof(self) -> bool:
        """False: an end is closed as a whole."""
        return False

    def _was_read(self) -> None:
        """The other end has read some of the bytes that this end has written."""
        if self._is_lost or not self._is_writing_paused:
            return
        if self.other._unread_bytes <= LOW_BYTES:
            self._is_writing_paused = False
            self._protocol.resume_writing()

    # Reading

    def is_reading(self) -> bool:
        """Whether the protocol gets incoming bytes."""
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        """Queue incoming bytes until `resume_reading`."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Give the protocol the bytes that have arrived."""
        self._is_reading = True
        self._read_soon()

    def _take(self, data: bytes) -> None:
        if not self._is_closing:
            self._unread.append(data)
            self._unread_bytes += len(data)
            self._read_soon()

    def _read_soon(self) -> None:
        if not self._is_due and self._is_reading and (self._unread or self._has_eof):
            self._is_due = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._is_due = False
        if not self._is_reading or self._is_closing:
            return
        if self._unread:
            data = self._next()
            self._protocol.data_received(data)
            self.other._was_read()
            self._read_soon()
        elif self._has_eof:
            self._protocol.eof_received()
            self.close()

    def _next(self) -> bytes:
        """The next bytes, of one or more writes."""
        pieces, size = [], 0
        while self._unread and size < READ_BYTES:
            pieces.append(self._unread.popleft())
            size += len(pieces[-1])
        self._unread_bytes -= size
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    # The end

    def is_closing(self) -> bool:
        """Whether `close` or `abort` was called."""
        return self._is_closing

    def close(self) -> None:
        """Stop writing. The other end reads the bytes already written, and then the end of them."""
        if not self._is_closing:
            self._is_closing = True
            self._unread.clear()
            self._unread_bytes = 0
            self.other._has_eof = True
            self.other._read_soon()
            self._loop.call_soon(self._lose)

    def abort(self) -> None:
        """Close at once: the other end does not get the bytes that it has not read yet."""
        if self._is_lost:
            return
        self.other._unread.clear()
        self.other._unread_bytes = 0
        self.close()

    def _lose(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._protocol.connection_lost(None)
            # It refers to this end: without the cycle both are freed at once.
            del self.other


def connect_in_memory(
    client: asyncio.Protocol,
    server: asyncio.Protocol,
    client_end: InMemoryAddress,
    server_end: InMemoryAddress,
) -> None:
    """Connect two protocols with each other: the server first, as if it had accepted."""
    one = InMemoryTransport(client, client_end, server_end)
    other = InMemoryTransport(server, server_end, client_end)
    one.other, other.other = other, one
    server.connection_made(other)
    client.connection_made(one)

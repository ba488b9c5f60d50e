"""Sends bytes and parts of files to a socket in order, beside its transport.

A transport takes bytes only. So when the first part of a file is to be sent, and the transport has
sent what it had, all output goes here. Parts go from the file to the socket (sendfile). A socket
that takes no more is awaited, and so is a part that has to be read from the disk.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.disk import StoreError
from leveret.storage.disk.file_parts import FilePart

Piece: TypeAlias = bytes | memoryview | FilePart

SENT_AT_ONCE: Final = 1024 * 1024
"""The bytes to send before other connections have their turn."""


class SocketSender:
    """Sends to one socket. unsent_bytes: those that the socket has not taken yet.

    sent: called when everything is sent. failed: called with a StoreError, if a file cannot be
    read, or an OSError, if the socket is closed; then it sends nothing more.
    """

    __slots__ = (
        "_is_watching", "_loop", "_pieces", "_socket", "_waits", "failed", "sent", "unsent_bytes",
    )  # fmt: skip

    def __init__(
        self, descriptor: int, sent: Callable[[], object], failed: Callable[[Exception], object]
    ) -> None:
        """descriptor: the socket's. It is held until `release`."""
        self._loop = asyncio.get_running_loop()
        # The event loop watches no descriptor that belongs to a transport.
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._pieces: deque[Piece] = deque()
        self._waits = True
        self._is_watching = False
        self.unsent_bytes = 0
        self.sent = sent
        self.failed = failed

    def release(self) -> None:
        """The transport has sent everything: begin."""
        self._go_on()

    def send(self, pieces: Sequence[Piece]) -> None:
        """Send these after all earlier ones."""
        for piece in pieces:
            self.unsent_bytes += piece.size if isinstance(piece, FilePart) else len(piece)
        self._pieces.extend(pieces)
        if not self._waits:
            self._go_on()

    def close(self) -> None:
        """Drop everything that is not sent."""
        self._waits = True
        self._stop_watching()
        self._pieces.clear()
        self._socket.close()

    # Sending

    def _go_on(self) -> None:
        self._waits = True
        stop_at = self.unsent_bytes - SENT_AT_ONCE
        try:
            while self._pieces and self.unsent_bytes > stop_at:
                self._send_next()
        except BlockingIOError:
            self._watch()
        except BeingRead as reading:
            self._stop_watching()
            reading.when_done(self._was_read)
        except (OSError, StoreError) as error:
            self.close()
            self.failed(error)
        else:
            self._sent_some()

    def _send_next(self) -> None:
        pieces = self._pieces
        piece = pieces[0]
        if isinstance(piece, FilePart):
            sent = piece.send(self._socket.fileno())
            is_sent = not piece.size
        else:
            flags = socket.MSG_MORE if len(pieces) > 1 else 0
            sent = self._socket.send(piece, flags)
            is_sent = sent == len(piece)
            if not is_sent:
                pieces[0] = memoryview(piece)[sent:]
        self.unsent_bytes -= sent
        if is_sent:
            pieces.popleft()

    def _sent_some(self) -> None:
        if self._pieces:
            self._watch()
            return
        self._waits = False
        self._stop_watching()
        self.sent()

    def _was_read(self) -> None:
        """A thread has read the next part."""
        if self._pieces:
            self._go_on()

    def _watch(self) -> None:
        """Go on when the socket takes more."""
        if not self._is_watching:
            self._is_watching = True
            self._loop.add_writer(self._socket, self._go_on)

    def _stop_watching(self) -> None:
        if self._is_watching:
            self._is_watching = False
            self._loop.remove_writer(self._socket)

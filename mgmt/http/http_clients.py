"""A client of an HTTP server of this node, before and between its requests.

aiohttp reads requests and limits their size. It does not decompress bodies: that would let clients
without a login cause work. Three things are added here. A client that has sent no whole head of a
request `FIRST_REQUEST_SECONDS` after it connected is disconnected, as in RabbitMQ: otherwise unused
sockets take the file descriptors that other clients need. Clients' input is parsed in turns
(read_turns.py). And after a request that cannot be read, no byte of its client is kept: aiohttp
would make an error of each further piece, with a traceback that keeps the piece in memory until the
garbage collector runs.
"""

import asyncio
from typing import Any

from aiohttp import web

from leveret.mgmt.http.read_turns import ReadTurns

FIRST_REQUEST_SECONDS = 5.0


class HttpClient(web.RequestHandler):
    """The connection of one client; `web.RequestHandler` has the other arguments."""

    __slots__ = ("_first_request", "_is_unreadable", "_place", "_turns", "_unread")

    def __init__(self, server: web.Server, turns: ReadTurns, **options: Any) -> None:
        super().__init__(server, auto_decompress=False, **options)
        self._turns = turns
        # The input that waits for a turn, and how much of it has been read.
        self._unread = b""
        self._place = 0
        self._first_request: asyncio.TimerHandle | None = None
        self._is_unreadable = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client has connected, and its TLS handshake is over."""
        super().connection_made(transport)
        wait = self._loop.call_later
        self._first_request = wait(FIRST_REQUEST_SECONDS, self._give_up)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The client has gone."""
        self._stop_waiting()
        self._unread = b""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read requests, up to one that cannot be read.

        Without data, as aiohttp itself calls it, go on with the input that was read before.
        """
        if self._is_unreadable:
            return
        if not data or (not self._unread and self._turns.take(len(data))):
            self._parse(data)
            return
        if not self._unread:
            self._turns.wait(self)
        self._unread += data
        self._pause_transport_reading()

    def read_on(self, size: int) -> bool:
        """Read up to this many of the waiting bytes. Returns whether there are more."""
        start, self._place = self._place, self._place + size
        piece = self._unread[start : self._place]
        if piece and not self._is_unreadable:
            self._parse(piece)
        if self._place < len(self._unread):
            return True
        self._unread, self._place = b"", 0
        if not (self._reading_paused or self._buffer_paused):
            self._resume_transport_reading()
        return False

    def _resume_transport_reading(self) -> None:
        """Read the socket again, for which aiohttp has room, unless something waits here."""
        if not self._unread:
            super()._resume_transport_reading()

    def _parse(self, data: bytes) -> None:
        super().data_received(data)
        if not self._messages:
            return
        self._stop_waiting()
        # aiohttp has a request here, or an error about it.
        error = getattr(self._messages[-1][0], "exc", None)
        if isinstance(error, BaseException):
            self._is_unreadable = True
            error.__traceback__ = None

    def _give_up(self) -> None:
        self._first_request = None
        self.force_close()

    def _stop_waiting(self) -> None:
        if self._first_request is not None:
            self._first_request.cancel()
            self._first_request = None

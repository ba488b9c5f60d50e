"""A client of an HTTP server of this node, before and between its requests.

aiohttp reads requests and bounds what it accepts. It does not decompress bodies: that would be work
for clients that have not logged in. Two things are added here. A client that has sent
no whole head of a request `FIRST_REQUEST_SECONDS` after it connected is disconnected, as in
RabbitMQ: otherwise sockets that nobody uses take the file descriptors that other clients need. And
after a request that cannot be read, no byte of its client is kept: aiohttp would make an error of
each further piece, with a traceback that keeps the piece in memory until the garbage collector
runs.
"""

import asyncio
from typing import Any

from aiohttp import web

FIRST_REQUEST_SECONDS = 5.0


class HttpClient(web.RequestHandler):
    """The connection of one client; `web.RequestHandler` has the arguments."""

    __slots__ = ("_first_request", "_is_unreadable")

    def __init__(self, server: web.Server, **options: Any) -> None:
        super().__init__(server, auto_decompress=False, **options)
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
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read requests, up to one that cannot be read."""
        if self._is_unreadable:
            return
        super().data_received(data)
        if not self._messages:
            return
        self._stop_waiting()
        # aiohttp has a request here, or what is wrong with it.
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

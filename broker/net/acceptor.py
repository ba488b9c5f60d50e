"""Accepting the clients of one listening socket, as long as there are descriptors for them.

A client whose socket would take a descriptor that is reserved for files is refused: its socket is
closed at once (resources/file_descriptors.py). Without that, clients that connect and never log in
could use up all descriptors, and the store could not open its next file.

A turn of the event loop accepts at most `ACCEPTED_MAX` clients, so that thousands that connect at
once do not hold up connected clients. The system keeps the rest in the socket's backlog.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import NamedTuple

from leveret.broker.resources.file_descriptors import descriptor_limit, sockets_max

ACCEPTED_MAX = 16
"""A handshake takes a tenth of a millisecond, so these take less than two in one turn."""
PAUSE_SECONDS = 1.0
"""The pause after the system could not accept a client, as in asyncio's own servers."""

logger = logging.getLogger("leveret.connection")


class Tls(NamedTuple):
    """The TLS of a listener: its context, and how long a handshake and a shutdown may take."""

    context: ssl.SSLContext
    handshake_s: float | None = None
    shutdown_s: float | None = None


class Acceptor:
    """Accepts clients from `start` to `close`. refused: the number since refusals began; 0 if none.

    listening: bound, and not blocking. make_protocol: called for each client. tls: None for plain
    connections; otherwise the protocol is connected after the TLS handshake.
    """

    def __init__(
        self,
        listening: socket.socket,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        tls: Tls | None = None,
    ) -> None:
        self._listening = listening
        self._make_protocol = make_protocol
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._beginning: set[asyncio.Task[None]] = set()
        self._is_closed = False
        address = listening.getsockname()
        self.host, self.port = str(address[0]), int(address[1])
        self.refused = 0

    def start(self, backlog: int) -> None:
        """Start accepting clients. backlog: the number of clients that the system queues.

        Raises OSError, with the address in its text.
        """
        try:
            self._listening.listen(backlog)
        except OSError as error:
            self._listening.close()
            raise OSError(
                error.errno, f"cannot listen on {self.host}:{self.port}: {error.strerror}"
            ) from None
        self._resume()

    def close(self) -> None:
        """Stop accepting clients. Connected clients are not affected.

        A client that was accepted and is not connected yet is closed. So closing the listeners of a
        stopping node, and then its connections, closes all clients.
        """
        self._is_closed = True
        if self._tls is not None:
            for task in self._beginning:
                task.cancel()
        if self._listening.fileno() < 0:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listening)
        self._listening.close()

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening, self._accept_waiting)

    def _accept_waiting(self) -> None:
        below = sockets_max(descriptor_limit())
        for _ in range(ACCEPTED_MAX):
            try:
                client, _address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                # The client no longer waits, or has gone.
                return
            except OSError as error:
                self._wait(error)
                return
            self._admit(client, below)

    def _wait(self, error: OSError) -> None:
        """The system cannot accept a client, for instance because it is out of memory."""
        logger.error("cannot accept clients on %s:%d: %s", self.host, self.port, error.strerror)
        self._loop.remove_reader(self._listening)
        self._pause = self._loop.call_later(PAUSE_SECONDS, self._resume)

    def _admit(self, client: socket.socket, below: int) -> None:
        """Connect a client if the number of its descriptor is below the limit; else refuse it."""
        if client.fileno() >= below:
            client.close()
            self.refused += 1
            if self.refused == 1:
                logger.warning(
                    "clients that connect to %s:%d are refused: sockets may take %d of the %d file "
                    "descriptors of this process, and all of these are in use; close connections, "
                    "or raise the limit on open files (ulimit -n, or LimitNOFILE of systemd)",
                    self.host, self.port, below, descriptor_limit(),
                )  # fmt: skip
            return
        if self.refused:
            logger.warning(
                "clients that connect to %s:%d are accepted again; %d were refused",
                self.host, self.port, self.refused,
            )  # fmt: skip
            self.refused = 0
        client.setblocking(False)
        task = self._loop.create_task(self._begin(client))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _begin(self, client: socket.socket) -> None:
        tls = self._tls
        try:
            if tls is None:
                # It is connected in the next turn. If it were cancelled, uvloop would close the
                # socket without telling the protocol, which would be written to, and never end.
                transport, _ = await self._loop.connect_accepted_socket(self._make_protocol, client)
                if self._is_closed:
                    transport.abort()
                return
            await self._loop.connect_accepted_socket(
                self._make_protocol,
                client,
                ssl=tls.context,
                ssl_handshake_timeout=tls.handshake_s,
                ssl_shutdown_timeout=tls.shutdown_s,
            )
        except OSError as error:
            # The client left, or its TLS handshake failed, which net/tls_session.py logs.
            logger.debug("a client of %s:%d was not connected: %s", self.host, self.port, error)

"""Opening a port for an aiohttp application.

Clients are accepted as AMQP clients are (broker/net/acceptor.py), so they do not use up the
descriptors that the store needs. Their limits before and between requests are in http_clients.py.
"""

import asyncio
import socket
from functools import partial
from ssl import SSLContext

from aiohttp import web

from leveret.broker.config import Listener
from leveret.broker.net.acceptor import Acceptor, Tls
from leveret.mgmt.http.http_clients import FIRST_REQUEST_SECONDS, HttpClient
from leveret.mgmt.http.read_turns import ReadTurns

BACKLOG = 128
"""Clients that the system keeps until they are accepted: aiohttp's own figure."""
LINGERING_SECONDS_MAX = 5.0
"""How long the rest of a refused body is read, so that its sender gets the answer."""


class AcceptingSite(web.BaseSite):
    """An address of a runner, whose clients an `Acceptor` accepts.

    timeout_s: how long a client may be idle between requests.
    """

    def __init__(
        self,
        runner: web.AppRunner,
        listening: socket.socket,
        context: SSLContext | None,
        timeout_s: float,
    ) -> None:
        super().__init__(runner)
        assert runner.server is not None, "the runner is set up"
        tls = None if context is None else Tls(context, handshake_s=FIRST_REQUEST_SECONDS)
        make_client = partial(
            HttpClient,
            runner.server,
            ReadTurns(asyncio.get_running_loop().call_soon),
            loop=asyncio.get_running_loop(),
            access_log=None,
            keepalive_timeout=timeout_s,
            lingering_time=min(LINGERING_SECONDS_MAX, timeout_s),
        )
        self._acceptor = Acceptor(listening, make_client, tls)

    @property
    def name(self) -> str:
        """The address."""
        return f"{self._acceptor.host}:{self._acceptor.port}"

    @property
    def address(self) -> Listener:
        """The address, with the port that the system chose."""
        return Listener(self._acceptor.host, self._acceptor.port)

    async def start(self) -> None:
        """Accept clients. Raises OSError."""
        await super().start()
        self._acceptor.start(BACKLOG)

    async def stop(self) -> None:
        """Stop accepting clients."""
        await super().stop()
        self._acceptor.close()


async def listen(
    runner: web.AppRunner, listener: Listener, context: SSLContext | None, timeout_s: float
) -> Listener:
    """Set up a runner and open its port; returns its address. Raises OSError.

    context: for TLS. timeout_s: how long a client may be idle between requests.
    """
    await runner.setup()
    sites = [AcceptingSite(runner, one, context, timeout_s) for one in _bind(listener)]
    for site in sites:
        await site.start()
    return sites[0].address


def _bind(listener: Listener) -> list[socket.socket]:
    """The sockets of an address: one for each that its name stands for."""
    found = socket.getaddrinfo(
        listener.host or None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    for family, address in dict.fromkeys((one[0], one[4]) for one in found):
        try:
            bound = socket.create_server(address, family=family, backlog=BACKLOG)
        except OSError:
            if sockets and family is socket.AF_INET6 and not listener.host:
                # Without IPv6 support the IPv4 socket alone covers all interfaces.
                continue
            raise
        bound.setblocking(False)
        sockets.append(bound)
    return sockets

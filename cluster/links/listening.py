"""The sockets on which a node accepts links from other nodes: one port of its host's interface."""

import asyncio
import socket
from collections.abc import Callable

from leveret.broker.config import SettingError
from leveret.broker.net.acceptor import Acceptor, Tls

BACKLOG = 128
TLS_HANDSHAKE_SECONDS_MAX = 5.0
TLS_SHUTDOWN_SECONDS_MAX = 3.0


async def open_listeners(
    host: str, port: int, make: Callable[[], asyncio.BaseProtocol], tls: Tls | None
) -> list[Acceptor]:
    """Accept connections on all addresses of a host. port: 0 for any. Raises SettingError."""
    acceptors: list[Acceptor] = []
    try:
        for family, address in await _addresses_of(host):
            listening = _bind(family, address, acceptors[0].port if acceptors else port)
            acceptors.append(Acceptor(listening, make, tls))
        for acceptor in acceptors:
            acceptor.start(BACKLOG)
    except OSError as error:
        for acceptor in acceptors:
            acceptor.close()
        raise SettingError("cluster.port", _refusal(host, port, error)) from None
    return acceptors


async def _addresses_of(host: str) -> list[tuple[socket.AddressFamily, str]]:
    """The addresses of a host name. Raises SettingError."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise SettingError(
            "cluster.bind",
            f"the host {host} of this node's name has no address ({error.strerror}): name an "
            "interface, choose a node name with a host that other nodes can reach, or set "
            "cluster.port to 0 if this node is to be alone",
        ) from None
    return list(dict.fromkeys((family, str(address[0])) for family, *_, address in found))


def _bind(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family is socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.setblocking(False)
        listening.bind((address, port))
    except OSError:
        listening.close()
        raise
    return listening


def _refusal(host: str, port: int, error: OSError) -> str:
    return (
        f"links of other nodes cannot be accepted on {host}:{port}: {error.strerror}; choose "
        "another port, another interface by cluster.ip, or port 0 if this node is to be alone"
    )

"""Listening sockets for AMQP clients, with or without TLS, with the configured socket options."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable

from leveret.broker.config import Config, Listener
from leveret.broker.net.acceptor import Acceptor, Tls

TLS_SHUTDOWN_SECONDS_MAX = 3.0
"""Time limit for a client to answer close_notify before its socket is closed."""


def open_listener(
    listener: Listener,
    config: Config,
    make_connection: Callable[[], asyncio.BaseProtocol],
    context: ssl.SSLContext | None = None,
) -> list[Acceptor]:
    """Accept clients on one address. Raises OSError, with the address in its text.

    context: for TLS; None for plain connections. A client whose TLS handshake fails never becomes
    a connection.
    """
    handshake_s = config.tls.handshake_timeout_ms / 1000
    tls = Tls(context, handshake_s, TLS_SHUTDOWN_SECONDS_MAX) if context is not None else None
    acceptors = [Acceptor(one, make_connection, tls) for one in _bind(listener, config)]
    for acceptor in acceptors:
        acceptor.start(config.tcp.backlog)
    return acceptors


def _bind(listener: Listener, config: Config) -> list[socket.socket]:
    """The sockets of a listener: one for IPv4 and one for IPv6 if no interface is named."""
    hosts = [listener.host] if listener.host else ["0.0.0.0", "::"]
    sockets = []
    for host in hosts:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            sockets.append(_bind_one(family, host, listener.port, config))
        except OSError as error:
            if sockets and family is socket.AF_INET6 and not listener.host:
                # Without IPv6 support the IPv4 socket alone covers all interfaces.
                continue
            raise OSError(
                error.errno, f"cannot listen on {host}:{listener.port}: {error.strerror}"
            ) from None
    return sockets


def _bind_one(family: socket.AddressFamily, host: str, port: int, config: Config) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Accepted sockets inherit these from the listening one.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(config.tcp.nodelay))
        if config.tcp.keepalive:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if config.tcp.linger:
            linger = struct.pack("ii", 1, config.tcp.linger_timeout_s)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        if config.tcp.send_buffer_bytes is not None:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.tcp.send_buffer_bytes)
        if config.tcp.receive_buffer_bytes is not None:
            size = config.tcp.receive_buffer_bytes
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        listening.setblocking(False)
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    return listening

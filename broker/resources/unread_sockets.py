"""Notices clients that end while an alarm keeps their sockets from being read.

A transport whose reading is paused does not check its socket at all: the end of its client would be
noticed only when reading resumes, or when heartbeats are missed. So the system is asked to report
only the end of these sockets, and not data that waits in them (EPOLLRDHUP of epoll_ctl(2)). That
costs a call when a client is blocked and one when it no longer is, and nothing in between. Messages
that the client published after the one that blocked it are lost, as with any broken connection.
"""

import asyncio
import select
from contextlib import suppress


class UnreadSockets:
    """The sockets of blocked clients. There is an epoll object only while there are any."""

    def __init__(self) -> None:
        self._transports: dict[int, asyncio.Transport] = {}
        self._epoll: select.epoll | None = None

    def __len__(self) -> int:
        return len(self._transports)

    def watch(self, transport: asyncio.Transport) -> None:
        """Abort the transport when its client has ended, unless `forget` is called before."""
        descriptor = _descriptor(transport)
        if descriptor is None:
            return
        try:
            if self._epoll is None:
                self._epoll = select.epoll()
                asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._end)
            self._epoll.register(descriptor, select.EPOLLRDHUP)
        except OSError:
            # Without a free descriptor, or memory, only heartbeats show that the client has ended.
            return
        self._transports[descriptor] = transport

    def forget(self, transport: asyncio.Transport) -> None:
        """The socket is read again, or closed."""
        descriptor = _descriptor(transport)
        if descriptor is None or self._transports.get(descriptor) is not transport:
            return
        del self._transports[descriptor]
        if self._epoll is None:
            return
        with suppress(OSError):
            # The system forgets sockets that are closed.
            self._epoll.unregister(descriptor)
        if not self._transports:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _end(self) -> None:
        """Some of the clients have ended."""
        assert self._epoll is not None, "it is read while there are sockets"
        for descriptor, _ in self._epoll.poll(0):
            transport = self._transports[descriptor]
            self.forget(transport)
            transport.abort()
            if self._epoll is None:
                return


def _descriptor(transport: asyncio.Transport) -> int | None:
    """The file descriptor of a transport; None if it has none, as in memory."""
    found = transport.get_extra_info("socket")
    return None if found is None else int(found.fileno())

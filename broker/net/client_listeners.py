"""The listeners of a node's clients, for every protocol that the node serves.

A protocol names the addresses on which its clients connect, and makes a connection for each client.
All protocols share the socket options of AMQP, and its certificates unless they have options of
their own. Operators can have all listeners closed and opened again, on the same ports, without
affecting open connections.
"""

import asyncio
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from leveret.broker.config import Config, Listener, SettingError
from leveret.broker.config.tls_settings import TlsListenerOptions
from leveret.broker.net.acceptor import Acceptor
from leveret.broker.net.listeners import open_listener
from leveret.broker.net.tls import CertificateWatcher, context_of
from leveret.broker.net.tls_session import ServerContext

TLS_SUFFIX = "/ssl"
WEB_PREFIX, WEB_TLS_PREFIX = "http/", "https/"
"""RabbitMQ's names of what is served over WebSockets begin with one of them."""


def over_tls(protocol: str) -> str:
    """RabbitMQ's name of a protocol over TLS."""
    if protocol.startswith(WEB_PREFIX):
        return WEB_TLS_PREFIX + protocol.removeprefix(WEB_PREFIX)
    return f"{protocol}{TLS_SUFFIX}"


def is_over_tls(protocol: str) -> bool:
    """Whether a name is that of a protocol over TLS."""
    return protocol.startswith(WEB_TLS_PREFIX) or protocol.endswith(TLS_SUFFIX)


class ServedProtocol(NamedTuple):
    """A protocol that clients speak with a node.

    name: RabbitMQ's, such as `amqp`. plain, tls: the addresses.
    plain_setting, tls_setting: the settings that give them, as attributes below `Config`.
    tls_options: the section with the certificates, in the same form.
    make_connection: makes the protocol of an accepted client, in the sense of asyncio.
    """

    name: str
    plain: Sequence[Listener]
    tls: Sequence[Listener]
    plain_setting: str
    tls_setting: str
    make_connection: Callable[[], asyncio.BaseProtocol]
    tls_options: str = "tls.options"


class ClientListeners:
    """The open listeners. certificates: watches the files of the TLS options."""

    def __init__(self, config: Config, certificates: CertificateWatcher) -> None:
        self._config = config
        self._certificates = certificates
        self._contexts: dict[str, ServerContext] = {}
        self._acceptors: dict[str, list[Acceptor]] = {}
        self._protocols: list[ServedProtocol] = []
        self._is_suspended = False

    def open(self, protocol: ServedProtocol) -> None:
        """Accept the protocol's clients; while suspended, from `resume` on. Raises SettingError."""
        if self._is_suspended:
            self._protocols.append(protocol)
            return
        for listener in protocol.plain:
            self._open_one(protocol, protocol.name, protocol.plain_setting, listener, None)
        for listener in protocol.tls:
            context = self._tls_context(protocol.tls_options)
            self._open_one(
                protocol, over_tls(protocol.name), protocol.tls_setting, listener, context
            )
        self._protocols.append(protocol)

    def _open_one(
        self,
        protocol: ServedProtocol,
        name: str,
        setting: str,
        listener: Listener,
        context: ServerContext | None,
    ) -> None:
        try:
            opened = open_listener(listener, self._config, protocol.make_connection, context)
        except OSError as error:
            raise SettingError(setting, error.strerror or str(error)) from None
        self._acceptors.setdefault(name, []).extend(opened)

    def _tls_context(self, section: str) -> ServerContext:
        context = self._contexts.get(section)
        if context is None:
            options: TlsListenerOptions = attrgetter(section)(self._config)
            context = self._contexts[section] = context_of(section, options)
            self._certificates.watch(context, options)
        return context

    def close_protocol(self, name: str) -> set[int]:
        """Accept no more clients of a protocol; the ports that it had."""
        ports = set()
        for protocol in [one for one in self._protocols if one.name == name]:
            self._protocols.remove(protocol)
            ports |= {listener.port for listener in (*protocol.plain, *protocol.tls)}
        for each in (name, over_tls(name)):
            for acceptor in self._acceptors.pop(each, ()):
                acceptor.close()
                ports.add(acceptor.port)
        return ports - {0}

    def suspend(self) -> None:
        """Accept no new clients until `resume`; open connections are not affected."""
        if self._is_suspended:
            return
        self._is_suspended = True
        self._protocols = [
            one._replace(plain=self.of(one.name), tls=self.of(over_tls(one.name)))
            for one in self._protocols
        ]
        self.close()

    def resume(self) -> None:
        """Accept clients again, on the same ports. Raises SettingError, and stays suspended."""
        if not self._is_suspended:
            return
        protocols, self._protocols = self._protocols, []
        self._is_suspended = False
        try:
            for protocol in protocols:
                self.open(protocol)
        except SettingError:
            self._protocols = protocols
            self._is_suspended = True
            self.close()
            raise

    def close(self) -> None:
        """Stop accepting clients."""
        for acceptors in self._acceptors.values():
            for acceptor in acceptors:
                acceptor.close()
        self._acceptors.clear()

    def of(self, name: str) -> list[Listener]:
        """The addresses on which clients can connect with a protocol, or with one and TLS.

        They have the ports that the system chose.
        """
        return [Listener(one.host, one.port) for one in self._acceptors.get(name, ())]

    @property
    def addresses(self) -> list[tuple[str, Listener]]:
        """Each protocol with each of its addresses; one over TLS has a name of its own."""
        return [(name, listener) for name in self._acceptors for listener in self.of(name)]

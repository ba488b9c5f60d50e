"""Everything of management that a served node has: the HTTP API, its pages, the control socket.

What cannot listen stops the start, as an AMQP port would: an operator who asked for a port and does
not get it should hear of it at once.
"""

import logging
from pathlib import Path

from broker.config import Listener
from broker.config.tls_settings import TlsOptions
from broker.net.tls import make_server_context
from broker.net.tls_session import ServerContext
from broker.server import Broker
from mgmt.api.server import ManagementServer
from mgmt.definitions import DefinitionsError, Import, read_definitions
from mgmt.metrics.server import MetricsServer
from mgmt.node import CertificateFiles, Node

logger = logging.getLogger("leveret.management")


class Management:
    """The servers of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._server = ManagementServer(node)
        self._metrics = MetricsServer(node)
        self._contexts: list[tuple[ServerContext, TlsOptions]] = []

    async def broker_started(self, broker: Broker) -> None:
        """The broker listens, for the first time or again."""
        config, node = self._node.config, self._node
        kept = [(name, one) for name, one in node.listeners if not name.startswith("amqp")]
        amqp = [("amqp", one) for one in broker.listening_on]
        amqps = [("amqp/ssl", one) for one in broker.tls_listening_on]
        node.listeners = [*amqp, *amqps, *kept]
        if amqps:
            self._note_certificates("amqp/ssl", config.tls_options())
        for context, options in self._contexts:
            broker.certificates.watch(context, options)
        if config.definitions_file is not None:
            await self._load_definitions(broker, config.definitions_file)

    async def _load_definitions(self, broker: Broker, path: Path) -> None:
        """Import a file at the start. Raises OSError if it cannot be read or makes no sense."""
        try:
            give_way = self._node.give_way
            definitions = await read_definitions(path.read_bytes(), None, give_way)
            await Import(broker, definitions, give_way).run()
        except DefinitionsError as error:
            problems = "".join(f"\n  {path}: {reason}" for path, reason in error.problems)
            raise OSError(
                f"the definitions in {path} cannot be loaded: {error}{problems}"
            ) from None
        logger.info("the definitions in %s were loaded", path)

    async def start_control(self) -> None:
        """Listen on the control socket, while the broker may still be starting. Raises OSError."""
        if self._node.data_dir is not None:
            await self._server.listen_for_control(self._node.data_dir)

    async def start(self) -> None:
        """Listen for the HTTP API and the metrics. Raises OSError and TlsError."""
        config, node = self._node.config, self._node
        first = ("https", "management_tls") if config.management_listener_ssl else ("http", None)
        for protocol, server, host, port, prefix in (
            (first[0], self._server, config.management_bind, config.management_port, first[1]),
            ("https", self._server, config.management_tls_bind, config.management_tls_port,
             "management_tls"),
            ("http/prometheus", self._metrics, config.prometheus_bind, config.prometheus_port,
             None),
            ("https/prometheus", self._metrics, config.prometheus_tls_bind,
             config.prometheus_tls_port, "prometheus_tls"),
        ):  # fmt: skip
            if port:
                context = None if prefix is None else self._context(protocol, prefix)
                listener = await server.listen(Listener(host, port), context)
                node.listeners.append((protocol, listener))

    def _context(self, protocol: str, prefix: str) -> ServerContext:
        """What a port speaks TLS with; replaced files count without a restart."""
        options = self._node.config.tls_options(prefix)
        context = make_server_context(options)
        self._contexts.append((context, options))
        if self._node.broker is not None:
            self._node.broker.certificates.watch(context, options)
        self._note_certificates(protocol, options)
        return context

    def _note_certificates(self, protocol: str, options: TlsOptions) -> None:
        files = CertificateFiles(options.certfile, options.cacertfile)
        self._node.certificates[protocol] = files

    async def stop(self) -> None:
        """Listen no more."""
        await self._server.close()
        await self._metrics.close()

"""Everything of management that a served node has: the HTTP API, its pages, the control socket.

What cannot listen stops the start, as an AMQP port would: an operator who asked for a port and does
not get it should hear of it at once.
"""

import logging
from pathlib import Path

import msgspec

from broker.config import Listener
from broker.net.tls import make_server_context
from broker.server import Broker
from mgmt.api.server import ManagementServer
from mgmt.definitions import DefinitionsError, Import
from mgmt.metrics.server import MetricsServer
from mgmt.node import Node

logger = logging.getLogger("leveret.management")


class Management:
    """The servers of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._server = ManagementServer(node)
        self._metrics = MetricsServer(node)

    async def broker_started(self, broker: Broker) -> None:
        """The broker listens, for the first time or again."""
        config, node = self._node.config, self._node
        kept = [(name, one) for name, one in node.listeners if not name.startswith("amqp")]
        amqp = [("amqp", one) for one in broker.listening_on]
        amqps = [("amqp/ssl", one) for one in broker.tls_listening_on]
        node.listeners = [*amqp, *amqps, *kept]
        if amqps and config.tls_certfile is not None:
            node.certificates["amqp/ssl"] = config.tls_certfile
        if config.definitions_file is not None:
            await self._load_definitions(broker, config.definitions_file)

    async def _load_definitions(self, broker: Broker, path: Path) -> None:
        """Import a file at the start. Raises OSError if it cannot be read or makes no sense."""
        try:
            content = msgspec.json.decode(path.read_bytes())
            await Import(broker, content).run()
        except (msgspec.DecodeError, DefinitionsError) as error:
            raise OSError(f"the definitions in {path} cannot be loaded: {error}") from None
        logger.info("the definitions in %s were loaded", path)

    async def start(self) -> None:
        """Listen. Raises OSError and TlsError."""
        config, node = self._node.config, self._node
        if node.data_dir is not None:
            await self._server.listen_for_control(node.data_dir)
        if config.management_port:
            wanted = Listener(config.management_bind, config.management_port)
            node.listeners.append(("http", await self._server.listen(wanted)))
        if config.management_tls_port:
            options = config.tls_options("management_tls")
            context = make_server_context(options)
            if node.broker is not None:
                node.broker.certificates.watch(context, options)
            wanted = Listener(config.management_tls_bind, config.management_tls_port)
            node.listeners.append(("https", await self._server.listen(wanted, context)))
            if options.certfile is not None:
                node.certificates["https"] = options.certfile
        if config.prometheus_port:
            wanted = Listener(config.prometheus_bind, config.prometheus_port)
            node.listeners.append(("http/prometheus", await self._metrics.listen(wanted)))

    async def stop(self) -> None:
        """Listen no more."""
        await self._server.close()
        await self._metrics.close()

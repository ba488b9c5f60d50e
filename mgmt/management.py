"""The management servers of a node: the HTTP API with its pages, the metrics, the control socket.

If a server cannot listen on its port, the node does not start, as with an AMQP port: the operator
learns at once that a configured port is not available.
"""

import logging
import os
from functools import partial
from operator import attrgetter
from pathlib import Path

import aiofiles

from leveret.broker.config import Listener, SettingError
from leveret.broker.config.tls_settings import TlsListenerOptions
from leveret.broker.declarations.requester import Requester
from leveret.broker.net.client_listeners import is_over_tls
from leveret.broker.net.tls import context_of
from leveret.broker.net.tls_session import ServerContext
from leveret.broker.node.broker import Broker
from leveret.broker.runtime.names import NODE_ITSELF
from leveret.mgmt.api.passed_answers import answer_other_nodes
from leveret.mgmt.api.server import ManagementServer
from leveret.mgmt.definitions import DefinitionsError, Import, read_definitions
from leveret.mgmt.definitions.contents import NOT_JSON, fault_in_json
from leveret.mgmt.metrics.server import MetricsServer
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.running_node import CertificateFiles, RunningNode
from leveret.mgmt.views.cluster import answer_questions

logger = logging.getLogger("leveret.management")


class Management:
    """The servers of one node."""

    def __init__(self, node: RunningNode) -> None:
        self._node = node
        self._server = ManagementServer(node)
        self._metrics = MetricsServer(node)
        self._listeners: list[tuple[str, Listener]] = []
        self._contexts: list[tuple[ServerContext, TlsListenerOptions]] = []

    async def broker_started(self, broker: Broker) -> None:
        """Register the broker's listeners, and load definitions. Called after each start."""
        config, node = self._node.config, self._node
        self._note_listeners(broker)
        broker.plugins.listen(partial(self._note_listeners, broker))
        for context, options in self._contexts:
            broker.certificates.watch(context, options)
        answer_questions(node)
        answer_other_nodes(node)
        if config.definitions_file is not None:
            await self._load_definitions(broker, config.definitions_file)

    def _note_listeners(self, broker: Broker) -> None:
        node = self._node
        clients = broker.listeners.addresses
        links = [] if node.cluster is None else node.cluster.links.listening_on
        node.listeners = [*(("clustering", one) for one in links), *clients, *self._listeners]
        for protocol in dict(clients):
            if is_over_tls(protocol):
                self._note_certificates(protocol, node.config.tls.options)

    async def _load_definitions(self, broker: Broker, path: Path) -> None:
        """Import a definitions file. Raises SettingError if it cannot be read or is not valid."""
        try:
            give_way = self._node.give_way
            async with aiofiles.open(path, "rb") as file:
                content = await file.read()
            definitions = await read_definitions(content, None, give_way)
            source = Requester(NODE_ITSELF, str(path))
            await Import(NodeFacade(broker), definitions, give_way, source).run()
        except OSError as error:
            reason = f"{path} cannot be read: {error.strerror}"
            raise SettingError("definitions_file", reason) from None
        except DefinitionsError as error:
            raise SettingError("definitions_file", _reason(path, content, error)) from None
        logger.info("the definitions in %s were loaded", path)

    async def start_control(self) -> None:
        """Listen on the control socket, while the broker may still be starting. Raises OSError."""
        if self._node.data_dir is not None:
            await self._server.listen_for_control(self._node.data_dir)

    async def start(self) -> None:
        """Listen for the HTTP API and the metrics. Raises SettingError."""
        node, config = self._node, self._node.config
        management, prometheus = config.management, config.prometheus
        first = ("https", "management") if management.listener_ssl else ("http", None)
        for protocol, server, host, attribute, section in (
            (first[0], self._server, management.bind, "management.port", first[1]),
            ("https", self._server, management.tls_bind, "management.tls_port", "management"),
            ("http/prometheus", self._metrics, prometheus.bind, "prometheus.port", None),
            ("https/prometheus", self._metrics, prometheus.tls_bind, "prometheus.tls_port",
             "prometheus"),
        ):  # fmt: skip
            port: int = attrgetter(attribute)(config)
            if not port:
                continue
            context = None if section is None else self._context(protocol, section)
            try:
                listener = await server.listen(Listener(host, port), context)
            except OSError as error:
                reason = f"cannot listen on {Listener(host, port)}: {os.strerror(error.errno or 0)}"
                raise SettingError(attribute, reason) from None
            self._listeners.append((protocol, listener))
            node.listeners.append((protocol, listener))

    def _context(self, protocol: str, section: str) -> ServerContext:
        """The TLS context of a port, whose files are watched and read again when they change."""
        options: TlsListenerOptions = attrgetter(f"{section}.tls")(self._node.config)
        context = context_of(f"{section}.tls", options)
        self._contexts.append((context, options))
        if self._node.broker is not None:
            self._node.broker.certificates.watch(context, options)
        self._note_certificates(protocol, options)
        return context

    def _note_certificates(self, protocol: str, options: TlsListenerOptions) -> None:
        files = CertificateFiles(options.certfile, options.cacertfile)
        self._node.certificates[protocol] = files

    async def stop(self) -> None:
        """Stop listening."""
        await self._server.close()
        await self._metrics.close()


def _reason(path: Path, content: bytes, error: DefinitionsError) -> str:
    """Why definitions cannot be loaded, on one line, followed by all problems if there are more."""
    why = fault_in_json(content) if error.reason == NOT_JSON else str(error)
    reason = f"the definitions in {path} cannot be loaded: {why}"
    if len(error.problems) > 1:
        reason += "".join(f"\n  {place}: {problem}" for place, problem in error.problems)
    elif error.problems and not why.startswith(error.problems[0].path):
        reason += f" (at {error.problems[0].path})"
    return reason

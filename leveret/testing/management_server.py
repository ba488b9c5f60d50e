"""Management of an embedded broker: the HTTP API and the web pages, on a port of their own.

It is a module apart because it imports an HTTP server, which most tests do not need.
"""

from leveret.broker.config import Config, Listener
from leveret.broker.node.broker import Broker
from leveret.mgmt.api.server import ManagementServer
from leveret.mgmt.running_node import RunningNode


class EmbeddedManagement:
    """Serves the HTTP API for a running broker. listener: its address, with the port."""

    def __init__(self, config: Config, broker: Broker) -> None:
        self._node = RunningNode(config, lambda: broker, None)
        self._server = ManagementServer(self._node)
        self._broker = broker
        self.listener = Listener("", 0)

    async def start(self, wanted: Listener) -> None:
        """Listen. Raises OSError."""
        self._node.attach(self._broker)
        self._node.listeners = [("amqp", one) for one in self._broker.listening_on]
        self.listener = await self._server.listen(wanted, None)
        self._node.listeners.append(("http", self.listener))

    async def stop(self) -> None:
        """Stop listening, and stop the broker."""
        await self._server.close()
        await self._node.stop_broker()

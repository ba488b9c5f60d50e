"""The default exchange: every queue is bound to it by its own name, and nothing else can be.

It keeps no table; it looks into the vhost's.
"""

from collections.abc import Collection, Mapping

from broker.amqp.field_table import Table
from broker.amqp.properties import ContentHeader
from broker.exchanges.exchange_type import Destination, ExchangeType


class DefaultExchange(ExchangeType):
    """The exchange with the empty name."""

    name = "direct"
    uses_every_key = True

    def __init__(self, queues: Mapping[str, Destination]) -> None:
        """queues: the vhost's queues by name, looked up anew for each message."""
        super().__init__({})
        self._queues = queues

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        """Never called: clients may not bind here."""
        raise NotImplementedError("the default exchange has no bindings of its own")

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        """Never called: clients may not unbind here."""
        raise NotImplementedError("the default exchange has no bindings of its own")

    def route(self, routing_key: str, header: ContentHeader) -> Collection[Destination]:
        """The queue with this name."""
        queue = self._queues.get(routing_key)
        return () if queue is None else (queue,)

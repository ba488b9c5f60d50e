"""The default exchange: every queue is bound to it with its name, and nothing else can be bound.

It has no table of its own: it reads the vhost's queues.
"""

from collections.abc import Iterable, Mapping

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import Table
from leveret.broker.exchanges.exchange_type import Destination, ExchangeType


class DefaultExchange(ExchangeType):
    """The exchange with the empty name."""

    name = "direct"
    uses_every_key = True

    def __init__(self, queues: Mapping[str, Destination]) -> None:
        """queues: the vhost's own dictionary of queues by name."""
        super().__init__({})
        self._queues = queues

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        """Never called: clients may not bind here."""
        raise NotImplementedError("the default exchange has no bindings of its own")

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        """Never called: clients may not unbind here."""
        raise NotImplementedError("the default exchange has no bindings of its own")

    def route(self, routing_key: str, header: ContentHeader) -> Iterable[Destination]:
        """The queue with this name."""
        queue = self._queues.get(routing_key)
        return () if queue is None else (queue,)

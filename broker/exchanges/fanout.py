"""The fanout exchange: a message matches every destination that is bound.

Routing keys and arguments are ignored.
"""

from collections.abc import Iterable

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import Table
from leveret.broker.exchanges.exchange_type import Destination, DestinationCounts, ExchangeType


class Fanout(ExchangeType):
    """Matches everything."""

    name = "fanout"

    def __init__(self, arguments: Table) -> None:
        super().__init__(arguments)
        self._destinations = DestinationCounts()

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self._destinations.add(destination)

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self._destinations.remove(destination)

    def route(self, routing_key: str, header: ContentHeader) -> Iterable[Destination]:
        return tuple(self._destinations)

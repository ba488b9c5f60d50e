"""The direct exchange: a message matches a binding whose key equals its routing key.

A dictionary from key to destinations; routing is one lookup.
"""

from collections.abc import Iterable

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import Table
from leveret.broker.exchanges.exchange_type import Destination, DestinationCounts, ExchangeType


class Direct(ExchangeType):
    """Matches routing keys that are equal."""

    name = "direct"
    uses_every_key = True

    def __init__(self, arguments: Table) -> None:
        super().__init__(arguments)
        self._by_key: dict[str, DestinationCounts] = {}

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self._by_key.setdefault(routing_key, DestinationCounts()).add(destination)

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        destinations = self._by_key[routing_key]
        destinations.remove(destination)
        if not destinations:
            del self._by_key[routing_key]

    def route(self, routing_key: str, header: ContentHeader) -> Iterable[Destination]:
        return tuple(self._by_key.get(routing_key, ()))

"""The modulus hash exchange: each message goes to one destination, by its routing key's hash.

The destination is the binding whose index is the hash modulo the number of bindings. The load is
even, but adding or removing a binding moves nearly every key; `consistent_hash.py` avoids that.
RabbitMQ's sharding uses this type. A destination that is bound several times occurs as often.
"""

from collections.abc import Iterable

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import Table
from leveret.broker.exchanges.exchange_type import (
    Destination,
    ExchangeType,
    ListedDestinations,
)
from leveret.broker.exchanges.stable_hash import stable_hash


class ModulusHash(ExchangeType):
    """Matches one destination, the same for a routing key until the bindings change."""

    name = "x-modulus-hash"

    def __init__(self, arguments: Table) -> None:
        super().__init__(arguments)
        self._destinations = ListedDestinations()

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self._destinations.add(destination)

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self._destinations.remove(destination)

    def route(self, routing_key: str, header: ContentHeader) -> Iterable[Destination]:
        destinations = self._destinations.listed
        if not destinations:
            return ()
        return (destinations[stable_hash(routing_key) % len(destinations)],)

"""The modulus hash exchange: each message goes to one destination, by its routing key's hash.

The destination is the one whose place in the list of bindings is the hash modulo their number. So
the load is even, but a binding added or removed moves nearly every key; where that matters,
`consistent_hash.py` is the better choice. It is the type that sharding uses. A destination that is
bound several times has as many places.
"""

from collections.abc import Collection

from broker.amqp.field_table import Table
from broker.amqp.properties import ContentHeader
from broker.exchanges.exchange_type import Destination, ExchangeType
from broker.exchanges.stable_hash import stable_hash


class ModulusHash(ExchangeType):
    """Matches one destination, the same one for a routing key while the bindings stay."""

    name = "x-modulus-hash"

    def __init__(self, arguments: Table) -> None:
        super().__init__(arguments)
        self._destinations: list[Destination] = []

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self._destinations.append(destination)

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self._destinations.remove(destination)

    def route(self, routing_key: str, header: ContentHeader) -> Collection[Destination]:
        if not self._destinations:
            return ()
        return (self._destinations[stable_hash(routing_key) % len(self._destinations)],)

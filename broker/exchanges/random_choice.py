"""The random exchange: each message goes to one destination, chosen at random.

A destination that is bound several times is chosen more often, in proportion.
"""

import random
from collections.abc import Callable, Iterable, Sequence

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import Table
from leveret.broker.exchanges.exchange_type import (
    Destination,
    ExchangeType,
    ListedDestinations,
)


class RandomChoice(ExchangeType):
    """Matches one random destination."""

    name = "x-random"
    routes_by_key = False

    def __init__(
        self,
        arguments: Table,
        choose: Callable[[Sequence[Destination]], Destination] = random.choice,
    ) -> None:
        super().__init__(arguments)
        self._choose = choose
        self._destinations = ListedDestinations()

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self._destinations.add(destination)

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self._destinations.remove(destination)

    def route(self, routing_key: str, header: ContentHeader) -> Iterable[Destination | None]:
        destinations = self._destinations.listed
        return (self._choose(destinations),) if destinations else ()

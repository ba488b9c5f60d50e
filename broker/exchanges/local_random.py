"""The local random exchange: each message goes to one queue of the publisher's node.

Among the bound queues that live on the node where a message is published, one is chosen at random,
so a message never crosses to another node. Without such a queue the message is unroutable. Source
of the rules and texts: RabbitMQ's `rabbit_exchange_type_local_random`, since 4.0.
"""

from collections.abc import Callable, Iterator, Sequence
from random import choice
from typing import Any

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import Table
from leveret.broker.exchanges.exchange_type import Destination
from leveret.broker.exchanges.random_choice import RandomChoice
from leveret.broker.queues.contract.queue_kind import CLASSIC, QueueKind


class LocalRandom(RandomChoice):
    """Matches one random queue of this node. Bindings are from classic queues, without a key."""

    name = "x-local-random"

    def __init__(
        self,
        arguments: Table,
        choose: Callable[[Sequence[Destination]], Destination] = choice,
    ) -> None:
        super().__init__(arguments, choose)
        self._lives_here: Callable[[Any], bool] = _anywhere

    def serve(self, lives_here: Callable[[Any], bool]) -> None:
        self._lives_here = lives_here

    def validate_binding(self, routing_key: str, arguments: Table) -> None:
        if routing_key:
            raise precondition_failed(f"Non empty binding '{routing_key}' key not permitted")

    def validate_destination(self, queue_kind: QueueKind | None) -> None:
        if queue_kind is None:
            raise precondition_failed("Destination not found")
        if queue_kind.name != CLASSIC:
            raise precondition_failed(
                f"Queue type {queue_kind.module} not valid for this exchange type"
            )

    def route(self, routing_key: str, header: ContentHeader) -> Iterator[Destination | None]:
        here = []
        for destination in self._destinations.listed:
            if self._lives_here(destination):
                here.append(destination)
            yield None
        if here:
            yield self._choose(here)


def _anywhere(_queue: Any) -> bool:
    return True

"""Publishes the messages of a replicated delayed message exchange when their delays are over.

The queue of the exchange keeps a message whose delay is over as if it were a dead letter, until all
queues on its route have confirmed it (worker.py). What differs from a dead letter: it is published
from the exchange as its client sent it, without x-death, and has the negative delay that consumers
know. If it reaches no queue, it is dropped, like any message that is published without `mandatory`.
"""

from leveret.broker.events.taps import Taps
from leveret.broker.exchanges.missing_type import MissingType
from leveret.broker.exchanges.router import Route
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.retained_dead_letters import DeadLetterSource
from leveret.broker.runtime.names import EXCHANGE, resource
from leveret.broker.vhost.dead_letters.worker import (
    AtLeastOnceWorker,
    Letter,
    Publishing,
    WorkerSettings,
    WorkerVhost,
)
from leveret.broker.vhost.routing import release_of


class ReleasingWorker(AtLeastOnceWorker):
    """The worker of one exchange, whose name is given."""

    __slots__ = ("_exchange",)

    def __init__(
        self,
        vhost: WorkerVhost,
        queue: QueueClient,
        source: DeadLetterSource,
        settings: WorkerSettings,
        exchange: str,
    ) -> None:
        super().__init__(vhost, queue, source, settings)
        self._exchange = exchange

    def __repr__(self) -> str:
        return f"the release of messages of {resource(EXCHANGE, self._exchange, self._vhost.name)}"

    def _published(self, letter: Letter) -> Publishing | None:
        """The message after its delay. None while the type of the exchange is not enabled."""
        exchange = self._vhost.exchanges.get(self._exchange)
        if exchange is None or isinstance(exchange.type, MissingType):
            return None
        message, routing_keys, ttl_ms = release_of(letter.kept.message)
        return Publishing(exchange, message, routing_keys, ttl_ms=ttl_ms)

    def _reaches_none(self, letter: Letter, published: Publishing, found: Route) -> None:
        """The message is dropped: the exchange has taken it, and no other target has to."""
        letter.settled.add(published.exchange)

    def _trace(
        self, tracer: Taps, letter: Letter, published: Publishing, queues: list[QueueClient]
    ) -> None:
        tracer.published(None, [published.message], published.routing_keys, queues)

    def _count_settled(self) -> None:
        """It is no dead letter, so it does not count as one."""

    def _warning(self, why: str) -> str:
        what = resource(EXCHANGE, self._exchange, self._vhost.name)
        return f"{what} keeps messages whose delay is over: {why}"

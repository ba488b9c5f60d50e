"""The messages that wait at an exchange of the type x-delayed-message whose queue type is `quorum`.

They are in a quorum queue of the exchange, `amq.delayed-` and its name, which the registry declares
and deletes with it (registry/delaying_queues.py). Clients do not see this queue: it is not among
the queues of its virtual host. A message is published to it with its delay as time to live. When
the delay is over, the node of the queue's leader publishes the message from the exchange
(dead_letters/releasing.py). docs/design/delayed-messages.md has the promises.
"""

import logging
from collections.abc import Mapping
from typing import Protocol

from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_kinds import QueueKinds
from leveret.broker.queues.contract.waiting_retries import WaitingInGroup
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.names import DELAYING_PREFIX, EXCHANGE, resource

logger = logging.getLogger("leveret.exchange")


class DelayingVhost(Protocol):
    """The virtual host of the exchange."""

    name: str
    kinds: QueueKinds
    clock: Clock
    delaying_queues: dict[str, QueueClient]


class ReplicatedDelays:
    """The messages that wait at one exchange, as this node knows them."""

    __slots__ = ("_exchange", "_has_warned", "_vhost")

    def __init__(self, vhost: DelayingVhost, exchange: str) -> None:
        self._vhost: DelayingVhost | None = vhost
        self._exchange = exchange
        self._has_warned = False

    @property
    def queue(self) -> QueueClient | None:
        """The queue that has them; None if it is deleted."""
        queues: Mapping[str, QueueClient] = {}
        if self._vhost is not None:
            queues = self._vhost.delaying_queues
        return queues.get(DELAYING_PREFIX + self._exchange)

    @property
    def here(self) -> WaitingInGroup | None:
        """The messages, if this node leads their queue."""
        queue, vhost = self.queue, self._vhost
        if queue is None or vhost is None:
            return None
        return vhost.kinds.of(queue.kind).waiting_here(queue)

    @property
    def count(self) -> int:
        """The number of messages that wait, if this node leads their queue; otherwise 0."""
        here = self.here
        return 0 if here is None else here.count

    @property
    def next_due_ms(self) -> int | None:
        """When the next message is due, in milliseconds since 1970, if this node leads."""
        here = self.here
        return (here.next_due_ms or None) if here is not None else None

    def add(self, publication: Publication, delay_ms: int) -> None:
        """Keep one message until its delay is over."""
        queue, publisher = self.queue, publication.publisher
        if queue is not None:
            messages, size, first = publication.messages, publication.body_bytes, publication.first
            queue.publish(Publication(messages, size, delay_ms, publisher, first))
            return
        if publisher is not None:
            publisher.refuse(publication.first)
        if not self._has_warned and self._vhost is not None:
            self._has_warned = True
            logger.error(
                "%s refuses messages with a delay: its queue was deleted with the last node that "
                "had a member of it; delete the exchange and declare it again",
                resource(EXCHANGE, self._exchange, self._vhost.name),
            )  # fmt: skip

    def add_for(self, publication: Publication, due_ms: int) -> None:
        """Keep a message until a time of the wall clock."""
        now_ms = 0 if self._vhost is None else int(self._vhost.clock.wall_time_s() * 1000)
        self.add(publication, max(1, due_ms - now_ms))

    def close(self) -> None:
        """The node stops: the queue is closed as others are."""

    def delete(self) -> None:
        """The exchange is deleted, and the queue with it."""
        self._vhost = None

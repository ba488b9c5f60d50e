"""The links of federated queues, for federation.py.

A link runs on the node where its queue lives; that of a mirrored queue, where its leader is.
"""

from collections.abc import Iterable, Mapping, Sequence

from leveret.broker.events.events import Events
from leveret.broker.moving.federation.link import ConnectFrom, RunningLink
from leveret.broker.moving.federation.link_definition import LinkDefinition
from leveret.broker.moving.federation.link_kind import Federated
from leveret.broker.moving.federation.queue_mover import QueueMover
from leveret.broker.moving.federation.status import QUEUE
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.clock import Clock
from leveret.broker.vhost.virtual_host import VirtualHost

INTERNAL_PURPOSE = "x-internal-purpose"
"""The argument of queues that federation itself declares, which are not federated again."""


class QueueLinks:
    """The links of federated queues. vhosts: the node's, by name."""

    kind = QUEUE

    def __init__(
        self,
        vhosts: Mapping[str, VirtualHost],
        connect: ConnectFrom,
        clock: Clock,
        events: Events,
    ) -> None:
        self._vhosts = vhosts
        self._connect = connect
        self._clock = clock
        self._events = events

    def federated(self) -> Iterable[tuple[str, str]]:
        """The queues with a policy."""
        return [
            (vhost.name, queue.name)
            for vhost in self._vhosts.values()
            for queue in vhost.queues.values()
            if queue.policy is not None
        ]

    def find(self, vhost: str, name: str) -> Federated | None:
        """The queue; None for one that federation itself has declared."""
        queue = self._queue(vhost, name)
        if queue is None or queue.arguments.get(INTERNAL_PURPOSE, ("",))[0] == "S":
            return None
        return queue

    def _queue(self, vhost: str, name: str) -> QueueClient | None:
        found = self._vhosts.get(vhost)
        return None if found is None else found.queues.get(name)

    def is_here(self, definition: LinkDefinition, running: Sequence[str]) -> bool:
        """The link runs where the queue lives."""
        place = definition.place
        vhost, queue = self._vhosts.get(place.vhost), self._queue(place.vhost, place.name)
        return vhost is not None and queue is not None and vhost.lives_here(queue)

    def make(self, definition: LinkDefinition) -> RunningLink:
        """A new link, which is started later."""
        queue = self._queue(definition.place.vhost, definition.place.name)
        assert queue is not None, "a link is made for a queue that is there"
        mover = QueueMover(definition, queue, self._clock)
        return RunningLink(definition, self._connect, self._clock, mover, self._events)

"""Which consumer gets the next message: round robin among those of the highest priority with room.

Consumers with room are in rings, one ring for each priority. The one at the front of the first
ring that is not empty is next, and goes to the back. A consumer that turns out to have no room
leaves its ring and is marked as waiting, so that a thousand full consumers cost nothing; `wake`
puts it back. With a single active consumer only that one is ever in a ring.

Source: RabbitMQ's `rabbit_queue_consumers`, and its documentation on consumer priorities and on
single active consumers.
"""

from leveret.broker.queues.queue_client import Consumer


class ConsumerRing:
    """The consumers of one queue.

    consumers: all of them, in the order in which they came.
    active: the one that gets messages, if the queue has a single active consumer.
    """

    __slots__ = (
        "_elects_by_priority", "_in_rings", "_rings", "active", "consumers", "is_single_active",
    )  # fmt: skip

    def __init__(self, is_single_active: bool = False, elects_by_priority: bool = True) -> None:
        self.is_single_active = is_single_active
        self._elects_by_priority = elects_by_priority
        self._rings: dict[int, list[Consumer]] = {}
        self._in_rings = 0
        self.consumers: list[Consumer] = []
        self.active: Consumer | None = None

    def add(self, consumer: Consumer) -> None:
        """Add a consumer, which is taken to have room."""
        self.consumers.append(consumer)
        if self.is_single_active:
            self._elect()
        else:
            self._enter(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer, which must be there."""
        self.consumers.remove(consumer)
        self._leave(consumer)
        if consumer is self.active:
            self.active = None
            self._elect()

    def clear(self) -> list[Consumer]:
        """Remove all consumers, and return them. `wake` does not put them back."""
        consumers, self.consumers = self.consumers, []
        for consumer in consumers:
            consumer.is_waiting = False
        self._rings.clear()
        self._in_rings = 0
        self.active = None
        return consumers

    def wake(self, consumer: Consumer) -> bool:
        """The consumer may have room again; whether it was waiting, and is in its ring now."""
        if not consumer.is_waiting:
            return False
        self._enter(consumer)
        return True

    def next(self) -> Consumer | None:
        """The next consumer; None if no consumer has room."""
        for ring in self._rings.values():
            while ring:
                consumer = ring[0]
                if consumer.room() > 0:
                    if len(ring) > 1:
                        ring.append(ring.pop(0))
                    return consumer
                consumer.is_waiting = True
                del ring[0]
                self._in_rings -= 1
        return None

    @property
    def has_candidates(self) -> bool:
        """A consumer may have room."""
        return self._in_rings > 0

    @property
    def has_one_candidate(self) -> bool:
        """Exactly one consumer may have room, so that it can be given many messages at once."""
        return self._in_rings == 1

    def may_add(self, consumer: Consumer) -> bool:
        """Whether neither it nor one of the others wants the queue for itself.

        A queue with a single active consumer cannot be used exclusively.
        """
        if consumer.is_exclusive and (self.consumers or self.is_single_active):
            return False
        return not any(other.is_exclusive for other in self.consumers)

    def _elect(self) -> None:
        """Of several consumers the first one, or the first of the highest priority, is active."""
        if self.active is not None or not self.consumers:
            return
        self.active = self.consumers[0]
        if self._elects_by_priority:
            self.active = max(self.consumers, key=lambda consumer: consumer.priority)
        self._enter(self.active)

    def _enter(self, consumer: Consumer) -> None:
        consumer.is_waiting = False
        if consumer.priority not in self._rings:
            self._rings[consumer.priority] = []
            self._rings = dict(sorted(self._rings.items(), reverse=True))
        self._rings[consumer.priority].append(consumer)
        self._in_rings += 1

    def _leave(self, consumer: Consumer) -> None:
        consumer.is_waiting = False
        ring = self._rings.get(consumer.priority)
        if ring is not None and consumer in ring:
            ring.remove(consumer)
            self._in_rings -= 1
            if not ring:
                del self._rings[consumer.priority]

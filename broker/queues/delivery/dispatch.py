"""Which consumer gets the next message: round robin among those of the highest priority with room.

Consumers with room are in rings, one ring for each priority. The consumer at the front of the ring
of the highest priority is next, and goes to the back. A consumer that turns out to have no room
leaves its ring and is marked as waiting, so that a thousand full consumers cost nothing; `wake`
puts it back.
With a single active consumer only the active one is ever in a ring. No operation takes longer with
many consumers or priorities, except listing them.

Source: RabbitMQ's `rabbit_queue_consumers`, and its documentation on consumer priorities and on
single active consumers.
"""

from bisect import bisect_left, insort
from collections import OrderedDict

from leveret.broker.queues.contract.queue_client import Consumer


class PriorityRings:
    """Consumers in rings, by priority. count: the number in all rings.

    head: the consumer at the front of the ring of the highest priority; None if there are none. It
    is kept, since finding it costs more than the rest of giving one message to one consumer.
    """

    __slots__ = ("_front", "_priorities", "_rings", "count", "head")

    def __init__(self) -> None:
        self._rings: dict[int, OrderedDict[Consumer, None]] = {}
        self._priorities: list[int] = []
        self.count = 0
        # The ring of the highest priority. Another ring is removed when it is empty.
        self._front: OrderedDict[Consumer, None] = OrderedDict()
        self.head: Consumer | None = None

    def add(self, consumer: Consumer, priority: int) -> None:
        """Put a consumer, which is in no ring, at the back of its ring."""
        ring = self._rings.get(priority)
        if ring is None:
            if not self.count:
                self._rings.clear()
                self._priorities.clear()
            ring = self._rings[priority] = OrderedDict()
            insort(self._priorities, priority)
            self._front = self._rings[self._priorities[-1]]
        ring[consumer] = None
        self.count += 1
        self._find_head()

    def discard(self, consumer: Consumer, priority: int) -> None:
        """Remove a consumer, if it is in a ring."""
        ring = self._rings.get(priority)
        if ring is None or consumer not in ring:
            return
        del ring[consumer]
        self.count -= 1
        if not ring and self.count:
            del self._rings[priority]
            del self._priorities[bisect_left(self._priorities, priority)]
            self._front = self._rings[self._priorities[-1]]
        self._find_head()

    def rotate(self) -> None:
        """The consumer at the front goes to the back of its ring."""
        head = self.head
        if head is not None and len(self._front) > 1:
            self._front.move_to_end(head)
            self._find_head()

    def _find_head(self) -> None:
        self.head = None
        for consumer in self._front:  # In compiled code `next` is looked up and called.
            self.head = consumer
            return


class ConsumerRing:
    """The consumers of one queue.

    consumers: all of them, in the order in which they came.
    active: the one that gets messages, if the queue has a single active consumer.
    """

    __slots__ = (
        "_rings", "_standby", "active", "consumers", "is_single_active",
    )  # fmt: skip

    def __init__(self, is_single_active: bool = False) -> None:
        self.is_single_active = is_single_active
        self._rings = PriorityRings()
        self._standby = PriorityRings()
        self.consumers: dict[Consumer, None] = {}
        self.active: Consumer | None = None

    def add(self, consumer: Consumer) -> None:
        """Add a consumer, which is assumed to have room."""
        self.consumers[consumer] = None
        if self.is_single_active:
            self._standby.add(consumer, consumer.priority)
            self._elect()
        else:
            self._enter(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer, which must be there."""
        del self.consumers[consumer]
        self._standby.discard(consumer, consumer.priority)
        self._rings.discard(consumer, consumer.priority)
        consumer.is_waiting = False
        if consumer is self.active:
            self.active = None
            self._elect()

    def clear(self) -> list[Consumer]:
        """Remove all consumers, and return them. `wake` does not put them back."""
        consumers = list(self.consumers)
        self.consumers = {}
        for consumer in consumers:
            consumer.is_waiting = False
        self._rings = PriorityRings()
        self._standby = PriorityRings()
        self.active = None
        return consumers

    def wake(self, consumer: Consumer) -> bool:
        """The consumer may have room again; whether it was waiting and is now in its ring."""
        if not consumer.is_waiting:
            return False
        self._enter(consumer)
        return True

    def next(self) -> Consumer | None:
        """The next consumer; None if no consumer has room."""
        rings = self._rings
        while (consumer := rings.head) is not None:
            if consumer.room() > 0:
                if rings.count > 1:
                    rings.rotate()
                return consumer
            self._set_waiting(consumer)
        return None

    def has_room(self, priority_min: int) -> bool:
        """Whether a consumer of at least this priority has room now. Full ones wait from now on."""
        rings = self._rings
        while (consumer := rings.head) is not None and consumer.priority >= priority_min:
            if consumer.room() > 0:
                return True
            self._set_waiting(consumer)
        return False

    def _set_waiting(self, consumer: Consumer) -> None:
        consumer.is_waiting = True
        self._rings.discard(consumer, consumer.priority)

    @property
    def has_candidates(self) -> bool:
        """A consumer may have room."""
        return self._rings.count > 0

    @property
    def has_one_candidate(self) -> bool:
        """Exactly one consumer may have room, so that it can be given many messages at once."""
        return self._rings.count == 1

    def may_add(self, consumer: Consumer) -> bool:
        """Whether neither this consumer nor another one of the queue is exclusive.

        A queue with a single active consumer cannot be used exclusively.
        """
        if consumer.is_exclusive and (self.consumers or self.is_single_active):
            return False
        # An exclusive consumer is the only one.
        return len(self.consumers) != 1 or not next(iter(self.consumers)).is_exclusive

    def _elect(self) -> None:
        """The first consumer is active, or the first one of the highest priority."""
        if self.active is None and self._standby.head is not None:
            self.active = self._standby.head
            self._enter(self.active)

    def _enter(self, consumer: Consumer) -> None:
        consumer.is_waiting = False
        self._rings.add(consumer, consumer.priority)

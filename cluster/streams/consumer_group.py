"""A group of single active consumers of a stream: which of them is active. Pure.

The leader of the stream decides, so it sees all consumers with one name. A change has two steps:
the active consumer is told to stop, and answers when it has; then the next one begins, from the
offset that the former one has stored.

In a stream that is a partition of a super stream, the number of the partition chooses the
consumer, so that the partitions of a super stream are spread over the members of a group
(rabbit_stream_sac_coordinator.erl). Otherwise the first consumer stays active.

Invariants:

CGR1  At most one consumer is active, or stopping.
CGR2  A consumer is active if there is one, and none is stopping.
"""

from typing import NamedTuple

NO_PARTITION = -1


class Update(NamedTuple):
    """A consumer has to begin, or to stop."""

    consumer: str
    is_active: bool


class ConsumerGroup:
    """The consumers with one name, in the order in which they joined.

    partition: the number of the stream in its super stream, from 0; `NO_PARTITION` if it is in
    none. active: the consumer that reads; "" if there is none, or if it is stopping. stopping: the
    one that was told to stop and has not answered.
    """

    def __init__(self, partition: int = NO_PARTITION) -> None:
        self.partition = partition
        self.consumers: list[str] = []
        self.active = self.stopping = ""

    def join(self, consumer: str, *, is_active: bool = False) -> list[Update]:
        """Add a consumer. is_active: an earlier leader has made it the active one."""
        self.consumers.append(consumer)
        if is_active and not self.active and not self.stopping:
            self.active = consumer
        return self._decide()

    def leave(self, consumer: str) -> list[Update]:
        """Remove a consumer."""
        self.consumers.remove(consumer)
        if self.active == consumer:
            self.active = ""
        if self.stopping == consumer:
            self.stopping = ""
        return self._decide()

    def stopped(self, consumer: str) -> list[Update]:
        """A consumer that was told to stop has stopped. Otherwise it does nothing."""
        if self.stopping != consumer:
            return []
        self.stopping = ""
        return self._decide()

    def _decide(self) -> list[Update]:
        if self.stopping or not self.consumers:
            return []
        wanted = self._wanted()
        if wanted == self.active:
            return []
        if self.active:
            self.stopping, self.active = self.active, ""
            update = Update(self.stopping, is_active=False)
        else:
            self.active = wanted
            update = Update(wanted, is_active=True)
        assert not (self.active and self.stopping), "CGR1"
        return [update]

    def _wanted(self) -> str:
        if self.partition == NO_PARTITION:
            return self.active or self.consumers[0]
        return self.consumers[self.partition % len(self.consumers)]

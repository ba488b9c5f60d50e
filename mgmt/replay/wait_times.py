"""How long each message waited in each queue, from its publish to its first delivery. Pure.

A message is identified by a number: the trace's own, or its place in a replay. The number of
undelivered messages that are remembered is limited; messages beyond the limit are only counted.
"""

from dataclasses import dataclass, field

from leveret.mgmt.perf.histogram import LatencyHistogram

QUEUES_MAX = 1_000
"""Limit of queues that are measured."""
FOLLOWED_MAX = 500_000
"""Limit of messages that wait at the same time, in all queues."""


@dataclass(slots=True)
class QueueWaits:
    """A queue. came: messages routed to it. taken: the waits of delivered messages, in
    microseconds.

    waiting: the publish times of the others, in microseconds, by message number.
    """

    came: int = 0
    taken: LatencyHistogram = field(default_factory=LatencyHistogram)
    waiting: dict[int, int] = field(default_factory=dict)


@dataclass
class WaitTimes:
    """All queues. unfollowed: messages beyond the limits, which are not measured."""

    queues: dict[str, QueueWaits] = field(default_factory=dict)
    unfollowed: int = 0
    _waiting: int = 0

    def came(self, queue: str, number: int, time_us: int) -> None:
        """Note that a message was routed to a queue."""
        waits = self.queues.get(queue)
        if waits is None:
            if len(self.queues) >= QUEUES_MAX:
                self.unfollowed += 1
                return
            waits = self.queues[queue] = QueueWaits()
        waits.came += 1
        if self._waiting >= FOLLOWED_MAX:
            self.unfollowed += 1
            return
        waits.waiting[number] = time_us
        self._waiting += 1

    def left(self, queue: str, number: int, time_us: int, is_delivered: bool = True) -> None:
        """Note that a message left a queue. Unknown messages are ignored."""
        waits = self.queues.get(queue)
        came_us = None if waits is None else waits.waiting.pop(number, None)
        if waits is None or came_us is None:
            return
        self._waiting -= 1
        if is_delivered:
            waits.taken.add(time_us - came_us)

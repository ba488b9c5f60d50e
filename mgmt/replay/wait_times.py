"""How long each message waited in each queue, from its publish to its first delivery. Pure.

A message is known by a number: the trace's own, or its place in the trace in a replay. Those that
are not delivered yet are remembered, up to a limit; what is beyond it is counted, and not followed.
"""

from dataclasses import dataclass, field

from mgmt.perf.histogram import Histogram

QUEUES_MAX = 1_000
"""Queues that are told apart."""
FOLLOWED_MAX = 500_000
"""Messages that wait at the same time, in all queues."""


@dataclass(slots=True)
class QueueWaits:
    """A queue. came: messages that were routed to it. taken: the waits of those delivered, in µs.

    waiting: since when the others wait, in microseconds, by their numbers.
    """

    came: int = 0
    taken: Histogram = field(default_factory=Histogram)
    waiting: dict[int, int] = field(default_factory=dict)


@dataclass
class WaitTimes:
    """All queues. unfollowed: messages beyond the limit, of which nothing is known."""

    queues: dict[str, QueueWaits] = field(default_factory=dict)
    unfollowed: int = 0
    _waiting: int = 0

    def came(self, queue: str, number: int, time_us: int) -> None:
        """A message was routed to a queue."""
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
        """A message waits no more. What did not come, or left before, does not count."""
        waits = self.queues.get(queue)
        came_us = None if waits is None else waits.waiting.pop(number, None)
        if waits is None or came_us is None:
            return
        self._waiting -= 1
        if is_delivered:
            waits.taken.add(time_us - came_us)

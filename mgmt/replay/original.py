"""Counts of what happened in the trace, to which a replay is compared. Pure.

The time that messages waited in a queue follows from its depth alone: the sum of all waits is the
depth integrated over time (Little's law). So no single messages have to be kept, and the target's
queues, of which only the depth can be queried, are measured in the same way. If the target is
measured message by message, so is the trace (`WaitTimes`).
"""

from collections import Counter
from dataclasses import dataclass, field

from leveret.mgmt.replay.wait_times import QUEUES_MAX, WaitTimes

KEYS_MAX = 10_000
"""Pairs of exchange and routing key that are counted separately."""

Address = tuple[str, str]
"""Exchange and routing key."""


@dataclass(slots=True)
class Waits:
    """A queue's depth, integrated over time. Times are microseconds."""

    came: int = 0
    depth: int = 0
    depth_max: int = 0
    waited_us: float = 0.0
    _changed_us: int = 0

    def change(self, by: int, time_us: int) -> None:
        """Add messages, or remove them if `by` is negative; the depth does not fall below 0."""
        if by > 0:
            self.came += by
        self.measure(max(0, self.depth + by), time_us)

    def measure(self, depth: int, time_us: int) -> None:
        """Set the depth from this time on."""
        if time_us > self._changed_us:
            self.waited_us += self.depth * (time_us - self._changed_us)
            self._changed_us = time_us
        self.depth = depth
        self.depth_max = max(self.depth_max, depth)

    def mean_us(self, came: int | None = None) -> float | None:
        """Return the mean wait of this number of messages, by default of all; None for 0."""
        count = self.came if came is None else came
        return self.waited_us / count if count else None


@dataclass
class Tally:
    """Counts by exchange and routing key, of which only the first KEYS_MAX are kept apart."""

    counts: Counter[Address] = field(default_factory=Counter)
    others: int = 0

    def add(self, exchange: str, key: str) -> None:
        """Count a message."""
        if (exchange, key) in self.counts or len(self.counts) < KEYS_MAX:
            self.counts[exchange, key] += 1
        else:
            self.others += 1

    @property
    def total(self) -> int:
        """The number of messages."""
        return self.counts.total() + self.others


@dataclass
class Original:
    """Counts for the window.

    sent_to: replayed messages by queue. wait_times: the waits of each message, if measured.
    """

    wait_times: WaitTimes | None = None
    waits: dict[str, Waits] = field(default_factory=dict)
    sent_to: Counter[str] = field(default_factory=Counter)
    unrouted: Tally = field(default_factory=Tally)
    _first: dict[str, int] = field(default_factory=dict)

    def routed(self, node: str, message: int, queues: list[str], time_us: int) -> None:
        """Count a message that was routed to queues."""
        self._first.setdefault(node, message)
        for queue in queues:
            waits = self.waits_of(queue)
            if waits is not None:
                waits.change(1, time_us)

    def left(self, node: str, message: int, queue: str, time_us: int, is_delivered: bool) -> None:
        """Count a message that left a queue, unless it came before the window."""
        if message >= self._first.get(node, 1 << 64) and queue in self.waits:
            self.waits[queue].change(-1, time_us)
            if self.wait_times is not None:
                self.wait_times.left(queue, message, time_us, is_delivered)

    def replayed(
        self, exchange: str, key: str, queues: list[str], message: int, time_us: int
    ) -> None:
        """Count a message that is replayed."""
        for queue in queues:
            if self.waits_of(queue) is not None:
                self.sent_to[queue] += 1
                if self.wait_times is not None and message:
                    self.wait_times.came(queue, message, time_us)
        if not queues:
            self.unrouted.add(exchange, key)

    def waits_of(self, queue: str) -> Waits | None:
        """Return a queue's waits; None if there are too many queues."""
        waits = self.waits.get(queue)
        if waits is None and len(self.waits) < QUEUES_MAX:
            waits = self.waits[queue] = Waits()
        return waits

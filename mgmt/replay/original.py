"""What the trace says that happened, as counts: the half that a replay is compared with. Pure.

How long messages waited in a queue is known from its depth alone: the time that all of them waited
is the depth added up over time (Little's law). So nothing has to be kept of single messages, and
the replay's own queues, of which only the depth can be asked, are measured in the same way. Where
the target's are measured message by message, so are those of the trace (`WaitTimes`).
"""

from collections import Counter
from dataclasses import dataclass, field

from mgmt.replay.wait_times import QUEUES_MAX, WaitTimes

KEYS_MAX = 10_000
"""Pairs of exchange and routing key that are told apart."""

Address = tuple[str, str]
"""Exchange and routing key."""


@dataclass(slots=True)
class Waits:
    """A queue's depth, added up over time. Times are microseconds."""

    came: int = 0
    depth: int = 0
    depth_max: int = 0
    waited_us: float = 0.0
    _changed_us: int = 0

    def change(self, by: int, time_us: int) -> None:
        """Messages came, or left if `by` is negative. One more than there were cannot leave."""
        if by > 0:
            self.came += by
        self.measure(max(0, self.depth + by), time_us)

    def measure(self, depth: int, time_us: int) -> None:
        """The queue has so many messages from here on."""
        if time_us > self._changed_us:
            self.waited_us += self.depth * (time_us - self._changed_us)
            self._changed_us = time_us
        self.depth = depth
        self.depth_max = max(self.depth_max, depth)

    def mean_us(self, came: int | None = None) -> float | None:
        """How long a message waited on average, of so many that came; None of none."""
        count = self.came if came is None else came
        return self.waited_us / count if count else None


@dataclass
class Tally:
    """Counts by exchange and routing key, of which there may be too many to keep all."""

    counts: Counter[Address] = field(default_factory=Counter)
    others: int = 0

    def add(self, exchange: str, key: str) -> None:
        """One more."""
        if (exchange, key) in self.counts or len(self.counts) < KEYS_MAX:
            self.counts[exchange, key] += 1
        else:
            self.others += 1

    @property
    def total(self) -> int:
        """All of them."""
        return self.counts.total() + self.others


@dataclass
class Original:
    """What happened in the window.

    sent_to: messages by queue, of those that are replayed. wait_times: theirs, if wanted.
    """

    wait_times: WaitTimes | None = None
    waits: dict[str, Waits] = field(default_factory=dict)
    sent_to: Counter[str] = field(default_factory=Counter)
    unrouted: Tally = field(default_factory=Tally)
    _first: dict[str, int] = field(default_factory=dict)

    def routed(self, node: str, message: int, queues: list[str], time_us: int) -> None:
        """A message came into queues."""
        self._first.setdefault(node, message)
        for queue in queues:
            waits = self.waits_of(queue)
            if waits is not None:
                waits.change(1, time_us)

    def left(self, node: str, message: int, queue: str, time_us: int, is_delivered: bool) -> None:
        """A message waits there no more. What came before the window is not of it."""
        if message >= self._first.get(node, 1 << 64) and queue in self.waits:
            self.waits[queue].change(-1, time_us)
            if self.wait_times is not None:
                self.wait_times.left(queue, message, time_us, is_delivered)

    def replayed(
        self, exchange: str, key: str, queues: list[str], message: int, time_us: int
    ) -> None:
        """A message that is published once more."""
        for queue in queues:
            if self.waits_of(queue) is not None:
                self.sent_to[queue] += 1
                if self.wait_times is not None and message:
                    self.wait_times.came(queue, message, time_us)
        if not queues:
            self.unrouted.add(exchange, key)

    def waits_of(self, queue: str) -> Waits | None:
        """A queue's waits; None if there are too many queues."""
        waits = self.waits.get(queue)
        if waits is None and len(self.waits) < QUEUES_MAX:
            waits = self.waits[queue] = Waits()
        return waits

"""What an incident is: a script, what a report must say of it, what it may say, and what not.

A finding that no `must` and no `may` covers is a false alarm. Incidents are made without regard to
how findings are found. A quarter of them, chosen by a checksum of their names, are held out: the
finders are not tuned on them.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

from tests.analytics.incidents.simulated_broker import Broker
from tests.analytics.incidents.simulated_clients import Consumer, Getter, Publisher

# What a finding may be about.
STALLED, SLOW, NO_CONSUMER, BACKLOG, WAITS = (
    "stalled_consumer", "slow_consumer", "no_consumer", "backlog", "waits",
)  # fmt: skip
HOT_QUEUE, HOT_KEY, CIRCLE, POISON, BURST = "hot_queue", "hot_key", "circle", "poison", "burst"
PREFETCH_HIGH, PREFETCH_LOW, CHURN = "prefetch_high", "prefetch_low", "churn"
EXPIRED, OVERFLOW, REJECTED, REMOVED = "expired", "overflow", "rejected", "removed"
DEAD_LETTERS, LOST_LETTERS, UNROUTABLE = "dead_letters", "lost_dead_letters", "unroutable"
DUPLICATES, GAP = "duplicates", "gap"
STARVED, OUT_OF_ORDER, REPLAY = "starved", "out_of_order", "replay"
LATE_REPLIES = "late_replies"
FALLS_BEHIND, OVERTAKEN = "falls_behind", "overtaken"

SYMPTOMS = (WAITS, BACKLOG)
"""What follows from most incidents of consumers, and may be said of the same queue."""


@dataclass(frozen=True)
class Says:
    """A finding: its kind, the name of what it is about, and when it begins and ends.

    Times are seconds since the trace begins; None if it does not matter. within_s: how far the
    times may be off. words: what its text must contain, such as a consumer or a number.
    """

    kind: str
    about: str
    since_s: float | None = None
    until_s: float | None = None
    words: tuple[str, ...] = ()
    within_s: float | None = None


@dataclass(frozen=True)
class Incident:
    """An incident. unsaid: words that no finding may contain."""

    name: str
    story: str
    script: Callable[["Day"], None]
    length_s: float
    begins_s: float
    must: tuple[Says, ...]
    may: tuple[Says, ...]
    unsaid: tuple[str, ...]

    @property
    def is_quiet(self):
        return not self.must

    @property
    def is_held_out(self):
        return zlib.crc32(self.name.encode()) % 4 == 0

    def records(self):
        """Return the records of its trace, of a virtual host with its name."""
        broker = Broker(zlib.crc32(self.name.encode()), self.length_s, self.begins_s, self.name)
        self.script(Day(broker))
        return broker.run()


class Day:
    """What a script can do."""

    def __init__(self, broker):
        self.broker = broker
        self.queue, self.bind, self.at = broker.queue, broker.bind, broker.at
        self.length_s = broker.length_s

    def publisher(self, user, key, rate=0.0, exchange="", **options):
        return Publisher(self.broker, user, exchange, key, rate, **options).start()

    def consumer(self, queue, **options):
        return Consumer(self.broker, self._found(queue), **options).start()

    def getter(self, queue, *times_s, **options):
        return Getter(self.broker, self._found(queue), times_s, **options).start()

    def gap(self, at_s, length_s, lost):
        """Records are missing from the trace."""
        until_us = int((at_s + length_s) * 1_000_000)
        begins_us = self.broker._begins_us
        self.broker.at(
            at_s, lambda: self.broker.write("gap", until_us=begins_us + until_us, lost=lost)
        )

    def busy_pair(self, name, rate=1.0, takes_s=0.02, consumers=1, **options):
        """A healthy queue with its publisher and consumers."""
        queue = self.queue(name)
        self.publisher("shop", name, rate)
        for number in range(consumers):
            self.consumer(queue, takes_s=takes_s, tag=f"{name}-{number}", **options)
        return queue

    def _found(self, queue):
        return self.broker.queues[queue] if isinstance(queue, str) else queue


INCIDENTS: dict[str, Incident] = {}


def incident(length_s, must=(), may=(), unsaid=(), begins_s=8 * 3600):
    """Register a script as an incident with the name and docstring of its function.

    may: kinds, which may be said of the names in `must`, and findings.
    """

    def registered(script):
        abouts = {one.about for one in must}
        allowed = [
            one if isinstance(one, Says) else Says(one, about)
            for one in may
            for about in ([""] if isinstance(one, Says) else abouts)
        ]
        name = script.__name__
        assert name not in INCIDENTS, name
        INCIDENTS[name] = Incident(
            name, script.__doc__, script, length_s, begins_s, tuple(must), tuple(allowed),
            tuple(unsaid),
        )  # fmt: skip
        return script

    return registered


def quiet_day(length_s, may=(), unsaid=(), begins_s=8 * 3600):
    """Register a script as a day on which nothing happens that a report should mention."""
    return incident(length_s, (), may, unsaid, begins_s)

"""The ages of messages, with a bounded number of labels: the busiest queues, and the rest as one.

A queue is busy if many messages were published or delivered recently; those of half an hour ago
hardly count. One of the busiest queues is replaced only by a clearly busier queue, so that labels
do not change all the time.

A histogram must not decrease, because Prometheus would take that for a restart. So each delivery is
counted once: in its queue's own histogram, if the queue is among the busiest at the time of the
scrape, and otherwise in the histogram of the rest. That one is never reduced, neither when a queue
becomes one of the busiest nor when it is deleted.
"""

import asyncio
from heapq import nlargest

from leveret.broker.queues.contract.status import AgeFigures, CoarseCounts
from leveret.broker.queues.delivery.age import BOUNDS_MS
from leveret.mgmt.metrics import families as names
from leveret.mgmt.metrics.text import Exposition, Labels, render_labels
from leveret.mgmt.node_facade.declared import NO_COUNTS
from leveret.mgmt.node_facade.facts import Place
from leveret.mgmt.statistics.sampler import Sampler

OTHERS = "(others)"
BOUNDS_S = tuple(bound / 1000 for bound in BOUNDS_MS)
HALF_LIFE_MS = 300_000
INCUMBENTS_BONUS = 1.5
LOOKED_AT_ONCE = 20
"""Queues examined before the slice may end: a tenth of a millisecond."""
Counts = list[int]


class Histogram:
    """The times that messages waited. counts: a number for each bound of `BOUNDS_MS`, and one
    above.
    """

    __slots__ = ("counts", "sum_ms")

    def __init__(self) -> None:
        self.counts: Counts = [0] * (len(BOUNDS_MS) + 1)
        self.sum_ms = 0

    def add(self, counts: Counts, sum_ms: int) -> None:
        """Add deliveries."""
        self.counts = list(map(int.__add__, self.counts, counts))
        self.sum_ms += sum_ms


def messages_of(counts: CoarseCounts) -> int:
    """The number of messages published and delivered."""
    return counts.published + counts.deliver_get


class Watched:
    """A queue that has had messages.

    seen: all its deliveries that are counted. own: those that were counted while it was among the
    busiest. has_moved: there may be deliveries that are not counted. counts: its present counts.
    is_busiest: it has labels of its own.
    """

    __slots__ = (
        "activity", "counts", "has_moved", "is_busiest", "looked_ms", "messages", "own", "seen",
    )  # fmt: skip

    def __init__(self, now_ms: int) -> None:
        self.counts = NO_COUNTS
        self.activity = 0.0
        self.looked_ms = now_ms
        self.messages = 0
        self.is_busiest = False
        self.has_moved = False
        self.own = Histogram()
        self.seen = Histogram()

    def busyness(self) -> float:
        """The number by which the busiest queues are chosen."""
        return self.activity * (INCUMBENTS_BONUS if self.is_busiest else 1)

    def look(self, counts: CoarseCounts, now_ms: int) -> None:
        """Update the busyness of the queue."""
        self.counts = counts
        messages = messages_of(counts)
        if now_ms > self.looked_ms:
            self.activity *= 0.5 ** ((now_ms - self.looked_ms) / HALF_LIFE_MS)
            self.looked_ms = now_ms
        if messages != self.messages:
            self.activity += messages - self.messages
            self.messages = messages
            self.has_moved = True

    def take_deliveries(self, ages: AgeFigures) -> tuple[Counts, int]:
        """The deliveries since the last call: counts as in `Histogram`, and their sum in ms."""
        self.has_moved = False
        now = Histogram()
        now.add(ages.waited_counts, ages.waited_ms)
        before, self.seen = self.seen, now
        counts = list(map(int.__sub__, now.counts, before.counts))
        return counts, now.sum_ms - before.sum_ms


class QueueAgeMetrics:
    """The ages of all queues of a broker. busiest_max: how many have labels of their own."""

    def __init__(self, sampler: Sampler, busiest_max: int) -> None:
        self._sampler = sampler
        self._busiest_max = busiest_max
        self._watched: dict[Place, Watched] = {}
        self._busiest: list[Watched] = []
        self._others = Histogram()
        self._lock = asyncio.Lock()

    async def add_to(self, page: Exposition) -> None:
        """Count the deliveries since the last page, and add the metrics to this one."""
        async with self._lock:
            await self._update_all()
            self._choose()
            await self._add_all(page)

    async def _add_all(self, page: Exposition) -> None:
        oldest_others = [0, 0]
        for place, watched in tuple(self._watched.items()):
            ages = self._sampler.facade.queue_ages(*place)
            if ages is None:
                continue
            if watched.has_moved:
                histogram = watched.own if watched.is_busiest else self._others
                histogram.add(*watched.take_deliveries(ages))
            ready_ms = ages.oldest_ready_ms or 0
            unacked_ms = self._sampler.oldest_unacked_age_ms(place, watched.counts) or 0
            if watched.is_busiest:
                labels = (("vhost", place[0]), ("queue", place[1]))
                _add(page, (ready_ms, unacked_ms), watched.own, labels)
            else:
                oldest_others[0] = max(oldest_others[0], ready_ms)
                oldest_others[1] = max(oldest_others[1], unacked_ms)
            await self._sampler.give_way()
        labels = (("vhost", OTHERS), ("queue", OTHERS))
        _add(page, (oldest_others[0], oldest_others[1]), self._others, labels)

    async def _update_all(self) -> None:
        facade, before = self._sampler.facade, self._watched
        now_ms = facade.now_ms()
        found: dict[Place, Watched] = {}
        for vhost in facade.vhost_names():
            for number, (name, counts) in enumerate(facade.own_counts(vhost)):
                if number % LOOKED_AT_ONCE == 0:
                    await self._sampler.give_way()
                if not counts.published and not counts.ready and (vhost, name) not in before:
                    continue
                watched = before.get((vhost, name))
                if watched is None or messages_of(counts) < watched.messages:
                    # It is new, or was deleted and declared again.
                    watched = Watched(now_ms)
                watched.look(counts, now_ms)
                found[vhost, name] = watched
        self._watched = found

    def _choose(self) -> None:
        busiest = nlargest(self._busiest_max, self._watched.values(), key=Watched.busyness)
        for one in self._busiest:
            one.is_busiest = False
        for one in busiest:
            one.is_busiest = True
        self._busiest = busiest


def _add(page: Exposition, oldest_ms: tuple[int, int], waited: Histogram, labels: Labels) -> None:
    ready_ms, unacked_ms = oldest_ms
    page.add_row(names.AGES, (ready_ms / 1000, unacked_ms / 1000), render_labels(labels))
    page.add_histogram(names.TIME_IN_QUEUE, BOUNDS_S, waited.counts, waited.sum_ms / 1000, labels)

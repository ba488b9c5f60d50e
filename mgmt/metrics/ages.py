"""The ages of queues, with a bounded number of labels: the busiest queues, and the others as one.

Busy is a queue in which much was published or delivered lately; what was half an hour ago counts
for little. A queue that is among the busiest gives its place up only to one that is clearly busier,
so that labels do not come and go.

A histogram must not shrink, or Prometheus takes it for one that began anew. So each delivery is
counted once, where its queue belonged when it was noticed: in the queue's own histogram, or in that
of the others, which is never taken back, neither when a queue joins the busiest nor when it is
deleted.
"""

import asyncio
from heapq import nlargest

from broker.queues.actor import Queue
from broker.queues.age import BOUNDS_MS
from mgmt.metrics import families as names
from mgmt.metrics.queues import each_queue
from mgmt.metrics.text import Exposition, Labels, render_labels
from mgmt.statistics.sampler import Sampler

OTHERS = "(others)"
BOUNDS_S = tuple(bound / 1000 for bound in BOUNDS_MS)
HALF_LIFE_MS = 300_000
INCUMBENTS_BONUS = 1.5
Counts = list[int]


class Histogram:
    """Times in a queue. counts: for each bound, and above."""

    __slots__ = ("counts", "sum_ms")

    def __init__(self) -> None:
        self.counts: Counts = [0] * (len(BOUNDS_MS) + 1)
        self.sum_ms = 0

    def add(self, counts: Counts, sum_ms: int) -> None:
        """Add deliveries."""
        self.counts = list(map(int.__add__, self.counts, counts))
        self.sum_ms += sum_ms


class Watched:
    """A queue that something has happened to. seen: its deliveries, as far as they are counted.

    own: those that were counted while it was among the busiest. has_moved: there may be more.
    """

    __slots__ = (
        "activity", "has_moved", "looked_ms", "messages", "own", "seen", "vhost_name",
    )  # fmt: skip

    def __init__(self, vhost_name: str, now_ms: int) -> None:
        self.vhost_name = vhost_name
        self.activity = 0.0
        self.looked_ms = now_ms
        self.messages = 0
        self.has_moved = False
        self.own = Histogram()
        self.seen = Histogram()

    def look(self, queue: Queue, now_ms: int) -> None:
        """Note how busy it is."""
        delivered = queue.delivered_count + queue.delivered_no_ack_count
        messages = queue.published_count + delivered + queue.got_count + queue.got_no_ack_count
        if now_ms > self.looked_ms:
            self.activity *= 0.5 ** ((now_ms - self.looked_ms) / HALF_LIFE_MS)
            self.looked_ms = now_ms
        if messages != self.messages:
            self.activity += messages - self.messages
            self.messages = messages
            self.has_moved = True

    def take_deliveries(self, queue: Queue) -> tuple[Counts, int]:
        """Those since the last time."""
        self.has_moved = False
        every = (queue.ages, *(queue.level_ages or {}).values())
        columns = zip(*(ages.counts for ages in every), strict=True)
        now = Histogram()
        now.add([sum(column) for column in columns], sum(ages.sum_ms for ages in every))
        before, self.seen = self.seen, now
        counts = list(map(int.__sub__, now.counts, before.counts))
        return counts, now.sum_ms - before.sum_ms


class QueueAges:
    """The ages of all queues of a broker. busiest_max: how many have labels of their own."""

    def __init__(self, sampler: Sampler, busiest_max: int) -> None:
        self._sampler = sampler
        self._busiest_max = busiest_max
        self._watched: dict[Queue, Watched] = {}
        self._busiest: set[Queue] = set()
        self._others = Histogram()
        self._lock = asyncio.Lock()

    async def add_to(self, page: Exposition) -> None:
        """Take note of what has happened since the last time, and add all of it to a page."""
        async with self._lock:
            await self._look_at_all()
            self._choose()
            await self._add_all(page)

    async def _add_all(self, page: Exposition) -> None:
        now_ms = self._sampler.broker.services.clock.now_ms()
        oldest_others = [0, 0]
        for queue, watched in tuple(self._watched.items()):
            is_busiest = queue in self._busiest
            if watched.has_moved:
                histogram = watched.own if is_busiest else self._others
                histogram.add(*watched.take_deliveries(queue))
            ready_ms, unacked_ms = self._oldest(queue, now_ms)
            if is_busiest:
                labels = (("vhost", watched.vhost_name), ("queue", queue.name))
                _add(page, (ready_ms, unacked_ms), watched.own, labels)
            else:
                oldest_others[0] = max(oldest_others[0], ready_ms)
                oldest_others[1] = max(oldest_others[1], unacked_ms)
            await self._sampler.give_way()
        labels = (("vhost", OTHERS), ("queue", OTHERS))
        _add(page, (oldest_others[0], oldest_others[1]), self._others, labels)

    async def _look_at_all(self) -> None:
        now_ms = self._sampler.broker.services.clock.now_ms()
        before = self._watched
        found: dict[Queue, Watched] = {}
        async for vhost, queue in each_queue(self._sampler):
            watched = before.get(queue)
            if watched is None:
                if not _is_in_use(queue):
                    continue
                watched = Watched(vhost.name, now_ms)
            watched.look(queue, now_ms)
            found[queue] = watched
        self._watched = found

    def _choose(self) -> None:
        def busyness(queue: Queue) -> float:
            bonus = INCUMBENTS_BONUS if queue in self._busiest else 1
            return self._watched[queue].activity * bonus

        self._busiest = set(nlargest(self._busiest_max, self._watched, key=busyness))

    def _oldest(self, queue: Queue, now_ms: int) -> tuple[int, int]:
        """The ages of the oldest ready message and of the oldest delivery, in milliseconds."""
        delivered_ms = self._sampler.oldest_unacked_ms.get(queue)
        is_unacked = delivered_ms is not None and queue.backing.unacked_count
        unacked_ms = now_ms - delivered_ms if is_unacked and delivered_ms is not None else 0
        return queue.oldest_ready_age_ms() or 0, unacked_ms


def _is_in_use(queue: Queue) -> bool:
    return bool(queue.published_count or queue.backing.ready_count)


def _add(page: Exposition, oldest_ms: tuple[int, int], waited: Histogram, labels: Labels) -> None:
    ready_ms, unacked_ms = oldest_ms
    page.add_row(names.AGES, (ready_ms / 1000, unacked_ms / 1000), render_labels(labels))
    page.add_histogram(names.TIME_IN_QUEUE, BOUNDS_S, waited.counts, waited.sum_ms / 1000, labels)

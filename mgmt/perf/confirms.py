"""Which published messages the broker has still to confirm, and how long confirms took. Pure.

Messages are published in batches with one time each, and mostly confirmed in order and many at
once. Brokers may confirm single ones out of order; those are remembered until the others catch up.
"""

from collections import deque

from mgmt.perf.histogram import Histogram


class Confirms:
    """The open confirms of one channel. published: the last message's number, from 1."""

    def __init__(self) -> None:
        self.latencies = Histogram()
        self.published = 0
        self._settled = 0
        self._ahead: set[int] = set()
        self._batches: deque[tuple[int, int]] = deque()

    @property
    def open(self) -> int:
        """How many messages are not confirmed."""
        return self.published - self._settled - len(self._ahead)

    def publish(self, count: int, now_ns: int) -> None:
        """So many more messages are published."""
        self.published += count
        self._batches.append((self.published, now_ns))

    def waited_s(self, now_ns: int) -> float:
        """How many seconds the oldest open message waits; 0 if there is none."""
        return (now_ns - self._batches[0][1]) / 1e9 if self._batches else 0.0

    def settle(self, tag: int, *, multiple: bool, now_ns: int) -> int:
        """The broker settled a message, or all up to it (0: all). How many that were.

        What was settled before does not count again.
        """
        if not multiple:
            return self._settle_one(tag, now_ns)
        before = self.open
        tag = min(tag or self.published, self.published)
        self._advance(tag, now_ns)
        return before - self.open

    def _settle_one(self, tag: int, now_ns: int) -> int:
        if tag == self._settled + 1 and tag <= self.published:
            self._advance(tag, now_ns)
            return 1
        if tag <= self._settled or tag in self._ahead or tag > self.published:
            return 0
        self._ahead.add(tag)
        sent_ns = next(sent for last, sent in self._batches if last >= tag)
        self.latencies.add((now_ns - sent_ns) // 1000)
        return 1

    def _advance(self, tag: int, now_ns: int) -> None:
        """All up to the tag are settled, and those behind it that were so already."""
        while self._settled < tag:
            last, sent_ns = self._batches[0]
            stop = min(last, tag)
            count = stop - self._settled - self._drop_ahead(stop)
            if count:
                self.latencies.add((now_ns - sent_ns) // 1000, count)
            self._settled = stop
            self._drop_batch()
        while self._settled + 1 in self._ahead:
            self._settled += 1
            self._ahead.discard(self._settled)
            self._drop_batch()

    def _drop_ahead(self, stop: int) -> int:
        """Forget those up to here that were settled ahead of the others; how many they were."""
        if not self._ahead:
            return 0
        dropped = {tag for tag in self._ahead if tag <= stop}
        self._ahead -= dropped
        return len(dropped)

    def _drop_batch(self) -> None:
        if self._batches[0][0] <= self._settled:
            self._batches.popleft()

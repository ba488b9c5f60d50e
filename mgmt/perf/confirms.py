"""Tracks which published messages are not confirmed yet, and how long confirms took. Pure.

Messages are published in batches with one timestamp each, and mostly confirmed in order and many at
once. Brokers may confirm single messages out of order; these are remembered until the earlier ones
are confirmed.
"""

from collections import deque

from leveret.mgmt.perf.histogram import LatencyHistogram


class PerfConfirms:
    """The open confirms of one channel. published: the last message's number, from 1."""

    def __init__(self) -> None:
        self.latencies = LatencyHistogram()
        self.published = 0
        self._settled = 0
        self._ahead: set[int] = set()
        self._batches: deque[tuple[int, int]] = deque()

    @property
    def open(self) -> int:
        """The number of unconfirmed messages."""
        return self.published - self._settled - len(self._ahead)

    def publish(self, count: int, now_ns: int) -> None:
        """Note that `count` more messages were published."""
        self.published += count
        self._batches.append((self.published, now_ns))

    def waited_s(self, now_ns: int) -> float:
        """Return the seconds since the oldest unconfirmed message; 0 if there is none."""
        return (now_ns - self._batches[0][1]) / 1e9 if self._batches else 0.0

    def settle(self, tag: int, *, multiple: bool, now_ns: int) -> int:
        """Note a confirm of one message, or of all up to it (0: all), and return how many it
        settled.

        Messages that were already settled do not count again.
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
        """Settle all up to the tag, and those after it that were settled before."""
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
        """Forget early settlements up to here, and return their number."""
        if not self._ahead:
            return 0
        dropped = {tag for tag in self._ahead if tag <= stop}
        self._ahead -= dropped
        return len(dropped)

    def _drop_batch(self) -> None:
        if self._batches[0][0] <= self._settled:
            self._batches.popleft()

"""Holding back publishers that outrun a queue's consumers, so that these keep up.

A broker and its clients that have no processor time to spare spend most of it on publishers: these
wait for nothing, while consumers wait for messages, and the broker for their acks. Then a backlog
grows, and every message waits for seconds, though the consumers could take as many as are
published.

So a publisher of many messages at a time is not read while no consumer of a queue has room, and
there is a backlog of `BACKLOG_COUNT_MIN` messages or `BACKLOG_BYTES_MIN` bytes. It is read again
when the backlog is half as long, or after `HOLD_MS_MAX`.

If at the rate of deliveries meanwhile the backlog would not be gone within `DRAIN_MS_MAX`, the
consumers are slow by themselves. The queue is there to keep what is published then: no publisher is
held back for `PAUSE_MS`.
"""

from collections.abc import Callable

from leveret.broker.clock import Clock, Timer
from leveret.broker.queues.counting import QueueCounts
from leveret.broker.queues.dispatch import ConsumerRing
from leveret.storage.backing_queue import BackingQueue

BACKLOG_COUNT_MIN, BACKLOG_BYTES_MIN = 1000, 1024 * 1024
SERVED_COUNT_MAX = 2000
"""As many messages as a queue may give to consumers with room before others have their turn."""
HOLD_MS_MAX = 200
DRAIN_MS_MAX = 2000
PAUSE_MS = 2000


class PublisherHold:
    """The publishers that wait for one queue's consumers."""

    __slots__ = (
        "_backing", "_clock", "_counts", "_delivered", "_paused_until_ms", "_release_at", "_ring",
        "_timer", "_waiting",
    )  # fmt: skip

    def __init__(
        self, backing: BackingQueue, ring: ConsumerRing, counts: QueueCounts, clock: Clock
    ) -> None:
        self._backing = backing
        self._ring = ring
        self._counts = counts
        self._clock = clock
        self._waiting: list[Callable[[], object]] = []
        self._timer: Timer | None = None
        self._release_at = self._delivered = self._paused_until_ms = 0

    def begin(self, resume: Callable[[], object]) -> bool:
        """Whether a publisher outruns the consumers; `resume` is called when it may go on."""
        backing, ring = self._backing, self._ring
        count = backing.ready_count
        if count < BACKLOG_COUNT_MIN and backing.ready_bytes < BACKLOG_BYTES_MIN:
            return False
        is_to_be_served = ring.has_candidates and count < SERVED_COUNT_MAX
        if is_to_be_served or not ring.consumers:
            return False
        if self._timer is None:
            if self._clock.now_ms() < self._paused_until_ms:
                return False
            self._release_at = count // 2
            self._delivered = self._delivered_count
            self._timer = self._clock.call_later_ms(HOLD_MS_MAX, self._end)
        self._waiting.append(resume)
        return True

    @property
    def _delivered_count(self) -> int:
        return self._counts.delivered + self._counts.delivered_no_ack

    def delivered(self) -> None:
        """Consumers were given messages."""
        if self._waiting and self._backing.ready_count <= self._release_at:
            self.release()

    def _end(self) -> None:
        """The time is over: are the consumers slow?"""
        delivered = self._delivered_count - self._delivered
        if delivered * DRAIN_MS_MAX < self._backing.ready_count * HOLD_MS_MAX:
            self._paused_until_ms = self._clock.now_ms() + PAUSE_MS
        self.release()

    def release(self) -> None:
        """Let all publishers go on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()

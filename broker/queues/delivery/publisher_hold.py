"""Flow control: holds back publishers that outrun a queue's consumers, so that these keep up.

If a broker and its clients have no spare processor time, publishers get most of it: they wait for
nothing, while consumers wait for messages, and the broker waits for acks. Then a backlog grows, and
every message waits for seconds, although the consumers could take messages as fast as they are
published.

So a publisher of many messages at a time is not read while no consumer of a queue has room, and
there is a backlog of `BACKLOG_COUNT_MIN` messages or `BACKLOG_BYTES_MIN` bytes. It is read again
when the backlog is half as long, or after `HOLD_MS_MAX`.

If the rate of deliveries during the hold is too low to drain the backlog within `DRAIN_MS_MAX`, the
consumers themselves are slow. Then the queue has to absorb the messages: no publisher is held back
for `PAUSE_MS`.
"""

from asyncio import TimerHandle
from collections.abc import Callable, Collection
from typing import Protocol

from leveret.broker.queues.delivery.counting import QueueCounts

BACKLOG_COUNT_MIN, BACKLOG_BYTES_MIN = 1000, 1024 * 1024
SERVED_COUNT_MAX = 2000
"""The number of messages that a queue may deliver before others have their turn."""
HOLD_MS_MAX = 200
DRAIN_MS_MAX = 2000
PAUSE_MS = 2000


class Backlog(Protocol):
    """The messages of the queue that are ready (storage/contract/backing_queue.py)."""

    @property
    def ready_count(self) -> int:
        """The number of ready messages."""

    @property
    def ready_bytes(self) -> int:
        """The bytes of their bodies."""


class QueueConsumers(Protocol):
    """The consumers of the queue (dispatch.py)."""

    @property
    def consumers(self) -> Collection[object]:
        """All consumers."""

    @property
    def has_candidates(self) -> bool:
        """Whether a consumer may have room."""


class Timers(Protocol):
    """Real time (broker/runtime/turns.py)."""

    def call_later(self, delay_ms: int, callback: Callable[[], object], /) -> TimerHandle:
        """Call back after this time."""


class PublisherHold:
    """The publishers that wait for one queue's consumers."""

    __slots__ = (
        "_backing", "_counts", "_delivered", "_is_pausing", "_release_at", "_ring", "_timer",
        "_timers", "_waiting",
    )  # fmt: skip

    def __init__(
        self, backing: Backlog, ring: QueueConsumers, counts: QueueCounts, timers: Timers
    ) -> None:
        self._backing = backing
        self._ring = ring
        self._counts = counts
        self._timers = timers
        self._waiting: list[Callable[[], object]] = []
        self._timer: TimerHandle | None = None
        self._release_at = self._delivered = 0
        self._is_pausing = False

    @property
    def is_wanted(self) -> bool:
        """Whether publishers outrun the consumers."""
        backing, ring = self._backing, self._ring
        count = backing.ready_count
        if count < BACKLOG_COUNT_MIN and backing.ready_bytes < BACKLOG_BYTES_MIN:
            return False
        if self._is_pausing:
            return False
        is_to_be_served = ring.has_candidates and count < SERVED_COUNT_MAX
        return bool(ring.consumers) and not is_to_be_served

    def begin(self, resume: Callable[[], object]) -> None:
        """A publisher waits; `resume` is called when it may go on."""
        if self._timer is None:
            self._release_at = self._backing.ready_count // 2
            self._delivered = self._delivered_count
            self._timer = self._timers.call_later(HOLD_MS_MAX, self._end)
        self._waiting.append(resume)

    @property
    def _delivered_count(self) -> int:
        return self._counts.delivered + self._counts.delivered_no_ack

    def look(self) -> None:
        """Check whether to end the hold: the backlog is shorter, or a consumer has left."""
        if not self._waiting:
            return
        if self._backing.ready_count <= self._release_at or not self._ring.consumers:
            self.release()

    def _end(self) -> None:
        """The time is over: check whether the consumers are slow."""
        delivered = self._delivered_count - self._delivered
        if delivered * DRAIN_MS_MAX < self._backing.ready_count * HOLD_MS_MAX:
            self._is_pausing = True
            self._timers.call_later(PAUSE_MS, self._end_pause)
        self.release()

    def _end_pause(self) -> None:
        self._is_pausing = False

    def release(self) -> None:
        """Let all publishers go on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()

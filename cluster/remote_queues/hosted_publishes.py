"""The publishes of another node to one queue of this node: the bytes taken, and the outcomes.

The other node's publishers continue while this node reports their bytes as taken (remote_hold.py on
that node). It reports once a round, with the confirms, or when much was taken. Nothing is reported
as taken while publishers of this node would have to wait, for the store or for the consumers of the
queue.
"""

from collections.abc import Callable
from typing import Protocol

from leveret.broker.queues.contract.queue_client import Hold
from leveret.cluster.remote_queues.hosted_publisher import HostedPublisher

Pairs = list[tuple[int, int]]


class PublishedQueue(Protocol):
    """The part of the queue that decides whether publishers wait.

    A report calls `tell` with the bytes taken so far, ranges of safe numbers, and pairs of the
    number of a run and the number of a refused message in it.
    """

    @property
    def is_held(self) -> bool:
        """Whether publishers of this node wait for its store."""

    @property
    def publisher_hold(self) -> Hold | None:
        """The hold on which publishers to this queue may have to wait; None if it is deleted."""

    def tell(self, taken_bytes: int, safe: Pairs, refused: Pairs) -> None:
        """Send a report."""


class HostedPublishes:
    """The publishes of another node to one queue. publisher: stands for its publishers.

    is_waiting: whether published bytes are withheld from reports.
    """

    __slots__ = ("_queue", "_reported_bytes", "_taken_bytes", "is_waiting", "publisher")

    def __init__(self, queue: PublishedQueue, due: Callable[[], object]) -> None:
        """due: called when a report is due."""
        self._queue = queue
        self.publisher = HostedPublisher(due)
        self._taken_bytes = self._reported_bytes = 0
        self.is_waiting = False

    def taken(self, size: int) -> None:
        """Count a frame of this size."""
        self._taken_bytes += size

    def report(self) -> None:
        """Report the outcomes of publishes, if there are any."""
        if not self.is_waiting:
            self._hold_back()
        if self.publisher.has_due:
            self._report()

    def report_taken(self) -> None:
        """Report the number of bytes taken."""
        if not self.is_waiting and self._taken_bytes > self._reported_bytes:
            self._report()

    def resume(self) -> None:
        """Let the other node send at least one run: publishers of this node continue."""
        if self.is_waiting:
            self.is_waiting = False
            self._report()

    def _report(self) -> None:
        if not self.is_waiting:
            self._reported_bytes = self._taken_bytes
        self._queue.tell(self._reported_bytes, *self.publisher.take())

    def _hold_back(self) -> None:
        hold = self._queue.publisher_hold
        if self._queue.is_held:
            self.is_waiting = True
        elif hold is not None and hold.is_wanted:
            self.is_waiting = True
            hold.begin(self.resume)

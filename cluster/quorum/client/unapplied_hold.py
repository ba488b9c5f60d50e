"""Holding back publishers whose messages the group has not taken yet.

While no leader has a majority, nothing is applied. So a publisher waits while a queue has more than
`WINDOW_BYTES` that are not applied; and as only a publisher of many messages at a time asks whether
it has to wait, there is a limit for all queues together (remote_queues/remote_hold.py).
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from leveret.cluster.remote_queues.remote_hold import UntakenBytes

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""What a leader sends to a member that has acknowledged nothing (raft/progress.py)."""


class UnappliedHold:
    """The publishers that wait for one queue. See `Hold` in queue_client.py."""

    __slots__ = ("_bytes", "_untaken", "_waiting")

    def __init__(self, untaken: UntakenBytes) -> None:
        self._untaken = untaken
        self._bytes: i64 = 0
        self._waiting: list[Callable[[], object]] = []

    @property
    def is_wanted(self) -> bool:
        """Whether publishers of many messages at a time have to wait."""
        return self._bytes > WINDOW_BYTES

    def begin(self, resume: Callable[[], object]) -> None:
        """A publisher waits; `resume` is called when it may go on."""
        self._waiting.append(resume)

    def published(self, size: int) -> None:
        """Messages were published."""
        self._bytes += size
        self._untaken.add(size)

    def applied(self, size: int) -> None:
        """Messages are in the queue, or are given up."""
        self._bytes -= size
        self._untaken.add(-size)
        if self._waiting and self._bytes <= WINDOW_BYTES // 2:
            self.release()

    def release(self) -> None:
        """Let all waiting publishers go on."""
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()

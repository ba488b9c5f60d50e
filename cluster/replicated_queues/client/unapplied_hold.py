"""Makes publishers wait while too many of their messages have not been applied by the group.

While no leader has a majority, nothing is applied. So a publisher waits while a queue has more than
`WINDOW_BYTES` of messages that are not applied. Only publishers of many messages at a time ask
whether they have to wait, so there is also a limit for all queues together
(remote_queues/remote_hold.py).
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from leveret.cluster.remote_queues.remote_hold import UntakenBytes

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""As many bytes as a leader sends ahead to a member that acknowledges none (raft/progress.py)."""


class UnappliedHold:
    """The publishers that wait for one queue: a `Hold` (queue_client.py)."""

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
        """Let a publisher wait. `resume` is called when it may continue."""
        self._waiting.append(resume)

    def published(self, size: int) -> None:
        """Add the bytes of messages that were published."""
        self._bytes += size
        self._untaken.add(size)

    def applied(self, size: int) -> None:
        """Subtract the bytes of messages that were applied, or never will be."""
        self._bytes -= size
        self._untaken.add(-size)
        if self._waiting and self._bytes <= WINDOW_BYTES // 2:
            self.release()

    def release(self) -> None:
        """Let all waiting publishers continue."""
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()

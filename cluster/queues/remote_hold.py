"""Holding back publishers whose messages a home node has not taken yet.

A publisher waits while more than `WINDOW_BYTES` were sent to one queue that its home node has not
reported as taken, or while the link is congested. It goes on when half of that is taken, or when
the link is down: its next messages are refused, or not routed to the queue.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

WINDOW_BYTES = 4 * 1024 * 1024
"""Eight times what a home node reports at once (TAKEN_BYTES_MIN in hosted_queue.py)."""


class LinkedNode(Protocol):
    """The home node."""

    @property
    def is_congested(self) -> bool:
        """The link has more to send than it should."""

    def await_drain(self, hold: "RemoteHold") -> None:
        """Call `look` when the link has room again."""


class RemoteHold:
    """The publishers that wait for one queue. See `Hold` in queue_client.py."""

    __slots__ = ("_node", "_sent_bytes", "_taken_bytes", "_waiting")

    def __init__(self, node: LinkedNode) -> None:
        self._node = node
        self._sent_bytes = self._taken_bytes = 0
        self._waiting: list[Callable[[], object]] = []

    @property
    def untaken_bytes(self) -> int:
        """Bytes that were sent and not reported as taken."""
        return self._sent_bytes - self._taken_bytes

    @property
    def is_wanted(self) -> bool:
        """Publishers of many messages at a time have to wait."""
        return self.untaken_bytes > WINDOW_BYTES or self._node.is_congested

    def begin(self, resume: Callable[[], object]) -> None:
        """A publisher waits; `resume` is called when it may go on."""
        self._waiting.append(resume)
        self._node.await_drain(self)

    def sent(self, pieces: Iterable[bytes]) -> None:
        """A run was sent."""
        self._sent_bytes += sum(map(len, pieces))

    def taken(self, taken_bytes: int) -> None:
        """The home node has taken so many bytes since the link is up. Raises ValueError."""
        if not self._taken_bytes <= taken_bytes <= self._sent_bytes:
            raise ValueError(f"{taken_bytes} bytes of {self._sent_bytes} are reported as taken")
        self._taken_bytes = taken_bytes
        self.look()

    def reset(self) -> None:
        """The link is down, or the queue is gone: nobody waits for it."""
        self._sent_bytes = self._taken_bytes = 0
        self._release()

    def look(self) -> None:
        """More was taken, or the link has room again."""
        if self.untaken_bytes <= WINDOW_BYTES // 2 and not self._node.is_congested:
            self._release()

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()

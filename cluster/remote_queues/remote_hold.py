"""Holding back publishers whose messages a home node has not taken yet.

A publisher waits while more than `WINDOW_BYTES` for a queue are sent and not reported as taken, or
while the link is congested. It continues when half of that is taken, or when the link is down: its
next messages are refused, or not routed to the queue.

Only a publisher of many messages at a time asks whether it has to wait, and only if it consumes
nothing. So there is a limit for all publishers together: above it no publishing connection of the
node is read (broker/resources/flow.py).
"""

from collections.abc import Callable, Iterable
from typing import Protocol

WINDOW_BYTES = 4 * 1024 * 1024
"""Eight times what a home node reports at once (TAKEN_BYTES_MIN in queue_host.py)."""


UNTAKEN_BYTES_MAX = 64 * 1024 * 1024
"""For all queues of all nodes: half of the limit of a link (distribution_buffer_size)."""


class UntakenBytes:
    """The bytes sent to other nodes for their queues and channels, and not taken.

    bytes: their number. set_behind: called with True when it exceeds the limit, and with False when
    it has fallen to half of that.
    """

    def __init__(self, set_behind: Callable[[bool], object]) -> None:
        self._set_behind = set_behind
        self._is_behind = False
        self.bytes = 0

    def add(self, size: int) -> None:
        """Count bytes that were sent or, if negative, taken."""
        self.bytes += size
        limit = UNTAKEN_BYTES_MAX // 2 if self._is_behind else UNTAKEN_BYTES_MAX
        if (self.bytes > limit) is not self._is_behind:
            self._is_behind = not self._is_behind
            self._set_behind(self._is_behind)


class LinkedNode(Protocol):
    """The home node."""

    @property
    def is_congested(self) -> bool:
        """Whether the link has more to send than it should."""

    def await_drain(self, hold: "RemoteHold") -> None:
        """Call `look` when the link has room again."""


class RemoteHold:
    """The publishers that wait for one queue: a `Hold` (queue_client.py)."""

    __slots__ = ("_node", "_sent_bytes", "_taken_bytes", "_untaken", "_waiting")

    def __init__(self, node: LinkedNode, untaken: UntakenBytes) -> None:
        self._node = node
        self._untaken = untaken
        self._sent_bytes = self._taken_bytes = 0
        self._waiting: list[Callable[[], object]] = []

    @property
    def untaken_bytes(self) -> int:
        """Bytes that were sent and not reported as taken."""
        return self._sent_bytes - self._taken_bytes

    @property
    def is_wanted(self) -> bool:
        """Whether publishers of many messages at a time have to wait."""
        return self.untaken_bytes > WINDOW_BYTES or self._node.is_congested

    def begin(self, resume: Callable[[], object]) -> None:
        """Hold a publisher; `resume` is called when it may continue."""
        self._waiting.append(resume)
        self._node.await_drain(self)

    def sent(self, pieces: Iterable[bytes]) -> None:
        """Count a run that was sent."""
        size = sum(map(len, pieces))
        self._sent_bytes += size
        self._untaken.add(size)

    def taken(self, taken_bytes: int) -> None:
        """Note the bytes that the home node has taken since the link came up. Raises ValueError."""
        if not self._taken_bytes <= taken_bytes <= self._sent_bytes:
            raise ValueError(f"{taken_bytes} bytes of {self._sent_bytes} are reported as taken")
        self._untaken.add(self._taken_bytes - taken_bytes)
        self._taken_bytes = taken_bytes
        self.look()

    def reset(self) -> None:
        """Let all publishers continue: the link is down, or the queue is gone."""
        self._untaken.add(-self.untaken_bytes)
        self._sent_bytes = self._taken_bytes = 0
        self.release()

    def look(self) -> None:
        """Let publishers continue if more was taken, or the link has room again."""
        if self.untaken_bytes <= WINDOW_BYTES // 2 and not self._node.is_congested:
            self.release()

    def release(self) -> None:
        """Let all waiting publishers continue."""
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()

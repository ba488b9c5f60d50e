"""The leader of a mirrored queue on another node, as used by this node.

It is a remote queue, a new one for each leader. Delivery tags keep growing over all leaders.
"""

from collections.abc import Callable
from typing import TypeAlias

from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.remote_queues.queue_frames import REMOTE_TAGS
from leveret.cluster.remote_queues.remote_queue import RemoteQueue

MakeRemote: TypeAlias = Callable[[MirroredQueue, int], RemoteQueue]
"""Makes the client of a leader, given the first tag of its deliveries."""


class RemoteLeader:
    """The leader on another node, or none."""

    __slots__ = ("_make_remote", "_next_tag", "_queue", "_remote")

    def __init__(self, queue: MirroredQueue, make_remote: MakeRemote) -> None:
        self._queue = queue
        self._make_remote = make_remote
        self._remote: RemoteQueue | None = None
        self._next_tag = REMOTE_TAGS

    def begin_with(self, remote: RemoteQueue) -> None:
        """Mirroring of a queue on another node begins: that node leads."""
        queue, self._remote = self._queue, remote
        remote.mirrored_by(queue, queue.leader_lost, queue.leads_again)
        queue.led_by(remote, is_here=False)

    def turn_to(self) -> RemoteQueue:
        """Another node leads, and is linked."""
        remote = self._remote = self._make_remote(self._queue, self._next_tag)
        self._queue.led_by(remote, is_here=False)
        return remote

    def leave(self) -> None:
        """The node no longer leads, or cannot be reached."""
        remote, self._remote = self._remote, None
        if remote is None:
            return
        self._next_tag = remote.next_tag
        # Otherwise its link is down, which has ended everything of it.
        if self._queue.leader is remote:
            remote.leave()

    def go_on_alone(self) -> RemoteQueue:
        """The queue is no longer mirrored: returns its client from now on."""
        remote = self._remote
        if remote is None:
            remote = self.turn_to()
        remote.mirrored_no_more()
        return remote

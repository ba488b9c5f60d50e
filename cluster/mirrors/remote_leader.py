"""The leader of a mirrored queue on another node, as used by this node.

It is a remote queue, a new one for each leader. Delivery tags keep growing over all leaders.
"""

from leveret.broker.queues.contract.specification import specification_of
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.remote_queues.queue_frames import REMOTE_TAGS
from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.cluster.remote_queues.remote_queues import RemoteQueues


class RemoteLeader:
    """The leader on another node, or none."""

    __slots__ = ("_next_tag", "_queue", "_remote", "_remote_queues")

    def __init__(self, queue: MirroredQueue, remote_queues: RemoteQueues) -> None:
        """queue: the client on this node."""
        self._queue = queue
        self._remote_queues = remote_queues
        self._remote: RemoteQueue | None = None
        self._next_tag = REMOTE_TAGS

    def begin_with(self, remote: RemoteQueue) -> None:
        """Mirroring of a queue on another node begins: that node leads."""
        queue, self._remote = self._queue, remote
        remote.begin_mirroring(queue, queue.leader_lost, queue.leads_again)
        queue.led_by(remote, is_here=False)

    def turn_to(self) -> RemoteQueue:
        """Another node leads, and is linked."""
        queue = self._queue
        remote = self._remote = RemoteQueue(
            self._remote_queues.home_node(queue.placement.node),
            specification_of(queue.vhost_name, queue),
            self._next_tag, queue.leader_lost, queue.leads_again,
        )  # fmt: skip
        queue.led_by(remote, is_here=False)
        return remote

    def leave(self) -> None:
        """Leave the leader, which no longer leads or cannot be reached."""
        remote, self._remote = self._remote, None
        if remote is None:
            return
        self._next_tag = remote.next_tag
        # Otherwise its link is down, and everything of it has ended.
        if self._queue.leader is remote:
            remote.leave()

    def go_on_alone(self) -> RemoteQueue:
        """The queue is no longer mirrored: returns its client from now on."""
        remote = self._remote
        if remote is None:
            remote = self.turn_to()
        remote.end_mirroring()
        return remote

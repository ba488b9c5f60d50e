"""The leader of a mirrored queue while it is on another node, as this node uses it.

It is a remote queue, made anew for each leader: tags of deliveries grow over all of them.
"""

from typing import Protocol

from leveret.broker.queues.queue_home import QueueHome
from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.mirrors.replica_site import Site
from leveret.cluster.queues.queue_frames import REMOTE_TAGS
from leveret.cluster.queues.remote_queue import RemoteQueue


class LedReplica(Protocol):
    """The replica of this node (replica.py)."""

    queue: MirroredQueue


class OtherLeader:
    """See the module. member: which one it is; None while there is none."""

    __slots__ = ("_next_tag", "_remote", "_replica", "_site", "member")

    def __init__(self, replica: LedReplica, site: Site) -> None:
        self._replica = replica
        self._site = site
        self._remote: RemoteQueue | None = None
        self.member: Member | None = None
        self._next_tag = REMOTE_TAGS

    def begin_with(self, remote: RemoteQueue, leader: Member) -> None:
        """The queue, which lives on another node, begins to be mirrored: that node leads."""
        queue = self._replica.queue
        self._remote, self.member = remote, leader
        remote.mirrored_by(queue, queue.leader_lost, queue.leads_again)
        queue.led_by(remote, remote.home, is_here=False)

    def turn_to(self, leader: Member, home: QueueHome) -> None:
        """A member leads, and its node is linked."""
        replica = self._replica
        self.member = leader
        self._remote = self._site.make_remote(replica.queue, home, self._next_tag)
        replica.queue.led_by(self._remote, home, is_here=False)

    def leave(self) -> None:
        """It leads no more, or its node cannot be reached."""
        remote, self._remote = self._remote, None
        self.member = None
        if remote is None:
            return
        self._next_tag = remote.next_tag
        # Otherwise its link is down, by which everything of it has ended.
        if self._replica.queue.leader is remote:
            remote.leave()

    def go_on_alone(self) -> RemoteQueue:
        """The queue is not mirrored any more: what stands for it from now on."""
        queue, home = self._replica.queue, self._replica.queue.home
        if self._remote is None:
            self._remote = self._site.make_remote(queue, home, self._next_tag)
            queue.led_by(self._remote, home, is_here=False)
        self._remote.mirrored_no_more()
        return self._remote

"""The messages of a mirrored queue that this node has without a living member: its copy.

They are those of a member that has ended, or of an earlier life of this node, and of use while the
queue waits for this node.
"""

from leveret.cluster.mirrors.replica_site import QueueReplica, Site
from leveret.storage.backing_queue import BackingQueue


class OwnCopy:
    """See the module. messages: None if there are none."""

    __slots__ = ("_replica", "_site", "messages")

    def __init__(self, replica: QueueReplica, site: Site) -> None:
        self._replica = replica
        self._site = site
        self.messages: BackingQueue | None = None

    def open(self, storage_id: int) -> None:
        """A restart has found messages under this storage id."""
        self._replica.queue.storage_id = storage_id
        self.messages = self._site.open_copy(self._replica)

    def take(self) -> BackingQueue | None:
        """The messages, for a member of this node, which has them from now on."""
        messages, self.messages = self.messages, None
        return messages

    def delete(self) -> None:
        """The messages are of no use any more."""
        messages = self.take()
        if messages is not None:
            what = f"the deletion of a copy of {self._replica.queue!r}"
            self._site.work(what, messages.delete())

"""The messages of a mirrored queue that this node has without a living member: its copy.

They are those of a member that has ended, or of an earlier life of this node, and of use while the
queue waits for this node. When an entry of the metadata says that they are not, they are deleted as
soon as that entry is stable: if it is undone, the record before may have the queue wait for them.

Invariants:
OC1. A copy is deleted after the entry is stable by which it is of no use, or with the queue.
"""

from functools import partial

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

    def discard(self) -> None:
        """What comes instead of the messages is applied: they are deleted when that is stable."""
        messages = self.take()
        if messages is not None:
            self._site.when_stable(partial(self._delete, messages))

    def discard_unless_named(self) -> None:
        """Another record is applied: if it does not name this node, the messages are of no use.

        They are a copy until they are deleted: nothing has come instead of them, and who restarts
        finds them.
        """
        if self.messages is not None and not self._is_named:
            self._site.when_stable(partial(self._delete_unless_named, self.messages))

    def _delete_unless_named(self, messages: BackingQueue) -> None:
        if self.messages is messages and not self._is_named:
            self.delete()

    @property
    def _is_named(self) -> bool:
        """The record has a member of this node, or a copy."""
        record, node = self._replica.record, self._site.node
        if record is None or record.on(node) is not None:
            return True
        return any(copy.node == node for copy in record.has_copy)

    def delete(self) -> None:
        """Delete the messages now."""
        messages = self.take()
        if messages is not None:
            self._delete(messages)

    def _delete(self, messages: BackingQueue) -> None:
        self._site.work(f"the deletion of a copy of {self._replica.queue!r}", messages.delete())

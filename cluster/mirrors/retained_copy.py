"""The messages of a mirrored queue that this node retains without a living member: its copy.

They are those of a member that has ended, or of an earlier life of this node, and of use while the
queue waits for this node. When an entry of the metadata says that they are not, they are deleted as
soon as that entry is stable: if it is undone, the record before may have the queue wait for them.

Invariants:
OC1. A copy is deleted after the entry is stable by which it is of no use, or with the queue.
"""

from collections.abc import Callable, Iterator
from functools import partial

from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.storage.backing_queue import BackingQueue


class RetainedCopy:
    """See the module. messages: None if there are none."""

    __slots__ = ("_delete_in_steps", "_is_named", "_when_stable", "messages")

    def __init__(
        self,
        when_stable: Callable[[Callable[[], object]], object],
        delete_in_steps: Callable[[Iterator[int]], object],
    ) -> None:
        """when_stable: calls back when what is applied on this node now is stable. delete_in_steps:
        takes the steps of a deletion in turns of the event loop.
        """
        self._when_stable = when_stable
        self._delete_in_steps = delete_in_steps
        self._is_named = True
        self.messages: BackingQueue | None = None

    def take(self) -> BackingQueue | None:
        """The messages, for a member of this node, which has them from now on."""
        messages, self.messages = self.messages, None
        return messages

    def discard(self) -> None:
        """What comes instead of the messages is applied: they are deleted when that is stable."""
        messages = self.take()
        if messages is not None:
            self._when_stable(partial(self._delete, messages))

    def discard_unless_named(self, record: MirrorRecord, node: str) -> None:
        """Another record is applied: if it does not name this node, the messages are of no use.

        They are a copy until they are deleted: nothing has come instead of them, and who restarts
        finds them.
        """
        self._is_named = record.on(node) is not None or any(
            copy.node == node for copy in record.has_copy
        )
        if self.messages is not None and not self._is_named:
            self._when_stable(partial(self._delete_unless_named, self.messages))

    def _delete_unless_named(self, messages: BackingQueue) -> None:
        if self.messages is messages and not self._is_named:
            self.delete()

    def delete(self) -> None:
        """Delete the messages now."""
        messages = self.take()
        if messages is not None:
            self._delete(messages)

    def _delete(self, messages: BackingQueue) -> None:
        self._delete_in_steps(messages.delete())

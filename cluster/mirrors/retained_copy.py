"""The messages of a mirrored queue that this node retains without a living member: its copy.

They are those of a member that has ended, or of an earlier life of this node, and are of use while
the queue waits for this node. When an entry of the metadata makes them useless, they are deleted as
soon as that entry is stable: if it is undone, the queue may wait for them by the former record.

Invariants:
OC1. A copy is deleted after the entry that makes it useless is stable, or with the queue.
"""

from collections.abc import Callable, Iterator
from functools import partial

from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.storage.contract.backing_queue import BackingQueue


class RetainedCopy:
    """The copy of one queue. messages: None if there are none."""

    __slots__ = ("_delete_in_steps", "_is_named", "_when_stable", "messages")

    def __init__(
        self,
        when_stable: Callable[[Callable[[], object]], object],
        delete_in_steps: Callable[[Iterator[int]], object],
    ) -> None:
        """when_stable: calls back when all that is applied on this node now is stable.
        delete_in_steps: takes the steps of a deletion in turns of the event loop.
        """
        self._when_stable = when_stable
        self._delete_in_steps = delete_in_steps
        self._is_named = True
        self.messages: BackingQueue | None = None

    def take(self) -> BackingQueue | None:
        """Hand the messages over to a member of this node."""
        messages, self.messages = self.messages, None
        return messages

    def discard(self) -> None:
        """The entry that replaces the messages is applied: delete them when it is stable."""
        messages = self.take()
        if messages is not None:
            self._when_stable(partial(self._delete, messages))

    def discard_unless_named(self, record: MirrorRecord, node: str) -> None:
        """Another record is applied: if it does not name this node, the messages are of no use.

        They are a copy until they are deleted: nothing has replaced them, and a restarted node
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

"""Holds a classic queue on its home node, and hands over to its successor (for a quorum queue:
`QuorumHold`).

When the name has passed to the successor, each entry that clients hold gets the position of the
successor's delivery of the same message. So whatever refers to the entry, such as a session, a
transaction, or a step of long work, settles that delivery.

Invariants:
HH1. From `freeze` on the classic queue changes only by what this object does.
"""

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.sessions.unacked_record import Unacked
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.quorum.conversion.classic_messages import ClassicMessages
from leveret.cluster.quorum.conversion.copied_messages import UNKNOWN_HOLDERS, TryAgain
from leveret.cluster.quorum.conversion.node_holds import (
    NodeHold,
    NodeHolds,
    hold_of,
    keep_consumers,
)
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.storage.messages.message import Entry


class RestoredHold(NodeHold):
    """A classic queue that is to be replaced, as was decided before its node started.

    No message expires: the successor has it.
    """

    def __init__(self, vhost: VirtualHost, queue: ClassicQueue) -> None:
        super().__init__(vhost, queue)
        self._classic = queue

    def begin(self) -> None:
        """Hold it."""
        super().begin()
        self._classic.suspend_expiry()

    def end(self) -> None:
        """The queue goes on: the replacement is given up."""
        if not self.is_over:
            super().end()
            self._classic.resume_expiry()

    def successor(self) -> QueueClient | None:
        """The queue that has the name now: it has all messages."""
        found = super().successor()
        if found is not None:
            self._classic.delete_now()
        return found


def restored_hold(vhost: VirtualHost, queue: QueueClient) -> NodeHold:
    """The hold, which does not begin yet, of a queue that is to be replaced, after a start."""
    if isinstance(queue, ClassicQueue):
        return RestoredHold(vhost, queue)
    return hold_of(vhost, queue)


class ClassicHold(NodeHold):
    """One queue.

    held_entries: those that clients hold, in order. moved: the successor's deliveries of these,
    once they are copied.
    """

    def __init__(
        self, vhost: VirtualHost, queue: ClassicQueue, remote_queues: RemoteQueues
    ) -> None:
        super().__init__(vhost, queue)
        self.held_entries: list[Entry] = []
        self.moved: list[Entry] | None = None
        self._classic = queue
        self._remote_queues = remote_queues
        self._records: list[Unacked] = []

    def freeze(self, holds: NodeHolds, messages: ClassicMessages) -> None:
        """Cancel the consumers, and find all entries that clients hold. Raises TryAgain."""
        queue = self._classic
        consumers = holds.consumers_of(queue)
        for consumer in consumers:
            queue.cancel(consumer)
        keep_consumers(self, consumers)
        if queue.ring.consumers:
            raise TryAgain("clients of another node have added consumers meanwhile")
        held = messages.held()
        if held is None:
            raise TryAgain(UNKNOWN_HOLDERS)
        queue.suspend_expiry()
        self.held_entries = held.in_order
        self._records = held.records
        self._refer_to(queue, self.held)

    def _refer_to(self, before: QueueClient, queue: QueueClient) -> None:
        """Have the entries that clients hold settled at another object."""
        for record in self._records:
            record.queue = queue
        self._remote_queues.replaced(before, queue)

    def successor(self) -> QueueClient | None:
        """The queue that has the name now: entries that clients hold are settled there."""
        found = super().successor()
        if found is not None:
            assert self.moved is not None, "CN1: the messages were copied before"
            for entry, moved in zip(self.held_entries, self.moved, strict=True):
                entry.position = moved.position
            self._refer_to(self.held, found)
            self._classic.delete_now()
        return found

    def end(self) -> None:
        """The queue goes on as it was, unless another one has its name, or it was deleted."""
        if self.is_over:
            return
        queue = self._classic
        self._refer_to(self.held, queue)
        super().end()
        queue.resume_expiry()
        queue.wake()

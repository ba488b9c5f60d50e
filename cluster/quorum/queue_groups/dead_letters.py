"""Publishes the dead letters of a quorum queue that this node leads, in their order.

A letter is read from the log when it is published. If a thread has to read it, the letters after it
wait. They are lost if the node dies meanwhile: these letters are published at most once.
"""

from collections import deque

from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.dead_letters.header import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.quorum.groups.group_member import GroupMember
from leveret.cluster.quorum.machine.commands import messages_at
from leveret.cluster.quorum.machine.effects import DeadLetters, Reason
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.remote_queues.message_runs import RunReader
from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.disk import StoreError
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Message

REASONS = {
    Reason.EXPIRED: EXPIRED, Reason.REJECTED: REJECTED, Reason.MAXLEN: MAXLEN,
    Reason.DELIVERY_LIMIT: DELIVERY_LIMIT,
}  # fmt: skip


class LeaderDeadLetters:
    """The dead letters of one queue. vhost: the queue's."""

    def __init__(self, vhost: QueueOwner, queue: QuorumQueueClient, addresses: Addresses) -> None:
        self._vhost = vhost
        self._queue = queue
        self._addresses = addresses
        self._waiting: deque[tuple[Reason, Run]] = deque()
        self._is_reading = False

    def publish(self, member: GroupMember, letters: DeadLetters) -> None:
        """Publish letters. member: the one that leads."""
        self._waiting.extend((letters.reason, run) for run in letters.runs)
        if not self._is_reading:
            self._publish(member)

    def _publish(self, member: GroupMember) -> None:
        self._is_reading = False
        waiting = self._waiting
        while waiting and not member.damage:
            reason, run = waiting[0]
            try:
                entry = member.read_entry(run.index)
            except BeingRead as reading:
                self._is_reading = True
                reading.when_done(lambda: self._publish(member))
                return
            except (KeyError, StoreError) as error:
                waiting.clear()
                member.lost_entry(error)
                return
            waiting.popleft()
            self._vhost.dead_letter(self._queue, self._messages(run, entry), REASONS[reason])

    def _messages(self, run: Run, entry: bytes) -> list[Message]:
        reader = RunReader(entry, messages_at(entry), self._addresses)
        if run.place:
            reader.skip(run.place)
        return [one.message for one in reader.some_entries(run.count, 1, False)]

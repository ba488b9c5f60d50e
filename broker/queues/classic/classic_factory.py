"""The factory of queues that keep their messages in a backing queue of this node."""

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.contract.waiting_retries import Chosen, WaitingRetry
from leveret.broker.queues.retries.retries import Retries
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.storage.contract.backing_queue import BackingQueue


class ClassicFactory(QueueFactory):
    """Makes classic queues, and finds the messages of one."""

    def renamed(self, queue: QueueClient) -> None:
        """Its texts name it by its new name."""
        if isinstance(queue, ClassicQueue):
            queue.what = queue.reads.what = resource(QUEUE, queue.name, queue.vhost_name)

    def waiting_retries(
        self, queue: QueueClient, count_max: int, answer: Answer[list[WaitingRetry]]
    ) -> None:
        """Those of a queue on this node."""
        retries = self._retries_of(queue)
        answer.give([] if retries is None else retries.listed(count_max))

    def end_waiting(
        self, queue: QueueClient, chosen: Chosen, is_discarded: bool, answer: Answer[int]
    ) -> None:
        """Those of a queue on this node."""
        retries = self._retries_of(queue)
        answer.give(0 if retries is None else retries.end_waiting(chosen, is_discarded))

    def _retries_of(self, queue: QueueClient) -> Retries | None:
        leader = self.leader_here(queue)
        return leader.retries if isinstance(leader, ClassicQueue) else None

    def messages_here(self, queue: QueueClient) -> BackingQueue | None:
        """The queue's messages, after the deliveries that its next turn would make.

        Messages that wait for a retry are among them.
        """
        if not isinstance(queue, ClassicQueue):
            return None
        queue.settle_deliveries()
        queue.return_waiting()
        return queue.backing

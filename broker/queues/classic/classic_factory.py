"""The factory of queues that keep their messages in a backing queue of this node."""

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.runtime.names import QUEUE, resource
from leveret.storage.contract.backing_queue import BackingQueue


class ClassicFactory(QueueFactory):
    """Makes classic queues, and finds the messages of one."""

    def renamed(self, queue: QueueClient) -> None:
        """Its texts name it by its new name."""
        if isinstance(queue, ClassicQueue):
            queue.what = queue.reads.what = resource(QUEUE, queue.name, queue.vhost_name)

    def messages_here(self, queue: QueueClient) -> BackingQueue | None:
        """The queue's messages, after the deliveries that its next turn would make.

        Messages that wait for a retry are among them.
        """
        if not isinstance(queue, ClassicQueue):
            return None
        queue.settle_deliveries()
        queue.return_waiting()
        return queue.backing

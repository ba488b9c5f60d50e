"""The kinds of queues that a node serves by itself."""

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.broker.queues.contract.queue_kinds import QueueKinds
from leveret.broker.queues.quorum.quorum_queue import QUORUM_QUEUE, QuorumQueue


def served_kinds() -> QueueKinds:
    """A new table with classic queues and quorum queues."""
    kinds = QueueKinds()
    kinds.add(QueueFactory(CLASSIC_QUEUE, ClassicQueue))
    kinds.add(QueueFactory(QUORUM_QUEUE, QuorumQueue))
    return kinds

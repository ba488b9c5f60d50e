"""The kinds of queue that a node serves without a package, and those that it only recognizes."""

from leveret.broker.queues.classic.classic_factory import ClassicFactory
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.broker.queues.contract.queue_kinds import QueueKinds
from leveret.broker.queues.quorum.quorum_queue import QUORUM_QUEUE, QuorumQueue
from leveret.broker.queues.stream_kind import STREAM_QUEUE


def served_kinds() -> QueueKinds:
    """A new table with classic queues and quorum queues."""
    kinds = QueueKinds()
    kinds.add(ClassicFactory(CLASSIC_QUEUE, ClassicQueue))
    kinds.add(ClassicFactory(QUORUM_QUEUE, QuorumQueue))
    kinds.know(STREAM_QUEUE)
    return kinds

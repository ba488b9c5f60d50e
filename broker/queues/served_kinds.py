"""The kinds of queue that a node serves without a package, and those that it only recognizes."""

from leveret.broker.queues.classic.classic_factory import ClassicFactory
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.broker.queues.contract.queue_kinds import QueueKinds
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.queues.stream_kind import STREAM_QUEUE


def served_kinds() -> QueueKinds:
    """A new table with classic queues. The code that runs the node adds quorum queues."""
    kinds = QueueKinds()
    kinds.add(ClassicFactory(CLASSIC_QUEUE, ClassicQueue))
    kinds.know(QUORUM_QUEUE)
    kinds.know(STREAM_QUEUE)
    return kinds

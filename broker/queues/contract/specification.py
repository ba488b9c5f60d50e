"""The specification of a queue: its declaration as one value.

It is made once for each declaration (`QueueKinds.specify`), with the kind and the options that the
arguments ask for. All code that creates queues takes it.
"""

from typing import NamedTuple

from leveret.broker.amqp.field_table import Table
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.placement import HERE, Placement
from leveret.broker.queues.contract.queue_client import ExclusiveOwner, QueueClient
from leveret.broker.queues.contract.queue_kind import QueueKind


class QueueSpecification(NamedTuple):
    """Everything that a queue is declared with.

    options: those from the arguments. owner: the connection that owns an exclusive queue.
    storage_id: the number under which this node stores the queue's messages; 0 if it does not.
    placement: where it lives; not chosen yet for a queue that is about to be declared.
    """

    vhost: str
    name: str
    kind: QueueKind
    durable: bool
    auto_delete: bool
    arguments: Table
    options: QueueOptions
    owner: ExclusiveOwner | None = None
    storage_id: int = 0
    placement: Placement = HERE

    @property
    def is_exclusive(self) -> bool:
        """Only one connection may use the queue."""
        return self.owner is not None


def specification_of(vhost: str, queue: QueueClient) -> QueueSpecification:
    """The specification of an existing queue, for another object that represents it."""
    return QueueSpecification(
        vhost, queue.name, queue.kind, queue.durable, queue.auto_delete, queue.arguments,
        queue.declared, queue.owner_connection, queue.storage_id, queue.placement,
    )  # fmt: skip

"""Mirrors of queues, as the broker sees them: a record that it keeps with a queue, as bytes.

Who leads a queue and who mirrors it is declared like everything else. What is in a record, which
changes there are and which of them are possible is the cluster's business (cluster/mirrors/). A
change is asked for with `ChangeQueueMirrors`. The node that orders declarations has `QueueMirrors`
complete it, so that a change is always made on the record that all changes before it have led to.
A queue without mirrors has no record.
"""

from typing import NamedTuple, Protocol

from leveret.broker.amqp.field_table import Table
from leveret.broker.queues.queue_client import QueueClient
from leveret.broker.queues.queue_home import QueueHome
from leveret.broker.queues.queue_kind import QueueKind


class MirrorsOutcome(NamedTuple):
    """What a change of a queue's mirrors leads to.

    record: empty for a queue without mirrors. node: the queue's home, which leads or is waited for.
    new_copy: the node that has a new copy by this change, without messages; empty for none.
    incarnation: the run of this node that is to have it.
    """

    record: bytes
    node: str
    new_copy: str = ""
    incarnation: int = 0


class DeclaredQueue(NamedTuple):
    """What a queue is declared with that may be mirrored."""

    vhost: str
    name: str
    kind: QueueKind
    durable: bool
    auto_delete: bool
    arguments: Table
    home: QueueHome


class QueueMirrors(Protocol):
    """The records of a node's queues."""

    def complete(
        self, vhost: str, queue: QueueClient, record: bytes, change: bytes
    ) -> MirrorsOutcome | None:
        """What a change leads to; None if no node has messages of the queue any more.

        It depends only on what is declared. record: of the queue before. Raises 406, with a
        text for who has asked, if the change is not possible.
        """

    def make_queue(self, declared: DeclaredQueue, record: bytes) -> QueueClient:
        """What stands for a queue on this node that is declared with a record."""

    def changed(self, vhost: str, queue: QueueClient, record: bytes, storage_id: int) -> None:
        """A queue was declared with a record, or its record has changed.

        record: empty if it has no mirrors any more. storage_id: of the copy that this node begins
        with the change, or has when the queue is declared, as after a restart; 0 for none.
        """

    def policies_changed(self, vhost: str, queue: QueueClient) -> None:
        """Other policies are in force for a queue."""


class NoMirrors:
    """See `QueueMirrors`: no queue is mirrored."""

    def complete(
        self, vhost: str, queue: QueueClient, record: bytes, change: bytes
    ) -> MirrorsOutcome | None:
        """Nothing is possible."""
        raise ValueError(f"{queue!r} cannot be mirrored by this node")

    def make_queue(self, declared: DeclaredQueue, record: bytes) -> QueueClient:
        """Nothing is possible."""
        raise ValueError(f"the queue {declared.name!r} cannot be mirrored by this node")

    def changed(self, vhost: str, queue: QueueClient, record: bytes, storage_id: int) -> None:
        """Nothing follows."""

    def policies_changed(self, vhost: str, queue: QueueClient) -> None:
        """Nothing follows."""


NO_MIRRORS = NoMirrors()

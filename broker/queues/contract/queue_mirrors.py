"""Mirrors of queues, as the broker sees them: a record that it keeps with a queue, as bytes.

A declaration says which node leads a queue and which nodes mirror it. The content of a record, and
the changes that are possible, are the cluster's business (cluster/mirrors/). A change is requested
with `ChangeQueueMirrors`. The node that orders declarations has `QueueMirrors` complete it, so that
a change is always made on the record that all changes before it have led to.
A queue without mirrors has no record.
"""

from typing import NamedTuple, Protocol

from leveret.broker.amqp.field_table import Table
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_kind import QueueKind


class MirrorsOutcome(NamedTuple):
    """The result of a change of a queue's mirrors.

    record: empty for a queue without mirrors. node: the queue's home, which leads or is waited for.
    new_copy: the node that gets a new copy by this change, without messages; empty for none.
    incarnation: the run of the node that is to have the copy.
    """

    record: bytes
    node: str
    new_copy: str = ""
    incarnation: int = 0


class DeclaredQueue(NamedTuple):
    """The declaration of a queue that may be mirrored."""

    vhost: str
    name: str
    kind: QueueKind
    durable: bool
    auto_delete: bool
    arguments: Table
    placement: Placement


class QueueMirrors(Protocol):
    """The records of a node's queues."""

    def complete(self, vhost: str, queue: QueueClient, change: bytes) -> MirrorsOutcome | None:
        """The result of a change; None if no node has messages of the queue any longer.

        It depends only on declared objects. Raises 406, with a text for the requester, if the
        change is not possible.
        """

    def make_queue(self, declared: DeclaredQueue) -> QueueClient:
        """The object that stands for a queue on this node that is declared with a record."""

    def changed(self, vhost: str, queue: QueueClient, storage_id: int) -> None:
        """A queue was declared with a record, or its record has changed.

        storage_id: of the copy that begins on this node
        with the change, or that it has when the queue is declared, as after a restart; 0 for none.
        """

    def policies_changed(self, vhost: str, queue: QueueClient) -> None:
        """Other policies are in force for a queue."""


class NoMirrors:
    """The mirrors of a node on its own: no queue is mirrored."""

    def complete(self, vhost: str, queue: QueueClient, change: bytes) -> MirrorsOutcome | None:
        """Nothing is possible."""
        raise ValueError(f"{queue!r} cannot be mirrored by this node")

    def make_queue(self, declared: DeclaredQueue) -> QueueClient:
        """Nothing is possible."""
        raise ValueError(f"the queue {declared.name!r} cannot be mirrored by this node")

    def changed(self, vhost: str, queue: QueueClient, storage_id: int) -> None:
        """Nothing follows."""

    def policies_changed(self, vhost: str, queue: QueueClient) -> None:
        """Nothing follows."""


NO_MIRRORS = NoMirrors()

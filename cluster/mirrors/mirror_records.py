"""The records of this node's queues, for the broker: `QueueMirrors`.

It completes changes with the state of the queue and its policies at that moment, and passes records
and policies to the listener, which has the members of this node.
"""

from typing import Protocol

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.policies.parameters import OPERATOR_POLICY, POLICY
from leveret.broker.policies.policy_table import PolicyTable, merged
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_kind import CLASSIC
from leveret.broker.queues.contract.queue_mirrors import DeclaredQueue, MirrorsOutcome
from leveret.broker.runtime.names import QUEUE, resource
from leveret.cluster.mirrors import record_changes
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.planning import (
    NOT_MIRRORED,
    SYNC_BATCH_SIZE,
    Mirroring,
    read_mirroring,
)
from leveret.cluster.mirrors.record_changes import QueueFacts
from leveret.cluster.rpc.refused import Refused


class Listener(Protocol):
    """Follows the records. Calls come in the order of the log, while an entry is applied."""

    def make_queue(self, declared: DeclaredQueue, record: MirrorRecord) -> QueueClient:
        """The client of a queue that is declared with a record."""

    def record_changed(
        self, vhost: str, queue: QueueClient, record: MirrorRecord | None, storage_id: int
    ) -> None:
        """A queue was declared with a record, has another one, or no longer has one.

        storage_id: see `QueueMirrors.changed`.
        """

    def policies_changed(self, vhost: str, queue: QueueClient) -> None:
        """Other policies are in force for a queue, or it was just declared and has some."""


class MirrorRecords:
    """policies: those of this node. sync_batch_size: as configured. listener: must be set before
    anything is declared.
    """

    listener: Listener

    def __init__(self, policies: PolicyTable, sync_batch_size: int = SYNC_BATCH_SIZE) -> None:
        self._policies = policies
        self._sync_batch_size = sync_batch_size

    def mirroring_of(self, vhost: str, queue: QueueClient) -> Mirroring:
        """The mirroring that the matching policies of a queue ask for now."""
        if not may_be_mirrored(queue):
            return NOT_MIRRORED
        policy, operator_policy = (
            self._policies.of_queue(component, vhost, queue.name, queue.kind)
            for component in (POLICY, OPERATOR_POLICY)
        )
        return read_mirroring(merged(policy, operator_policy), self._sync_batch_size)

    def complete(self, vhost: str, queue: QueueClient, change: bytes) -> MirrorsOutcome | None:
        """The outcome of a change; None if no node has messages of the queue any longer."""
        # A name in AMQP may have any bytes; a record has text.
        title = resource(QUEUE, queue.name, vhost).encode(errors="replace").decode()
        facts = QueueFacts(
            title,
            queue.placement.node,
            queue.durable,
            may_be_mirrored(queue),
            self.mirroring_of(vhost, queue),
        )
        try:
            return record_changes.complete(queue.placement.record, change, facts)
        except Refused as error:
            raise precondition_failed(str(error)) from None

    def make_queue(self, declared: DeclaredQueue) -> QueueClient:
        """The client of a queue that is declared with a record."""
        decoded = record_changes.decode_record(declared.placement.record)
        assert decoded is not None, "a queue without a record is of its kind"
        return self.listener.make_queue(declared, decoded)

    def changed(self, vhost: str, queue: QueueClient, storage_id: int) -> None:
        """A queue was declared with a record, or its record has changed."""
        decoded = record_changes.decode_record(queue.placement.record)
        self.listener.record_changed(vhost, queue, decoded, storage_id)

    def policies_changed(self, vhost: str, queue: QueueClient) -> None:
        """Other policies are in force for a queue."""
        self.listener.policies_changed(vhost, queue)


def may_be_mirrored(queue: QueueClient) -> bool:
    """Whether a queue is of a kind that can be mirrored, and not exclusive."""
    return queue.kind.name == CLASSIC and not queue.is_exclusive

"""Queues, and where they live.

`ChangePlacement` requests another leader or other members. When it is ordered it is replaced by the
outcome (broker/queues/contract/queue_factory.py), or left out if it changes nothing, if the queue
was deleted in the meantime, or if the node is not in a cluster.

A declaration names the connection that owns an exclusive queue. If no such connection is registered
it has ended, and the queue is skipped. In a cluster, where the other nodes cannot know that, the
queue is added, and then deleted by this node.

Source of the events: RabbitMQ's `rabbit_amqqueue_process`.
"""

import base64
from collections import deque
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import decode_table, encode_table
from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.decided_replacements import DECIDED_REPLACEMENT
from leveret.broker.declarations.requester import AMQP, Requester
from leveret.broker.declarations.values import (
    ChangePlacement,
    Declaration,
    DeleteQueue,
    PutPlacement,
    PutQueue,
    PutQueueHome,
    ReplaceQueue,
)
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.queue_client import ExclusiveOwner, QueueClient
from leveret.broker.queues.contract.queue_kinds import queue_type
from leveret.broker.queues.contract.remote_owner import RemoteOwner
from leveret.broker.registry.declared_objects import NO_STEPS, VHOST, Place
from leveret.broker.registry.objects.bindings import detaching
from leveret.broker.registry.objects_of_vhosts import ObjectsOfVhosts, logger
from leveret.broker.registry.stored_rows import StoredRows, put_row
from leveret.broker.runtime.names import NODE_ITSELF, QUEUE, is_delaying, resource
from leveret.broker.vhost.own_deletions import DELETE_QUEUE_WORK
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.metadata.metadata import Metadata
from leveret.storage.metadata.metadata_rows import QueueRow

QUEUE_HOME = "queue-home"
"""The component of the rows with the node and the identity of queues. A node that is not in a
cluster has none of them."""
QUEUE_RECORD = "queue-mirrors"
"""The component of the rows with the records of placements that have one (placement.py)."""
QUEUE_COPY = "queue-copy"
"""The component of the rows with the storage ids of this node's copies of queues, which replace
those that the queues were declared with."""

Change = DeleteQueue | PutQueueHome | ChangePlacement | PutPlacement | ReplaceQueue


class DeclaredQueues(ObjectsOfVhosts[PutQueue, Change]):
    """The queues of all vhosts."""

    types = (PutQueue, DeleteQueue, PutQueueHome, ChangePlacement, PutPlacement, ReplaceQueue)
    components = (QUEUE_HOME, QUEUE_RECORD, QUEUE_COPY)

    # On disk

    @staticmethod
    def write(it: PutQueue | Change, metadata: Metadata) -> None:
        match it:
            case PutQueue():
                _put_queue(it, metadata)
            case PutQueueHome():
                _put_home(it, metadata)
            case PutPlacement():
                with metadata.batch():
                    _put_home(it, metadata)
                    _put_record(metadata, it.vhost, it.name, it.record)
                    if it.storage_id:
                        put_row(metadata, it.vhost, QUEUE_COPY, it.name, it.storage_id)
            case DeleteQueue():
                with metadata.batch():
                    _delete(metadata, it.vhost, it.name)
            case ReplaceQueue():
                with metadata.batch():
                    _put_successor(it, metadata)
            case ChangePlacement():
                raise AssertionError(f"{it!r} was not completed")

    @staticmethod
    def rows_deleted_with(it: PutQueue | Change) -> tuple[str, ...] | None:
        return (it.vhost, QUEUE, it.name) if isinstance(it, DeleteQueue) else None

    @staticmethod
    def read(rows: StoredRows) -> Iterator[PutQueue]:
        homes, records, copies = map(rows.values, DeclaredQueues.components)
        for row in rows.definitions.queues:
            place = (row.vhost, row.name)
            node, identity = homes.get(place, ("", 0))
            yield PutQueue(
                row.vhost, row.name, row.durable, row.auto_delete, row.arguments,
                storage_id=copies.get(place, row.storage_id), node=node, identity=identity,
                record=base64.b64decode(records.get(place, "")),
            )  # fmt: skip

    # From one content to another

    @staticmethod
    def place(it: PutQueue) -> Place:
        return QUEUE, it.vhost, it.name

    @staticmethod
    def needs(it: PutQueue) -> tuple[Place, ...]:
        return ((VHOST, it.vhost),)

    @staticmethod
    def deletion(it: PutQueue) -> DeleteQueue:
        return DeleteQueue(it.vhost, it.name)

    @classmethod
    def becoming(cls, mine: PutQueue, theirs: PutQueue) -> PutPlacement | None:
        """A queue whose placement has a record stays if only the placement differs."""
        has_record = mine.record or theirs.record
        if not has_record or replace(mine, node=theirs.node, record=theirs.record) != theirs:
            return None
        return PutPlacement(theirs.vhost, theirs.name, theirs.identity, theirs.node, theirs.record)

    def contents(self) -> Iterator[PutQueue]:
        for vhost in self._tables.vhosts.values():
            for queue in vhost.all_queues():
                owner = queue.owner_connection
                yield PutQueue(
                    vhost.name, queue.name, queue.durable, queue.auto_delete,
                    encode_table(queue.arguments), "" if owner is None else owner.name,
                    owner_node=_node_of(vhost, owner), node=queue.placement.node,
                    identity=queue.placement.identity, record=queue.placement.record,
                )  # fmt: skip

    # Declaring

    def completed(self, it: PutQueue | Change) -> Declaration | None:
        if isinstance(it, PutQueue):
            return None if self._found(it) is not None else it
        if isinstance(it, ChangePlacement):
            return _outcome(self._tables.vhosts[it.vhost], it)
        if isinstance(it, ReplaceQueue):
            return _with_placement(self._tables.vhosts[it.vhost], it)
        if isinstance(it, DeleteQueue):
            self._check_deletion(it)
        return it

    def _check_deletion(self, it: DeleteQueue) -> None:
        """Raise 406 if the queue replaces another one: that may be made already on a node."""
        if self._tables.parameters.get(DECIDED_REPLACEMENT, it.vhost, it.name) is not None:
            raise precondition_failed(
                f"{resource(QUEUE, it.name, it.vhost)} is just getting the name of another queue; "
                "delete the queue of this name instead"
            )

    def is_durable(self, it: PutQueue | Change) -> bool:
        if isinstance(it, PutQueue):
            return it.durable
        queue = self._found(it)
        return queue is not None and queue.durable

    def stores_messages(self, it: PutQueue | Change) -> bool:
        kinds = self._tables.vhosts[it.vhost].kinds
        if isinstance(it, PutQueue):
            return it.durable and (not kinds.node or it.node in ("", kinds.node))
        # A copy that was requested from an earlier run does not belong to this run.
        return (
            isinstance(it, PutPlacement)
            and self.is_durable(it)
            and bool(kinds.node)
            and (it.new_copy, it.incarnation) == (kinds.node, kinds.incarnation)
        )

    def _found(self, it: PutQueue | Change) -> QueueClient | None:
        return self._tables.vhosts[it.vhost].queues_named_like(it.name).get(it.name)

    def apply(self, it: PutQueue | Change) -> Iterator[int]:
        vhost = self._vhost_of(it)
        if vhost is None:
            return NO_STEPS
        match it:
            case DeleteQueue():
                return self._deleting(vhost, it)
            case PutQueue():
                if it.name not in vhost.queues_named_like(it.name):
                    self._add(vhost, it)
            case ReplaceQueue():
                self._replace(vhost, it)
            case PutQueueHome() | PutPlacement():
                _move(vhost, it)
                self._tables.dependents.resource_changed(QUEUE, it.vhost, it.name)
            case ChangePlacement():
                raise AssertionError(f"{it!r} was not completed")
        return NO_STEPS

    def _add(self, vhost: VirtualHost, it: PutQueue) -> None:
        is_own = not vhost.node or it.owner_node in ("", vhost.node)
        owner = self._tables.exclusive_owners.get(it.owner) if is_own else None
        is_orphan = bool(it.owner) and is_own and owner is None
        if is_orphan and not vhost.node:
            logger.info("%r is skipped: the connection that owns the queue has ended", it)
            return
        owner_elsewhere = RemoteOwner(it.owner, it.owner_node) if it.owner else None
        queue = vhost.add_queue(
            vhost.kinds.specify(
                it.vhost, it.name, decode_table(it.arguments)[0], durable=it.durable,
                auto_delete=it.auto_delete, owner=owner or owner_elsewhere,
                storage_id=it.storage_id, placement=Placement(it.node, it.identity, it.record),
            )
        )  # fmt: skip
        if owner is not None:
            owner.exclusive_queues[it.name] = queue
        vhost.counts.queues_created += not is_delaying(it.name)
        _queue_created(vhost, queue, it.acting_user)
        if is_orphan:
            # Later, since applying a declaration must not submit another one (RG1).
            vhost.turns.after_round(lambda: vhost.delete_queue(queue))

    def _deleting(self, vhost: VirtualHost, it: DeleteQueue) -> Iterator[int]:
        """Remove a queue with its messages, and the bindings to it."""
        queue = vhost.queues_named_like(it.name).pop(it.name, None)
        if queue is not None:
            vhost.counts.queues_deleted += not is_delaying(it.name)
            if queue.owner_connection is not None:
                queue.owner_connection.forget_queue(queue.name)
            self._tables.cancelled += queue.delete_now()
            vhost.routes_changed()
            yield DELETE_QUEUE_WORK
            yield from detaching(vhost, deque(queue.bindings.values()), NODE_ITSELF)
            vhost.routes_changed()
            _queue_deleted(vhost, queue, it.acting_user)
        self._tables.dependents.resource_changed(QUEUE, it.vhost, it.name)

    def _replace(self, vhost: VirtualHost, it: ReplaceQueue) -> None:
        """Give the name of a queue to another one."""
        queue, successor = vhost.queues.get(it.name), vhost.queues.get(it.successor)
        if queue is None or successor is None:
            return
        _queue_deleted(vhost, successor, it.acting_user)
        arguments = decode_table(it.arguments)[0]
        declared = vhost.kinds.specify(it.vhost, it.name, arguments).options
        self._tables.cancelled += vhost.replace_by(queue, successor, arguments, declared)
        _queue_deleted(vhost, queue, it.acting_user)
        _queue_created(vhost, successor, it.acting_user)
        for name in (it.successor, it.name):
            self._tables.dependents.resource_changed(QUEUE, it.vhost, name)

    # The audit

    def is_reported(self, it: PutQueue | Change, requester: Requester) -> bool:
        if is_delaying(it.name):
            return False  # The exchange that it belongs to is reported.
        is_by_client = isinstance(it, DeleteQueue) and requester.way == AMQP
        return self.is_durable(it) if is_by_client else super().is_reported(it, requester)

    def acts(self, it: PutQueue | Change) -> Iterator[AuditedChange]:
        name = resource(QUEUE, it.name, it.vhost)
        match it:
            case PutQueue():
                yield _act(it, "queue.created", f"Declared {name}", durable=it.durable)
            case PutQueueHome():
                yield _act(it, "queue.moved", f"Moved {name} to node '{it.node}'", node=it.node)
            case PutPlacement():
                text = f"Changed the members of {name}, which is led by node '{it.node}'"
                yield _act(it, "queue.members.changed", text, node=it.node)
            case ReplaceQueue():
                kind = queue_type(decode_table(it.arguments)[0])
                yield _act(it, "queue.converted", f"Converted {name} to a {kind} queue", type=kind)
            case DeleteQueue() if (queue := self._found(it)) is not None:
                counts = queue.figures.counts()
                count = counts.ready + counts.unacked
                text = f"Deleted {name} with {count} messages"
                yield _act(it, "queue.deleted", text, messages=count)


def _act(it: PutQueue | Change, action: str, text: str, **detail: Any) -> AuditedChange:
    return AuditedChange(action, QUEUE, it.name, text, it.vhost, detail)


# Rows


def _put_queue(it: PutQueue, metadata: Metadata) -> None:
    row = QueueRow(it.vhost, it.name, it.durable, it.auto_delete, it.storage_id, it.arguments)
    if not it.node and not it.identity:
        metadata.put_queue(row)
        return
    with metadata.batch():
        metadata.put_queue(row)
        _put_home(it, metadata)
        if it.record:
            _put_record(metadata, it.vhost, it.name, it.record)


def _delete(metadata: Metadata, vhost: str, name: str) -> None:
    metadata.delete_queue(vhost, name)
    for component in DeclaredQueues.components:
        metadata.delete_parameter(vhost, component, name)


def _put_successor(it: ReplaceQueue, metadata: Metadata) -> None:
    """Replace the rows of a queue by those of its successor, and leave its bindings."""
    storage_id = metadata.storage_id_of(it.vhost, it.successor)
    _delete(metadata, it.vhost, it.successor)
    for component in DeclaredQueues.components:
        metadata.delete_parameter(it.vhost, component, it.name)
    _put_queue(
        PutQueue(
            it.vhost, it.name, True, arguments=it.arguments, storage_id=storage_id, node=it.node,
            identity=it.successor_identity, record=it.record,
        ),
        metadata,
    )  # fmt: skip


def _put_home(it: PutQueue | PutQueueHome | PutPlacement, metadata: Metadata) -> None:
    put_row(metadata, it.vhost, QUEUE_HOME, it.name, [it.node, it.identity])


def _put_record(metadata: Metadata, vhost: str, queue: str, record: bytes) -> None:
    """An empty record has no row."""
    if record:
        put_row(metadata, vhost, QUEUE_RECORD, queue, base64.b64encode(record).decode())
    else:
        metadata.delete_parameter(vhost, QUEUE_RECORD, queue)


# Where a queue lives


def _node_of(vhost: VirtualHost, owner: ExclusiveOwner | None) -> str:
    """The node of the connection that owns a queue; empty without one, or without a cluster."""
    if isinstance(owner, RemoteOwner):
        return owner.node
    return "" if owner is None else vhost.node


def _same_queue(
    vhost: VirtualHost, it: PutQueueHome | ChangePlacement | PutPlacement
) -> QueueClient | None:
    """The queue of a declaration; None if it was deleted, even if its name is in use again."""
    queue = vhost.queues_named_like(it.name).get(it.name)
    return queue if queue is not None and queue.placement.identity == it.identity else None


def _outcome(vhost: VirtualHost, it: ChangePlacement) -> Declaration | None:
    """The outcome of a change, computed from the record before everything submitted with it (DC4).

    Raises 406 if the change is impossible.
    """
    queue = _same_queue(vhost, it)
    if queue is None:
        return None
    outcome = vhost.kinds.of(queue.kind).complete(vhost.name, queue, it.change)
    if outcome is None:
        return DeleteQueue(it.vhost, it.name, acting_user=it.acting_user)
    placement = outcome.placement
    if placement == queue.placement:
        return None
    return PutPlacement(
        it.vhost, it.name, it.identity, placement.node, placement.record, outcome.new_copy,
        incarnation=outcome.incarnation, acting_user=it.acting_user,
    )  # fmt: skip


def _with_placement(vhost: VirtualHost, it: ReplaceQueue) -> ReplaceQueue:
    """The replacement with the newest placement of the successor.

    It changes nothing if it was made before. Raises 406 if one of the queues was deleted.
    """
    found = vhost.queues.get(it.name)
    if found is not None and found.placement.identity == it.successor_identity:
        return replace(it, node=found.placement.node, record=found.placement.record)
    identities = ((it.name, it.identity), (it.successor, it.successor_identity))
    for name, identity in identities:
        queue = vhost.queues.get(name)
        if queue is None or queue.placement.identity != identity:
            raise precondition_failed(f"{resource(QUEUE, name, vhost.name)} was deleted")
    placement = vhost.queues[it.successor].placement
    return replace(it, node=placement.node, record=placement.record)


def _move(vhost: VirtualHost, it: PutQueueHome | PutPlacement) -> None:
    """Change the placement of a queue."""
    queue = _same_queue(vhost, it)
    if queue is None:
        return
    if isinstance(it, PutPlacement):
        placement = Placement(it.node, it.identity, it.record)
        vhost.set_placement(queue, placement, it.storage_id)
    else:
        vhost.set_placement(queue, queue.placement._replace(node=it.node))


def deleting_with_vhost(vhost: VirtualHost, queue: QueueClient, acting_user: str) -> Iterator[int]:
    """The steps of removing a queue of a vhost that is deleted."""
    vhost.delete_with_it(queue)
    yield from detaching(vhost, deque(queue.bindings.values()), NODE_ITSELF)
    _queue_deleted(vhost, queue, acting_user)
    yield DELETE_QUEUE_WORK


# Events


def _queue_created(vhost: VirtualHost, queue: QueueClient, acting_user: str) -> None:
    if not vhost.events.are_wanted or is_delaying(queue.name):
        return
    owner = queue.owner_connection
    vhost.events.notify("queue.created", {
        "name": queue.name,
        "vhost": vhost.name,
        "type": queue.kind.module,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.is_exclusive,
        "owner_pid": "" if owner is None else vhost.events.pid(owner.name),
        "arguments": queue.arguments,
        "user_who_performed_action": acting_user,
    })  # fmt: skip


def _queue_deleted(vhost: VirtualHost, queue: QueueClient, acting_user: str) -> None:
    if vhost.events.are_wanted and not is_delaying(queue.name):
        vhost.events.notify("queue.deleted", {
            "name": queue.name, "vhost": vhost.name, "type": queue.kind.module,
            "user_who_performed_action": acting_user,
        })  # fmt: skip

"""Declarations of queues' mirrors: changes that are asked for, and the records that come of them.

See broker/queues/queue_mirrors.py. A change of a queue that was deleted meanwhile, or on a node
that is in no cluster, is left out, as is one that changes nothing.
"""

from collections.abc import Iterable, Mapping

from leveret.broker.declarations import (
    ChangeQueueMirrors,
    Declaration,
    DeleteQueue,
    PutQueueMirrors,
)
from leveret.broker.queues.queue_client import QueueClient
from leveret.broker.vhost import VirtualHost


def with_mirrors_changed(
    vhosts: Mapping[str, VirtualHost], declarations: Iterable[Declaration]
) -> list[Declaration]:
    """The declarations, with outcomes in place of changes. Raises 406 for an impossible one.

    Each is made on the record before all of them (L4).
    """
    made = []
    for it in declarations:
        outcome = _outcome(vhosts[it.vhost], it) if isinstance(it, ChangeQueueMirrors) else it
        if outcome is not None:
            made.append(outcome)
    return made


def _outcome(vhost: VirtualHost, it: ChangeQueueMirrors) -> Declaration | None:
    queue = queue_of(vhost, it)
    if queue is None or vhost.places is None:
        return None
    record = vhost.mirrors.get(it.name, b"")
    outcome = vhost.places.mirrors.complete(vhost.name, queue, record, it.change)
    if outcome is None:
        return DeleteQueue(it.vhost, it.name, acting_user=it.acting_user)
    if outcome.record == record and outcome.node == queue.home.node:
        return None
    return PutQueueMirrors(
        it.vhost, it.name, it.identity, outcome.node, outcome.record, outcome.new_copy,
        incarnation=outcome.incarnation, acting_user=it.acting_user,
    )  # fmt: skip


def queue_of(vhost: VirtualHost, it: ChangeQueueMirrors | PutQueueMirrors) -> QueueClient | None:
    """The queue that a declaration is about; None if it is gone, or is another one by now."""
    queue = vhost.queues.get(it.name)
    return queue if queue is not None and queue.home.identity == it.identity else None


def put_mirrors(vhost: VirtualHost, it: PutQueueMirrors) -> None:
    """Apply the outcome of a change, if the queue is still there."""
    queue = queue_of(vhost, it)
    if queue is not None:
        vhost.set_mirrors(queue, it.node, it.record, it.storage_id)

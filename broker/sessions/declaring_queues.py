"""Declares, deletes and purges queues for a session.

The checks, their order and their texts are RabbitMQ's. An empty name stands for the queue that the
session declared last. The functions raise ChannelFault and ConnectionFault, and MetadataError for a
change that cannot be written to disk.
"""

from collections.abc import Callable
from typing import NamedTuple

from leveret.broker.amqp.errors import Fault, not_found
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.properties import DIRECT_REPLY_TO
from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.queues.contract.arguments import check_dead_letter_exchange
from leveret.broker.queues.contract.queue_client import QueueClient, QueueLength
from leveret.broker.queues.contract.queue_kind import CLASSIC, QUORUM, TYPE_ARGUMENT
from leveret.broker.queues.contract.queue_kinds import queue_type
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.runtime.generated_names import generate_name
from leveret.broker.runtime.names import EXCHANGE, QUEUE, resource, without_line_breaks
from leveret.broker.runtime.pending import Answer, given
from leveret.broker.sessions.access import (
    check,
    check_exclusive_access,
    check_not_reserved,
    check_not_sharded,
    expand_queue_name,
    find_queue,
    is_sharded,
    locked,
)
from leveret.broker.sessions.equivalence import require_same, require_same_arguments
from leveret.broker.sessions.session import Session
from leveret.broker.vhost.sharding import shard_name


class QueueProperties(NamedTuple):
    """The properties that a queue is declared with. An exclusive queue is never durable.

    name_prefix: with which the broker's name for a queue without a name begins.
    """

    arguments: Table
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    name_prefix: str = "amq.gen"


class DeclaredQueueState(NamedTuple):
    """A queue that was declared. synced: given when the declaration is on disk."""

    name: str
    message_count: int
    consumer_count: int
    synced: Answer[None]


async def declare_queue(
    session: Session, name: str, properties: QueueProperties | None
) -> DeclaredQueueState:
    """Declare a queue; without properties, check that it exists.

    A new queue whose name is empty gets a generated one.
    """
    name = without_line_breaks(name)
    if name.startswith(DIRECT_REPLY_TO):
        return await _declare_reply_queue(session, name)
    if is_sharded(session, name):
        # Any shard would do for the answer; the plugin takes the first, too.
        name = shard_name(name, session.services.config.node_name, 0)
    if session.services.config.takes_over_exclusive_queues:
        await _end_absent_owner(session, name)
    if properties is None:
        queue, synced = find_queue(session, expand_queue_name(session, name)), given(None)
    else:
        queue, synced = await _declare_actively(session, name, properties)
    answer: Answer[QueueLength] = Answer()
    queue.length(answer)
    length = await answer
    session.services.counts.queues_declared += 1
    session.last_queue = queue.name
    return DeclaredQueueState(queue.name, length.ready_count, length.consumer_count, synced)


async def _end_absent_owner(session: Session, name: str) -> None:
    """Delete an exclusive queue whose owner, of the same user, is gone."""
    queue = session.vhost.queues.get(name)
    owner = None if queue is None else queue.owner_connection
    if queue is None or owner is None or owner is session.connection:
        return
    connection = session.connection
    if await session.services.absent_owners.end_if_gone(owner, connection.user.name):
        deleted: Answer[None] = Answer()
        session.vhost.delete_queue(queue, connection.requester, deleted)
        await deleted


async def _declare_reply_queue(session: Session, name: str) -> DeclaredQueueState:
    """Direct reply-to: the queue exists while a session consumes replies under its name."""
    if name != DIRECT_REPLY_TO:
        exists: Answer[bool] = Answer()
        session.services.replies.exists(name, exists)
        if not await exists:
            raise not_found(f"no {resource(QUEUE, name, session.vhost.name)}")
    session.last_queue = name
    return DeclaredQueueState(name, message_count=0, consumer_count=1, synced=given(None))


async def _declare_actively(
    session: Session, name: str, properties: QueueProperties
) -> tuple[QueueClient, Answer[None]]:
    """Declare a queue; the answer is given when it is on disk."""
    specification = specify(session, name, properties)
    queues = session.vhost.queues
    if name:
        await _check_named(session, specification)
    else:
        specification.kind.check_has_name(name)
        name = generate_name(properties.name_prefix)
        specification = specification._replace(name=name)
        await _check(session, specification)
    if name not in queues:
        synced = await _create(session, specification)
    else:
        synced = session.synced() if queues[name].durable else given(None)
    # Another client may have declared or deleted it in between.
    queue = find_queue(session, name)
    require_same_queue(session, queue, specification)
    return queue, synced


async def check_declaration(session: Session, name: str, properties: QueueProperties) -> None:
    """Check whether a queue could be declared, without declaring it. Raises the fault."""
    name = without_line_breaks(name)
    specification = specify(session, name, properties)
    await _check_named(session, specification)
    if name in session.vhost.queues:
        require_same_queue(session, find_queue(session, name), specification)


async def _check_named(session: Session, specification: QueueSpecification) -> None:
    if specification.name not in session.vhost.queues:
        check_not_reserved(QUEUE, specification.name)
    await _check(session, specification)


async def _check(session: Session, specification: QueueSpecification) -> None:
    await check(session, QUEUE, specification.name, "configure")
    if specification.name not in session.vhost.queues:
        await _check_new(session, specification)


def specify(session: Session, name: str, properties: QueueProperties) -> QueueSpecification:
    """The specification of a queue that a session declares."""
    vhost, is_exclusive = session.vhost, properties.exclusive
    return vhost.kinds.specify(
        vhost.name, name, properties.arguments, durable=properties.durable and not is_exclusive,
        auto_delete=properties.auto_delete, owner=session.connection if is_exclusive else None,
    )  # fmt: skip


async def _check_new(session: Session, specification: QueueSpecification) -> None:
    """Raise 403, 405 or 406 if a new queue cannot be declared."""
    vhost, name = session.vhost, specification.name
    dead_letter_exchange = check_dead_letter_exchange(specification.arguments, name, vhost.name)
    if dead_letter_exchange is not None:
        await check(session, QUEUE, name, "read")
        await check(session, EXCHANGE, dead_letter_exchange, "write")
    vhost.kinds.check(specification)
    session.services.limits.check_queues(vhost.name, name, len(vhost.queues))


async def _create(session: Session, specification: QueueSpecification) -> Answer[None]:
    """Create a queue; the answer is given when it is on disk."""
    connection = session.connection
    if specification.is_exclusive:
        session.services.registry.exclusive_owners.add(connection)
    declaration = session.vhost.declaration_of(specification, connection.user.name)
    created = session.submit(declaration)
    await created
    queue = session.vhost.queues.get(specification.name)
    if queue is not None:
        await _begin(session, queue)
    return created.synced()


async def _begin(session: Session, queue: QueueClient) -> None:
    """Wait until a new queue takes calls. If it does not it is deleted, and the error raised."""
    begun: Answer[None] = Answer()
    session.vhost.kinds.of(queue.kind).begin(queue, begun)
    try:
        await begun
    except Fault:
        session.vhost.delete_queue(queue, session.connection.requester)
        raise


def require_same_queue(
    session: Session, queue: QueueClient, specification: QueueSpecification
) -> None:
    """Raise 405 or 406 unless a queue matches the specification that it is declared with."""
    if queue.owner_connection is not specification.owner:
        raise locked(session, queue)
    config = session.services.config
    what = resource(QUEUE, queue.name, session.vhost.name)
    require_same("durable", specification.durable, queue.durable, what)
    require_same("auto_delete", specification.auto_delete, queue.auto_delete, what)
    names = queue.kind.arguments
    received, current = queue_type(specification.arguments), queue_type(queue.arguments)
    may_differ = (received, current) == (CLASSIC, QUORUM) and config.relaxes_redeclaration
    if config.is_as_rabbitmq_4 and not may_differ:
        require_same(TYPE_ARGUMENT, received, current, what)
    if received == current or may_differ:
        # A type that is not given is the same as `classic`.
        names = tuple(name for name in names if name != TYPE_ARGUMENT)
    require_same_arguments(names, specification.arguments, queue.arguments, what)


async def delete_queue(
    session: Session,
    name: str,
    *,
    if_unused: bool,
    if_empty: bool,
    tell: Callable[[int], object] | None,
) -> None:
    """Delete a queue; succeeds if it does not exist.

    tell: called with the number of its ready messages when the deletion is on disk; before the
    session's own consumers are cancelled, if nothing has to be written. None if no client is told:
    then nothing waits for the disk.
    """
    name = without_line_breaks(expand_queue_name(session, name))
    check_not_sharded(session, name, "delete")
    await check(session, QUEUE, name, "configure")
    queue = session.vhost.queues.get(name)
    if queue is None:
        if tell is not None:
            await session.synced()
            tell(0)
        return
    check_exclusive_access(session, queue)

    def tell_at_once(count: int) -> None:
        if tell is not None and not deleted.waits_for_sync:
            tell(count)

    deleted: Answer[int] = Answer(tell_at_once)
    queue.delete(if_unused, if_empty, session.connection.requester, deleted)
    count = await deleted
    if tell is not None and deleted.waits_for_sync:
        await deleted.synced()
        tell(count)


async def purge_queue(session: Session, name: str) -> int:
    """Drop all ready messages of a queue; return their number."""
    name = expand_queue_name(session, name)
    check_not_sharded(session, name, "purge")
    await check(session, QUEUE, name, "read")
    queue = find_queue(session, name)
    queue.kind.check_purge(name, session.vhost.name)
    purged: Answer[int] = Answer()
    queue.purge(purged)
    count = await purged
    what = resource(QUEUE, name, session.vhost.name)
    act = AuditedChange("queue.purged", QUEUE, name, f"Purged {what} of {count} messages",
                        session.vhost.name, {"messages": count})  # fmt: skip
    session.services.audit.note(session.connection.requester, act)
    return count

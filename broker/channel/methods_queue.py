"""The queue class: declaring, deleting, binding and purging queues."""

from pamqp import commands

from leveret.broker.amqp.errors import not_found
from leveret.broker.amqp.field_table import Table, encode_table, sorted_table
from leveret.broker.amqp.methods import table_argument
from leveret.broker.amqp.properties import DIRECT_REPLY_TO
from leveret.broker.audit import Act
from leveret.broker.binding import Exchange
from leveret.broker.channel.access import (
    check,
    check_exclusive_access,
    check_not_default_exchange,
    check_not_reserved,
    check_not_sharded,
    check_topic,
    expand_queue_name,
    find_queue,
    is_sharded,
    locked,
)
from leveret.broker.channel.channel import Channel
from leveret.broker.channel.equivalence import require_same, require_same_arguments
from leveret.broker.declarations import DeleteBinding, PutBinding, PutQueue
from leveret.broker.generated_names import generate_name
from leveret.broker.names import EXCHANGE, QUEUE, resource, without_line_breaks
from leveret.broker.pending import Answer, given
from leveret.broker.queues.arguments import check_dead_letter_exchange
from leveret.broker.queues.queue_client import QueueClient, QueueLength
from leveret.broker.queues.queue_kind import TYPE_ARGUMENT
from leveret.broker.queues.queue_kinds import queue_type
from leveret.broker.sharding import shard_name


async def declare(channel: Channel, method: commands.Queue.Declare) -> None:
    """Declare a queue; with passive, check that it exists."""
    name = without_line_breaks(method.queue)
    if name.startswith(DIRECT_REPLY_TO):
        await _declare_reply_queue(channel, name, method.nowait)
        return
    if is_sharded(channel, name):
        # As the plugin does, so that there is an answer: any shard would do.
        name = shard_name(name, channel.connection.services.config.node_name, 0)
    if method.passive:
        queue, synced = find_queue(channel, expand_queue_name(channel, name)), given(None)
    else:
        queue, synced = await _declare_actively(channel, name, method)
    answer: Answer[QueueLength] = Answer()
    queue.length(answer)
    length = await answer
    channel.connection.services.counts.queues_declared += 1
    channel.last_queue = queue.name
    if not method.nowait:
        await synced
        channel.send(
            commands.Queue.DeclareOk,
            queue=queue.name,
            message_count=length.ready_count,
            consumer_count=length.consumer_count,
        )


async def _declare_reply_queue(channel: Channel, name: str, nowait: bool) -> None:
    """Direct reply-to: the queue exists while a channel consumes replies under its name."""
    if name != DIRECT_REPLY_TO:
        exists: Answer[bool] = Answer()
        channel.connection.services.replies.exists(name, exists)
        if not await exists:
            raise not_found(f"no {resource(QUEUE, name, channel.vhost.name)}")
    channel.last_queue = name
    if not nowait:
        channel.send(commands.Queue.DeclareOk, queue=name, message_count=0, consumer_count=1)


async def _declare_actively(
    channel: Channel, name: str, method: commands.Queue.Declare
) -> tuple[QueueClient, Answer[None]]:
    """Declare a queue; the answer is given when it is on disk."""
    arguments = table_argument(method.arguments)
    if name:
        check_not_reserved_or_present(channel, name)
    else:
        channel.vhost.kinds.kind_of(arguments).check_has_name(name)
        name = generate_name("amq.gen")
    await check(channel, QUEUE, name, "configure")
    durable = method.durable and not method.exclusive
    queues = channel.vhost.queues
    if name not in queues:
        await _check_new(channel, name, durable, arguments, method)
    if name not in queues:
        synced = await _create(channel, name, durable, arguments, method)
    else:
        synced = channel.synced() if queues[name].durable else given(None)
    # Another client may have declared or deleted it meanwhile.
    queue = find_queue(channel, name)
    check_equivalence(channel, queue, durable, arguments, method)
    return queue, synced


def check_not_reserved_or_present(channel: Channel, name: str) -> None:
    """Raise 403 for a reserved name, unless the queue exists."""
    if name not in channel.vhost.queues:
        check_not_reserved(QUEUE, name)


async def _check_new(
    channel: Channel,
    name: str,
    durable: bool,
    arguments: Table,
    method: commands.Queue.Declare,
) -> None:
    """Raise 403, 405 or 406 if a new queue cannot be declared with these arguments."""
    vhost = channel.vhost
    dead_letter_exchange = check_dead_letter_exchange(arguments, name, vhost.name)
    if dead_letter_exchange is not None:
        await check(channel, QUEUE, name, "read")
        await check(channel, EXCHANGE, dead_letter_exchange, "write")
    vhost.kinds.check_declaration(
        arguments, durable, method.exclusive, method.auto_delete, name, vhost.name
    )
    channel.connection.services.limits.check_queues(vhost.name, name, len(vhost.queues))


async def _create(
    channel: Channel,
    name: str,
    durable: bool,
    arguments: Table,
    method: commands.Queue.Declare,
) -> Answer[None]:
    """Create a queue; the answer is given when it is on disk."""
    connection = channel.connection
    if method.exclusive:
        connection.services.registry.exclusive_owners.add(connection)
    vhost = channel.vhost
    home = vhost.choose_home(name, arguments)
    node = "" if vhost.places is None else vhost.places.node
    put = PutQueue(
        vhost.name, name, durable, method.auto_delete, encode_table(arguments),
        owner=connection.name if method.exclusive else "",
        owner_node=node if method.exclusive else "",
        node=home.node, identity=home.identity, acting_user=connection.user.name,
    )  # fmt: skip
    created = channel.submit(put)
    await created
    return created.synced()


def check_equivalence(
    channel: Channel,
    queue: QueueClient,
    durable: bool,
    arguments: Table,
    method: commands.Queue.Declare,
) -> None:
    """Raise 405 or 406 unless the declaration is equivalent to the existing queue's."""
    owner = queue.owner_connection
    if owner is not (channel.connection if method.exclusive else None):
        raise locked(channel, queue)
    what = resource(QUEUE, queue.name, channel.vhost.name)
    require_same("durable", durable, queue.durable, what)
    require_same("auto_delete", method.auto_delete, queue.auto_delete, what)
    names = queue.kind.arguments
    if queue_type(arguments) == queue_type(queue.arguments):
        # A type that is not given is the same as `classic`.
        names = tuple(name for name in names if name != TYPE_ARGUMENT)
    require_same_arguments(names, arguments, queue.arguments, what)


async def delete(channel: Channel, method: commands.Queue.Delete) -> None:
    """Delete a queue; succeeds if it does not exist."""
    name = without_line_breaks(expand_queue_name(channel, method.queue))
    check_not_sharded(channel, name, "delete")
    await check(channel, QUEUE, name, "configure")
    queue = channel.vhost.queues.get(name)

    if queue is None:
        if not method.nowait:
            await channel.synced()
            channel.send(commands.Queue.DeleteOk, message_count=0)
        return
    check_exclusive_access(channel, queue)

    def reply(count: int) -> None:
        if not method.nowait:
            channel.send(commands.Queue.DeleteOk, message_count=count)

    def reply_at_once(count: int) -> None:
        # Now, as basic.cancel to this channel's consumers follows immediately.
        if not deleted.waits_for_sync:
            reply(count)

    deleted: Answer[int] = Answer(reply_at_once)
    queue.delete(method.if_unused, method.if_empty, channel.connection.requester, deleted)
    count = await deleted
    if deleted.waits_for_sync and not method.nowait:
        await deleted.synced()
        reply(count)


async def purge(channel: Channel, method: commands.Queue.Purge) -> None:
    """Drop all ready messages of a queue."""
    name = expand_queue_name(channel, method.queue)
    check_not_sharded(channel, name, "purge")
    await check(channel, QUEUE, name, "read")
    purged: Answer[int] = Answer()
    find_queue(channel, name).purge(purged)
    count = await purged
    what = resource(QUEUE, name, channel.vhost.name)
    act = Act("queue.purged", QUEUE, name, f"Purged {what} of {count} messages",
              channel.vhost.name, {"messages": count})  # fmt: skip
    channel.connection.services.audit.note(channel.connection.requester, act)
    if not method.nowait:
        channel.send(commands.Queue.PurgeOk, message_count=count)


async def bind(channel: Channel, method: commands.Queue.Bind) -> None:
    """Bind a queue to an exchange."""
    name, routing_key = _binding_names(channel, method)
    check_not_sharded(channel, name, "bind")
    queue, exchange = await _ends(channel, name, method.exchange, routing_key)
    vhost = channel.vhost
    if exchange is None:
        raise not_found(f"no {resource(EXCHANGE, method.exchange, vhost.name)}")
    if queue is None:
        raise not_found(f"no {resource(QUEUE, name, vhost.name)}")
    check_exclusive_access(channel, queue)
    bound = channel.submit(_binding(channel, PutBinding, method))
    await bound
    if not method.nowait:
        await bound.synced()
        channel.send(commands.Queue.BindOk)


async def unbind(channel: Channel, method: commands.Queue.Unbind) -> None:
    """Remove a binding; succeeds if the binding, queue or exchange does not exist."""
    name, routing_key = _binding_names(channel, method)
    check_not_sharded(channel, name, "unbind")
    queue, exchange = await _ends(channel, name, method.exchange, routing_key)
    if queue is not None and exchange is not None:
        check_exclusive_access(channel, queue)
        unbound = channel.submit(_binding(channel, DeleteBinding, method))
        await unbound
        await unbound.synced()
    else:
        await channel.synced()
    channel.send(commands.Queue.UnbindOk)


def _binding_names(
    channel: Channel, method: commands.Queue.Bind | commands.Queue.Unbind
) -> tuple[str, str]:
    """Queue and routing key; if both are empty, both are the last declared queue's name."""
    name = expand_queue_name(channel, method.queue)
    routing_key = method.routing_key
    if not method.queue and not routing_key:
        routing_key = channel.last_queue
    return without_line_breaks(name), routing_key


def _binding(
    channel: Channel,
    change: type[PutBinding] | type[DeleteBinding],
    method: commands.Queue.Bind | commands.Queue.Unbind,
) -> PutBinding | DeleteBinding:
    name, routing_key = _binding_names(channel, method)
    return change(
        channel.vhost.name, without_line_breaks(method.exchange), name, routing_key, QUEUE,
        encode_table(sorted_table(table_argument(method.arguments))),
        acting_user=channel.connection.user.name,
    )  # fmt: skip


async def _ends(
    channel: Channel, queue_name: str, exchange_name: str, routing_key: str
) -> tuple[QueueClient | None, Exchange | None]:
    """The queue and exchange of a binding, after checking the user's permissions."""
    exchange_name = without_line_breaks(exchange_name)
    await check(channel, QUEUE, queue_name, "write")
    check_not_default_exchange(exchange_name)
    await check(channel, EXCHANGE, exchange_name, "read")
    vhost = channel.vhost
    exchange = vhost.exchanges.get(exchange_name)
    if exchange is not None and exchange.type_name == "topic":
        await check_topic(channel, exchange_name, routing_key, "read")
    return vhost.queues.get(queue_name), vhost.exchanges.get(exchange_name)

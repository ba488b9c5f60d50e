"""The queue class: declaring, deleting, binding and purging queues."""

from pamqp import commands

from broker.amqp.errors import not_found, precondition_failed
from broker.amqp.field_table import Table
from broker.amqp.methods import table_argument
from broker.amqp.properties import DIRECT_REPLY_TO
from broker.binding import Exchange
from broker.channel.access import (
    check,
    check_exclusive_access,
    check_not_default_exchange,
    check_not_reserved,
    check_topic,
    expand_queue_name,
    find_queue,
    locked,
)
from broker.channel.channel import Channel
from broker.equivalence import require_same, require_same_arguments
from broker.names import EXCHANGE, QUEUE, generate_name, resource, without_line_breaks
from broker.queues.actor import Queue
from broker.queues.arguments import (
    CLASSIC,
    CLASSIC_ARGUMENTS,
    check_dead_letter_exchange,
    check_declare_arguments,
    queue_type,
)


def declare(channel: Channel, method: commands.Queue.Declare) -> None:
    """Declare a queue, or check that there is one."""
    name = without_line_breaks(method.queue)
    if name.startswith(DIRECT_REPLY_TO):
        _declare_reply_queue(channel, name, method.nowait)
        return
    if method.passive:
        queue = find_queue(channel, expand_queue_name(channel, name))
        queue.touch()
    else:
        queue = _declare_actively(channel, name, method)
    channel.connection.services.counts.queues_declared += 1
    channel.last_queue = queue.name
    if not method.nowait:
        queue.settle_deliveries()
        channel.send(
            commands.Queue.DeclareOk,
            queue=queue.name,
            message_count=queue.backing.ready_count,
            consumer_count=len(queue.ring.consumers),
        )


def _declare_reply_queue(channel: Channel, name: str, nowait: bool) -> None:
    """Direct reply-to: a queue that exists while somebody consumes replies under its name."""
    if name != DIRECT_REPLY_TO and name not in channel.connection.services.reply_consumers:
        raise not_found(f"no {resource(QUEUE, name, channel.vhost.name)}")
    channel.last_queue = name
    if not nowait:
        channel.send(commands.Queue.DeclareOk, queue=name, message_count=0, consumer_count=1)


def _declare_actively(channel: Channel, name: str, method: commands.Queue.Declare) -> Queue:
    if name:
        check_not_reserved_or_present(channel, name)
    else:
        # The method may be done again, when its permissions are known: under the same name.
        name = method.queue = generate_name("amq.gen")
    check(channel, QUEUE, name, "configure")
    arguments = table_argument(method.arguments)
    durable = method.durable and not method.exclusive
    queue = channel.vhost.queues.get(name)
    if queue is None:
        return _create(channel, name, durable, arguments, method)
    check_equivalence(channel, queue, durable, arguments, method)
    queue.touch()
    return queue


def check_not_reserved_or_present(channel: Channel, name: str) -> None:
    """Raise 403 for a reserved name, unless it is that of a queue that is there."""
    if name not in channel.vhost.queues:
        check_not_reserved(QUEUE, name)


def _create(
    channel: Channel,
    name: str,
    durable: bool,
    arguments: Table,
    method: commands.Queue.Declare,
) -> Queue:
    vhost = channel.vhost
    dead_letter_exchange = check_dead_letter_exchange(arguments, name, vhost.name)
    if dead_letter_exchange is not None:
        check(channel, QUEUE, name, "read")
        check(channel, EXCHANGE, dead_letter_exchange, "write")
    check_declare_arguments(arguments, name, vhost.name)
    if queue_type(arguments) != CLASSIC:
        _check_replicated_queue(channel, name, durable, arguments, method)
    connection = channel.connection
    connection.services.limits.check_queues(vhost.name, name, len(vhost.queues))
    owner = connection if method.exclusive else None
    queue = vhost.declare_queue(
        name, durable, method.auto_delete, arguments, owner, connection.user.name
    )
    if owner is not None:
        connection.exclusive_queues[name] = queue
    return queue


def _check_replicated_queue(
    channel: Channel,
    name: str,
    durable: bool,
    arguments: Table,
    method: commands.Queue.Declare,
) -> None:
    """Quorum queues and streams: RabbitMQ's checks of their properties, and then a refusal."""
    what = resource(QUEUE, name, channel.vhost.name)
    problems = {
        "auto-delete": method.auto_delete,
        "exclusive-owner": method.exclusive,
        "non-durable": not durable,
    }
    for problem, has_it in problems.items():
        if has_it:
            raise precondition_failed(f"invalid property '{problem}' for {what}")
    kind = queue_type(arguments)
    raise precondition_failed(
        f"invalid arg 'x-queue-type' for {what}: \"this node does not serve {kind} queues\""
    )


def check_equivalence(
    channel: Channel, queue: Queue, durable: bool, arguments: Table, method: commands.Queue.Declare
) -> None:
    """Raise 405 or 406 unless the declaration is that of the queue."""
    owner = queue.owner_connection
    if owner is not (channel.connection if method.exclusive else None):
        raise locked(channel, queue)
    what = resource(QUEUE, queue.name, channel.vhost.name)
    require_same("durable", durable, queue.durable, what)
    require_same("auto_delete", method.auto_delete, queue.auto_delete, what)
    require_same_arguments(
        CLASSIC_ARGUMENTS, _without_classic_type(arguments), _without_classic_type(queue.arguments),
        what,
    )  # fmt: skip


def _without_classic_type(arguments: Table) -> Table:
    """`x-queue-type: classic` says nothing."""
    if arguments.get("x-queue-type") != ("S", CLASSIC):
        return arguments
    return {name: field for name, field in arguments.items() if name != "x-queue-type"}


def delete(channel: Channel, method: commands.Queue.Delete) -> None:
    """Delete a queue. That there is none is fine."""
    name = without_line_breaks(expand_queue_name(channel, method.queue))
    check(channel, QUEUE, name, "configure")
    vhost = channel.vhost
    queue = vhost.queues.get(name)
    count = 0
    if queue is not None:
        _check_deletable(channel, queue, method)
        count = queue.backing.ready_count
    # The answer first: a consumer on this channel hears of the end of its queue after it.
    if not method.nowait:
        channel.send(commands.Queue.DeleteOk, message_count=count)
    if queue is not None:
        vhost.delete_queue(queue, channel.connection.user.name)


def _check_deletable(channel: Channel, queue: Queue, method: commands.Queue.Delete) -> None:
    """Raise 405 or 406 if the queue is not to be deleted now."""
    check_exclusive_access(channel, queue)
    queue.settle_deliveries()
    what = resource(QUEUE, queue.name, channel.vhost.name)
    if method.if_empty and queue.backing.ready_count:
        raise precondition_failed(f"{what} not empty")
    if method.if_unused and queue.ring.consumers:
        raise precondition_failed(f"{what} in use")


def purge(channel: Channel, method: commands.Queue.Purge) -> None:
    """Drop what is ready in a queue."""
    name = expand_queue_name(channel, method.queue)
    check(channel, QUEUE, name, "read")
    count = find_queue(channel, name).purge()
    if not method.nowait:
        channel.send(commands.Queue.PurgeOk, message_count=count)


def bind(channel: Channel, method: commands.Queue.Bind) -> None:
    """Bind a queue to an exchange."""
    name, routing_key = _binding_names(channel, method)
    queue, exchange = _ends(channel, name, method.exchange, routing_key)
    vhost = channel.vhost
    if exchange is None:
        raise not_found(f"no {resource(EXCHANGE, method.exchange, vhost.name)}")
    if queue is None:
        raise not_found(f"no {resource(QUEUE, name, vhost.name)}")
    check_exclusive_access(channel, queue)
    arguments, user = table_argument(method.arguments), channel.connection.user.name
    vhost.bind(exchange, queue, routing_key, arguments, user)
    if not method.nowait:
        channel.send(commands.Queue.BindOk)


def unbind(channel: Channel, method: commands.Queue.Unbind) -> None:
    """Take a binding away. That there is none, or no such queue or exchange, is fine."""
    name, routing_key = _binding_names(channel, method)
    queue, exchange = _ends(channel, name, method.exchange, routing_key)
    if queue is not None and exchange is not None:
        check_exclusive_access(channel, queue)
        arguments, user = table_argument(method.arguments), channel.connection.user.name
        channel.vhost.unbind(exchange, queue, routing_key, arguments, user)
    channel.send(commands.Queue.UnbindOk)


def _binding_names(
    channel: Channel, method: commands.Queue.Bind | commands.Queue.Unbind
) -> tuple[str, str]:
    """Queue and routing key; if both are empty the last queue's name stands for both."""
    name = expand_queue_name(channel, method.queue)
    routing_key = method.routing_key
    if not method.queue and not routing_key:
        routing_key = channel.last_queue
    return without_line_breaks(name), routing_key


def _ends(
    channel: Channel, queue_name: str, exchange_name: str, routing_key: str
) -> tuple[Queue | None, Exchange | None]:
    """The ends of a binding that the user may make or take away."""
    exchange_name = without_line_breaks(exchange_name)
    check(channel, QUEUE, queue_name, "write")
    check_not_default_exchange(exchange_name)
    check(channel, EXCHANGE, exchange_name, "read")
    vhost = channel.vhost
    exchange = vhost.exchanges.get(exchange_name)
    if exchange is not None and exchange.type_name == "topic":
        check_topic(channel, exchange_name, routing_key, "read")
    return vhost.queues.get(queue_name), exchange

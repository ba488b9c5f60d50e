"""The basic class, but for basic.publish: consuming, getting and settling."""

from pamqp import commands

from broker.amqp.errors import access_refused, not_allowed, not_implemented, precondition_failed
from broker.amqp.methods import table_argument
from broker.amqp.properties import DIRECT_REPLY_TO
from broker.channel.access import check, expand_queue_name, find_queue
from broker.channel.channel import Channel, unknown_delivery_tag
from broker.channel.channel_events import consumer_created, consumer_deleted
from broker.channel.consumer import Consumer
from broker.channel.transaction import ACK, DISCARD, REQUEUE
from broker.channel.unacked import Unacked
from broker.interfaces import UNLIMITED
from broker.names import QUEUE, generate_name, resource
from broker.queues.actor import Queue
from broker.queues.arguments import check_consume_arguments
from broker.taps import Taps


def qos(channel: Channel, method: commands.Basic.Qos) -> None:
    """Per-consumer limits hold for consumers to come; the global one for all of the channel.

    RabbitMQ's reading of the flag, not the specification's (its documentation, "Consumer
    Prefetch"). Setting the one for consumers takes the global one away.
    """
    if method.prefetch_size:
        raise not_implemented(f"prefetch_size!=0 ({method.prefetch_size})")
    limit = method.prefetch_count
    if method.global_:
        channel.global_prefetch_count = limit
    else:
        channel.prefetch_count = limit
        channel.global_prefetch_count = 0
    limit = channel.global_prefetch_count
    channel.global_credit = limit - len(channel.unacked) if limit else UNLIMITED
    channel.send(commands.Basic.QosOk)
    channel.room_appeared()


def consume(channel: Channel, method: commands.Basic.Consume) -> None:
    """Start a consumer."""
    queue_name = expand_queue_name(channel, method.queue)
    tag = method.consumer_tag
    if tag in channel.consumers or (tag and tag == channel.reply_consumer_tag):
        raise not_allowed(f"attempt to reuse consumer tag '{tag}'")
    consumers_max = channel.connection.services.config.consumer_max_per_channel
    if consumers_max is not None and len(channel.consumers) >= consumers_max:
        raise not_allowed(f"reached maximum ({consumers_max}) of consumers per channel")
    if queue_name == DIRECT_REPLY_TO:
        _consume_replies(channel, method)
        return
    check(channel, QUEUE, queue_name, "read")
    queue = find_queue(channel, queue_name)
    consumer = _make_consumer(channel, queue, method)
    channel.consumers[consumer.tag] = consumer
    if not method.nowait:
        channel.send(commands.Basic.ConsumeOk, consumer_tag=consumer.tag)
    queue.add_consumer(consumer)
    consumer_created(consumer)


def _make_consumer(channel: Channel, queue: Queue, method: commands.Basic.Consume) -> Consumer:
    arguments = table_argument(method.arguments)
    what = resource(QUEUE, queue.name, channel.vhost.name)
    ring = queue.ring
    wants_it_alone = method.exclusive and (ring.consumers or queue.options.single_active_consumer)
    if ring.has_exclusive or wants_it_alone:
        raise access_refused(f"{what} in exclusive use")
    check_consume_arguments(arguments, queue.name, channel.vhost.name)
    tag = method.consumer_tag or generate_name("amq.ctag")
    return Consumer(channel, queue, tag, method.no_ack, method.exclusive, arguments)


def _consume_replies(channel: Channel, method: commands.Basic.Consume) -> None:
    """Direct reply-to: the channel itself becomes the consumer, under a name nobody can guess."""
    if not method.no_ack:
        raise precondition_failed("reply consumer cannot acknowledge")
    if channel.reply_consumer_tag:
        raise precondition_failed("reply consumer already set")
    channel.reply_consumer_tag = method.consumer_tag or generate_name("amq.ctag")
    channel.reply_name = generate_name(f"{DIRECT_REPLY_TO}.g1h").replace("g1h-", "g1h_")
    channel.connection.services.reply_consumers[channel.reply_name] = channel
    if not method.nowait:
        channel.send(commands.Basic.ConsumeOk, consumer_tag=channel.reply_consumer_tag)


def cancel(channel: Channel, method: commands.Basic.Cancel) -> None:
    """End a consumer; its unsettled messages stay with the channel. Unknown tags are fine."""
    tag = method.consumer_tag or ""
    if tag and tag == channel.reply_consumer_tag:
        del channel.connection.services.reply_consumers[channel.reply_name]
        channel.reply_name = channel.reply_consumer_tag = ""
    consumer = channel.consumers.pop(tag, None)
    if not method.nowait:
        channel.send(commands.Basic.CancelOk, consumer_tag=tag)
    if consumer is not None:
        consumer_deleted(consumer)
        consumer.queue.remove_consumer(consumer)


def get(channel: Channel, method: commands.Basic.Get) -> None:
    """Take one message."""
    queue_name = expand_queue_name(channel, method.queue)
    check(channel, QUEUE, queue_name, "read")
    queue = find_queue(channel, queue_name)
    entry = queue.get(ack_required=not method.no_ack)
    counts = channel.counts
    if entry is None:
        counts.got_empty += 1
        channel.send(commands.Basic.GetEmpty)
        return
    if method.no_ack:
        counts.got_no_ack += 1
    else:
        counts.got += 1
    counts.redelivered += entry.redelivered
    tag = channel.next_delivery_tag
    channel.next_delivery_tag += 1
    services = channel.connection.services
    if not method.no_ack:
        channel.unacked.records[tag] = Unacked(entry, queue, None, services.clock.now_ms())
    message = entry.message
    channel.send_content(
        commands.Basic.GetOk,
        message,
        delivery_tag=tag,
        redelivered=entry.redelivered,
        exchange=message.address.exchange,
        routing_key=message.address.routing_key,
        message_count=queue.backing.ready_count,
    )
    tracer = channel.vhost.tracer
    if tracer is not None:
        tracer.delivered(channel, queue, None, [entry], tag, method.no_ack)
    if services.observer is not None:
        services.observer.delivered(channel.vhost.name, queue.name, message, entry.redelivered)


def ack(channel: Channel, delivery_tag: int, multiple: int) -> None:
    """Settle deliveries: the hot half of settling, called without a method object."""
    if multiple or channel.transaction is not None:
        _settle(channel, ACK, delivery_tag, bool(multiple))
        return
    record = channel.unacked.take(delivery_tag)
    if record is None:
        raise unknown_delivery_tag(delivery_tag)
    tracer = channel.vhost.tracer
    if tracer is not None:
        tracer.acked(channel, [(delivery_tag, record)])
    record.queue.ack(record.entry)
    if record.consumer is not None:
        record.consumer.settled()


def nack(channel: Channel, method: commands.Basic.Nack) -> None:
    """Give deliveries back, or have them dead-lettered."""
    action = REQUEUE if method.requeue else DISCARD
    _settle(channel, action, method.delivery_tag, method.multiple)


def reject(channel: Channel, method: commands.Basic.Reject) -> None:
    """Give one delivery back, or have it dead-lettered."""
    _settle(channel, REQUEUE if method.requeue else DISCARD, method.delivery_tag or 0, False)


def _settle(channel: Channel, action: str, delivery_tag: int, multiple: bool) -> None:
    taken = channel.take_unacked(delivery_tag, multiple)
    if channel.transaction is not None:
        channel.transaction.settle(action, taken)
    else:
        apply_settling(channel, action, taken)


def apply_settling(channel: Channel, action: str, taken: list[tuple[int, Unacked]]) -> None:
    """Do what an ack, nack or reject asks for."""
    if channel.vhost.tracer is not None:
        _trace_settling(channel, channel.vhost.tracer, action, taken)
    if action == REQUEUE:
        channel.requeue(taken)
        return
    if action == DISCARD:
        channel.counts.given_back += len(taken)
    for _, record in taken:
        if action == ACK:
            record.queue.ack(record.entry)
        else:
            record.queue.reject(record.entry)
        if record.consumer is not None:
            record.consumer.settled()


def _trace_settling(
    channel: Channel, tracer: Taps, action: str, taken: list[tuple[int, Unacked]]
) -> None:
    if action == ACK:
        tracer.acked(channel, taken)
    else:
        tracer.rejected(channel, taken, action == REQUEUE)


def recover(channel: Channel, method: commands.Basic.Recover) -> None:
    """Requeue everything unsettled, and say so."""
    _recover(channel, method.requeue)
    channel.send(commands.Basic.RecoverOk)


def recover_async(channel: Channel, method: commands.Basic.RecoverAsync) -> None:
    """Requeue everything unsettled, in silence."""
    _recover(channel, method.requeue)


def _recover(channel: Channel, requeue: bool) -> None:
    if not requeue:
        raise not_implemented("requeue=false")
    channel.give_back(channel.unacked.take_all())

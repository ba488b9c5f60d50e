"""The basic class except basic.publish: consume, cancel, get, qos and settlement."""

from pamqp import commands

from leveret.broker.amqp.errors import (
    not_allowed,
    not_implemented,
    precondition_failed,
)
from leveret.broker.amqp.methods import table_argument
from leveret.broker.amqp.properties import DIRECT_REPLY_TO
from leveret.broker.channel import getting
from leveret.broker.channel.access import (
    check,
    expand_queue_name,
    expand_sharded_name,
    find_queue,
)
from leveret.broker.channel.channel import Channel, unknown_delivery_tag
from leveret.broker.channel.consumer import Consumer
from leveret.broker.channel.transaction import ACK, DISCARD, REQUEUE
from leveret.broker.channel.unacked import SETTLE_WORK, by_queue
from leveret.broker.channel.unacked_record import Unacked
from leveret.broker.events.channel_events import consumer_created, consumer_deleted
from leveret.broker.events.taps import Taps
from leveret.broker.queues.contract.arguments import check_consume_arguments
from leveret.broker.queues.contract.queue_client import UNLIMITED, QueueClient
from leveret.broker.runtime.generated_names import generate_name
from leveret.broker.runtime.names import QUEUE
from leveret.broker.runtime.pending import Answer, Steps

SETTLED_AT_ONCE = 4000
"""Deliveries that are settled in one turn, whatever work is left: two milliseconds."""


async def qos(channel: Channel, method: commands.Basic.Qos) -> None:
    """Set a prefetch limit: per consumer for later consumers, or global for the whole channel.

    This is RabbitMQ's meaning of the global flag, not the specification's (its documentation,
    "Consumer Prefetch"). Setting the per-consumer limit removes the global one.
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
    channel.credit_consumers()


async def consume(channel: Channel, method: commands.Basic.Consume) -> None:
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
    queue_name = expand_sharded_name(channel, queue_name)
    await check(channel, QUEUE, queue_name, "read")
    queue = find_queue(channel, queue_name)
    consumer = _make_consumer(channel, queue, method)
    subscribed: Answer[None] = Answer(give_back=lambda _: queue.cancel(consumer, True))
    queue.subscribe(consumer, subscribed)
    await subscribed
    channel.consumers[consumer.tag] = consumer
    if not method.nowait:
        channel.send(commands.Basic.ConsumeOk, consumer_tag=consumer.tag)
    consumer_created(consumer)


def _make_consumer(
    channel: Channel, queue: QueueClient, method: commands.Basic.Consume
) -> Consumer:
    arguments = table_argument(method.arguments)
    vhost = channel.vhost.name
    queue.kind.check_consumer(method.no_ack, bool(channel.global_prefetch_count), queue.name, vhost)
    check_consume_arguments(arguments, queue.kind.consumer_arguments, queue.name, vhost)
    queue.kind.check_consumer_arguments(arguments, queue.name, vhost)
    tag = method.consumer_tag or generate_name("amq.ctag")
    return Consumer(channel, queue, tag, method.no_ack, method.exclusive, arguments)


def _consume_replies(channel: Channel, method: commands.Basic.Consume) -> None:
    """Direct reply-to: register the channel as the consumer, under an unguessable name."""
    if not method.no_ack:
        raise precondition_failed("reply consumer cannot acknowledge")
    if channel.reply_consumer_tag:
        raise precondition_failed("reply consumer already set")
    channel.reply_consumer_tag = method.consumer_tag or generate_name("amq.ctag")
    channel.reply_name = channel.connection.services.replies.add(channel)
    if not method.nowait:
        channel.send(commands.Basic.ConsumeOk, consumer_tag=channel.reply_consumer_tag)


async def cancel(channel: Channel, method: commands.Basic.Cancel) -> None:
    """Cancel a consumer; its unsettled messages stay with the channel. Unknown tags are ignored."""
    tag = method.consumer_tag or ""
    if tag and tag == channel.reply_consumer_tag:
        channel.connection.services.replies.remove(channel.reply_name)
        channel.reply_name = channel.reply_consumer_tag = ""
    consumer = channel.consumers.get(tag)
    if consumer is not None:
        cancelled: Answer[None] = Answer()
        consumer.queue.cancel(consumer, answer=cancelled)
        await cancelled
        # It may have lost its queue since.
        if channel.consumers.pop(tag, None) is not None:
            consumer_deleted(consumer)
    if not method.nowait:
        channel.send(commands.Basic.CancelOk, consumer_tag=tag)


async def get(channel: Channel, method: commands.Basic.Get) -> None:
    """Take one message."""
    tell = channel.send_got
    if not await getting.get(channel, method.queue, no_ack=method.no_ack, tell=tell):
        channel.send(commands.Basic.GetEmpty)


def ack(channel: Channel, delivery_tag: int, multiple: int) -> Steps | None:
    """Acknowledge deliveries. On the hot path, hence called without a method object.

    Returns None when they are; a coroutine that acknowledges them if they are very many.
    """
    if multiple and _are_many(channel):
        return _settle_in_slices(channel, ACK, delivery_tag)
    if multiple or channel.transaction is not None:
        _settle(channel, ACK, delivery_tag, bool(multiple))
        return None
    record = channel.unacked.take(delivery_tag)
    if record is None:
        raise unknown_delivery_tag(delivery_tag)
    tracer = channel.vhost.tracer
    if tracer is not None:
        tracer.acked(channel, [(delivery_tag, record)])
    record.queue.ack((record.entry,))
    if record.consumer is not None:
        record.consumer.settled()
    return None


async def nack(channel: Channel, method: commands.Basic.Nack) -> None:
    """Requeue deliveries, or dead-letter or drop them."""
    action = REQUEUE if method.requeue else DISCARD
    if method.multiple and _are_many(channel):
        await _settle_in_slices(channel, action, method.delivery_tag)
    else:
        _settle(channel, action, method.delivery_tag, method.multiple)


async def reject(channel: Channel, method: commands.Basic.Reject) -> None:
    """Requeue one delivery, or dead-letter or drop it."""
    reject_one(channel, method.delivery_tag or 0, method.requeue)


def reject_one(channel: Channel, delivery_tag: int, requeue: bool) -> None:
    """Requeue one delivery, or dead-letter or drop it. Raises 406 for an unknown tag."""
    _settle(channel, REQUEUE if requeue else DISCARD, delivery_tag, False)


def _settle(channel: Channel, action: str, delivery_tag: int, multiple: bool) -> None:
    taken = channel.take_unacked(delivery_tag, multiple)
    _settle_taken(channel, action, taken)


def _settle_taken(channel: Channel, action: str, taken: list[tuple[int, Unacked]]) -> None:
    if channel.transaction is not None:
        channel.transaction.settle(action, taken)
    else:
        apply_settling(channel, action, taken)


def _are_many(channel: Channel) -> bool:
    """Whether there are so many deliveries that a turn may be too short to settle them."""
    return len(channel.unacked) > SETTLED_AT_ONCE


async def _settle_in_slices(channel: Channel, action: str, delivery_tag: int) -> None:
    """Settle all deliveries up to a tag, in each turn as many as there is work left for."""
    tags = channel.unacked.open_tags(delivery_tag or channel.unacked.last_tag)
    if tags is None:
        raise unknown_delivery_tag(delivery_tag)
    turns = channel.vhost.turns
    while (taken := channel.unacked.take_next(tags, affordable(channel))) is not None:
        turns.work_left -= SETTLE_WORK * (1 + len(taken))
        _settle_taken(channel, action, taken)
        await turns.give_way()


def affordable(channel: Channel) -> int:
    """The number of deliveries that may be settled in the rest of this turn: at least one."""
    return max(1, channel.vhost.turns.affordable(SETTLE_WORK))


def apply_settling(channel: Channel, action: str, taken: list[tuple[int, Unacked]]) -> None:
    """Apply an ack, nack or reject to the deliveries."""
    if channel.vhost.tracer is not None:
        _trace_settling(channel, channel.vhost.tracer, action, taken)
    if action == REQUEUE:
        channel.counts.given_back += len(taken)
        channel.requeue(taken)
        return
    if action == DISCARD:
        channel.counts.given_back += len(taken)
    for queue, entries in by_queue(taken):
        if action == ACK:
            queue.ack(entries)
        else:
            queue.discard(entries)
    for _, record in taken:
        if record.consumer is not None:
            record.consumer.settled()


def _trace_settling(
    channel: Channel, tracer: Taps, action: str, taken: list[tuple[int, Unacked]]
) -> None:
    if action == ACK:
        tracer.acked(channel, taken)
    else:
        tracer.rejected(channel, taken, action == REQUEUE)


async def recover(channel: Channel, method: commands.Basic.Recover) -> None:
    """Requeue all unsettled deliveries and send basic.recover-ok."""
    await _recover(channel, method.requeue)
    channel.send(commands.Basic.RecoverOk)


async def recover_async(channel: Channel, method: commands.Basic.RecoverAsync) -> None:
    """Requeue all unsettled deliveries without a reply."""
    await _recover(channel, method.requeue)


async def _recover(channel: Channel, requeue: bool) -> None:
    if not requeue:
        raise not_implemented("requeue=false")
    if not channel.unacked:
        return
    turns = channel.vhost.turns
    tags = channel.unacked.open_tags(channel.unacked.last_tag)
    assert tags is not None, "the last tag is open"
    while (taken := channel.unacked.take_next(tags, affordable(channel))) is not None:
        turns.work_left -= SETTLE_WORK * (1 + len(taken))
        channel.counts.given_back += len(taken)
        channel.give_back(taken, channel_ended=False)
        await turns.give_way()

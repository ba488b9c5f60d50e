"""The basic class except basic.publish: its methods, and their answers.

consuming.py, getting.py and settling.py do the work.
"""

from pamqp import commands

from leveret.broker.amqp.errors import not_implemented
from leveret.broker.amqp.methods import table_argument
from leveret.broker.protocols.amqp091.channel.channel import Channel
from leveret.broker.protocols.amqp091.channel.frame_consumer import FrameConsumer
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.sessions import consuming, getting, settling
from leveret.broker.sessions.consuming import ConsumerProperties


async def qos(channel: Channel, method: commands.Basic.Qos) -> None:
    """Set a prefetch limit: per consumer for later consumers, or global for the whole channel."""
    if method.prefetch_size:
        raise not_implemented(f"prefetch_size!=0 ({method.prefetch_size})")
    consuming.limit_unsettled(channel, method.prefetch_count, for_all=method.global_)
    channel.send(commands.Basic.QosOk)
    channel.credit_consumers()


async def consume(channel: Channel, method: commands.Basic.Consume) -> None:
    """Start a consumer."""

    def make(queue: QueueClient, properties: ConsumerProperties) -> FrameConsumer:
        tag, arguments, no_ack, is_exclusive = properties
        return FrameConsumer(channel, queue, tag, no_ack, is_exclusive, arguments)

    def reply(tag: str) -> None:
        if not method.nowait:
            channel.send(commands.Basic.ConsumeOk, consumer_tag=tag)

    properties = ConsumerProperties(
        method.consumer_tag or "", table_argument(method.arguments), method.no_ack,
        method.exclusive,
    )  # fmt: skip
    await consuming.consume(channel, method.queue, properties, make=make, tell=reply)


async def cancel(channel: Channel, method: commands.Basic.Cancel) -> None:
    """Cancel a consumer."""
    tag = method.consumer_tag or ""
    await consuming.cancel(channel, tag)
    if not method.nowait:
        channel.send(commands.Basic.CancelOk, consumer_tag=tag)


async def get(channel: Channel, method: commands.Basic.Get) -> None:
    """Take one message."""
    tell = channel.send_got
    if not await getting.get(channel, method.queue, no_ack=method.no_ack, tell=tell):
        channel.send(commands.Basic.GetEmpty)


async def nack(channel: Channel, method: commands.Basic.Nack) -> None:
    """Requeue deliveries, or dead-letter or drop them."""
    await settling.nack(channel, method.delivery_tag, method.multiple, method.requeue)


async def reject(channel: Channel, method: commands.Basic.Reject) -> None:
    """Requeue one delivery, or dead-letter or drop it."""
    settling.reject(channel, method.delivery_tag or 0, method.requeue)


async def recover(channel: Channel, method: commands.Basic.Recover) -> None:
    """Requeue all unsettled deliveries and send basic.recover-ok."""
    await recover_async(channel, method)
    channel.send(commands.Basic.RecoverOk)


async def recover_async(
    channel: Channel, method: commands.Basic.Recover | commands.Basic.RecoverAsync
) -> None:
    """Requeue all unsettled deliveries without a reply."""
    if not method.requeue:
        raise not_implemented("requeue=false")
    await settling.recover(channel)

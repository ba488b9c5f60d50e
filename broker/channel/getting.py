"""Takes one message from a queue for a channel, whatever protocol it speaks (basic.get)."""

from collections.abc import Callable

from leveret.broker.channel.access import (
    check,
    expand_queue_name,
    expand_sharded_name,
    find_queue,
)
from leveret.broker.channel.channel import Channel
from leveret.broker.channel.unacked_record import Unacked
from leveret.broker.queues.contract.queue_client import Got
from leveret.broker.runtime.names import QUEUE
from leveret.broker.runtime.pending import Answer
from leveret.storage.messages.message import Message

TellGot = Callable[[Message, int, bool, int], object]
"""Called with a message, its delivery tag, whether it was delivered before, and the number of
messages left in the queue."""


async def get(channel: Channel, queue_name: str, *, no_ack: bool, tell: TellGot) -> bool:
    """Take one message; return whether there was one. tell: called with it, before it is traced.

    Raises ChannelFault and ConnectionFault.
    """
    queue_name = expand_queue_name(channel, queue_name)
    queue_name = expand_sharded_name(channel, queue_name)
    await check(channel, QUEUE, queue_name, "read")
    queue = find_queue(channel, queue_name)
    queue.kind.check_get(queue.name, channel.vhost.name)
    ack_required = not no_ack

    def give_back(got: Got | None) -> None:
        if got is not None and ack_required:
            queue.requeue([got.entry], channel_ended=True)

    answer: Answer[Got | None] = Answer(give_back=give_back)
    queue.get(ack_required, answer)
    got = await answer
    counts = channel.counts
    if got is None:
        counts.got_empty += 1
        return False
    entry = got.entry
    if no_ack:
        counts.got_no_ack += 1
    else:
        counts.got += 1
    counts.redelivered += entry.redelivered
    tag = channel.next_delivery_tag
    channel.next_delivery_tag += 1
    services = channel.connection.services
    if ack_required:
        channel.unacked.records[tag] = Unacked(entry, queue, None, services.clock.now_ms())
    message = entry.message
    tell(message, tag, entry.redelivered, got.ready_count)
    tracer = channel.vhost.tracer
    if tracer is not None:
        tracer.delivered(channel, queue, None, [entry], tag, no_ack)
    if services.observer is not None:
        services.observer.delivered(channel.vhost.name, queue.name, message, entry.redelivered)
    return True

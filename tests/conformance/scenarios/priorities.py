"""Priority queues."""

import pika

from tests.conformance.scenario import scenario


def published_with_priorities(ctx, channel, max_priority, *priorities):
    """A priority queue with one message per priority, its body naming it."""
    queue = ctx.name("queue")
    channel.queue_declare(queue, arguments={"x-max-priority": max_priority})
    channel.confirm_delivery()
    for number, priority in enumerate(priorities):
        channel.basic_publish(
            "", queue, f"{number}: {priority}".encode(), pika.BasicProperties(priority=priority)
        )
    return queue


@scenario
def highest_priority_first(ctx, channel):
    """Messages come by falling priority, and in order within one."""
    return ctx.bodies(channel, published_with_priorities(ctx, channel, 5, 1, 5, 3, 5, 0, 1))


@scenario
def no_priority_is_the_lowest(ctx, channel):
    """A message without priority is one with priority 0."""
    return ctx.bodies(channel, published_with_priorities(ctx, channel, 5, None, 1, 0, None))


@scenario
def priority_in_an_ordinary_queue(ctx, channel, queue):
    """Without x-max-priority, priorities change nothing."""
    channel.queue_declare(queue)
    channel.confirm_delivery()
    for priority in (1, 9, 5):
        channel.basic_publish(
            "", queue, str(priority).encode(), pika.BasicProperties(priority=priority)
        )
    return ctx.bodies(channel, queue)


@scenario
def requeued_message_goes_back_by_priority(ctx, channel):
    """A requeued message takes its place among those of its priority."""
    queue = published_with_priorities(ctx, channel, 5, 1, 3, 3)
    got = ctx.get(channel, queue, auto_ack=False)
    channel.basic_nack(got["delivery_tag"], requeue=True)
    ctx.await_message_count(channel, queue, 3)
    return [[entry["body"], entry["redelivered"]] for entry in ctx.deliveries(channel, queue)]


@scenario
def expired_message_behind_a_higher_priority(ctx, channel, queue):
    """Only the head of the whole queue expires: the message of a lower priority waits behind it."""
    channel.queue_declare(queue, arguments={"x-max-priority": 5})
    channel.confirm_delivery()
    # In this order, since the message of a low priority may expire while it is the only one.
    channel.basic_publish("", queue, b"high", pika.BasicProperties(priority=5))
    channel.basic_publish("", queue, b"low", pika.BasicProperties(priority=1, expiration="100"))
    return [ctx.await_message_count(channel, queue, 1, timeout=1), ctx.bodies(channel, queue)]


@scenario
def max_priority_zero(ctx, channel):
    """x-max-priority 0 makes an ordinary queue."""
    return ctx.bodies(channel, published_with_priorities(ctx, channel, 0, 1, 3, 2))

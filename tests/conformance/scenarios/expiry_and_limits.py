"""Message TTL and queue length limits."""

import time

import pika

from tests.conformance.scenario import scenario


def limited_queue(ctx, channel, label="queue", **arguments):
    queue = ctx.name(label)
    channel.queue_declare(
        queue, arguments={"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    )
    channel.confirm_delivery()
    return queue


BEFORE_LONG_MS = 3_000
"""A message that expires then is seen before, also on a busy machine."""


def expiring(milliseconds):
    return pika.BasicProperties(expiration=str(milliseconds))


@scenario
def queue_ttl_removes_messages(ctx, channel):
    """x-message-ttl: the message is gone after its time, the queue is not."""
    queue = limited_queue(ctx, channel, message_ttl=BEFORE_LONG_MS)
    channel.basic_publish("", queue, b"x")
    before = ctx.await_message_count(channel, queue, 1)
    return [before, ctx.await_message_count(channel, queue, 0)]


@scenario
def queue_ttl_zero_with_nobody_waiting(ctx, channel):
    """x-message-ttl 0: a message without a waiting consumer is gone at once."""
    queue = limited_queue(ctx, channel, message_ttl=0)
    channel.basic_publish("", queue, b"x")
    return ctx.get(channel, queue)


@scenario
def expiration_zero_with_nobody_waiting(ctx, channel):
    """Expiration '0': a message without a waiting consumer is gone at once."""
    queue = limited_queue(ctx, channel)
    channel.basic_publish("", queue, b"x", expiring(0))
    return ctx.get(channel, queue)


@scenario
def message_expiration_removes_message(ctx, channel):
    """The expiration property removes a message at the head of its queue."""
    queue = limited_queue(ctx, channel)
    channel.basic_publish("", queue, b"x", expiring(BEFORE_LONG_MS))
    before = ctx.await_message_count(channel, queue, 1)
    return [before, ctx.await_message_count(channel, queue, 0)]


@scenario
def message_expires_only_at_the_head(ctx, channel):
    """An expired message behind an unexpired one still counts until it gets to the head."""
    queue = limited_queue(ctx, channel)
    channel.basic_publish("", queue, b"stays", expiring(60000))
    channel.basic_publish("", queue, b"goes", expiring(100))
    time.sleep(0.6)
    counted = ctx.await_message_count(channel, queue, 2)
    return [counted, ctx.bodies(channel, queue)]


@scenario
def expiration_property_is_delivered(ctx, channel):
    """A message that has not expired is delivered with its expiration."""
    queue = limited_queue(ctx, channel)
    channel.basic_publish("", queue, b"x", expiring(60000))
    return ctx.get(channel, queue)["properties"]


@scenario
def max_length_drops_the_head(ctx, channel):
    """x-max-length: the oldest messages go."""
    queue = limited_queue(ctx, channel, max_length=2)
    for body in (b"a", b"b", b"c", b"d"):
        channel.basic_publish("", queue, body)
    return ctx.bodies(channel, queue)


@scenario
def max_length_zero(ctx, channel):
    """x-max-length 0: a queue that holds nothing."""
    queue = limited_queue(ctx, channel, max_length=0)
    channel.basic_publish("", queue, b"x")
    return ctx.bodies(channel, queue)


@scenario
def requeue_into_a_full_queue(ctx, channel):
    """A requeue that overfills the queue drops from the head."""
    queue = limited_queue(ctx, channel, max_length=2)
    for body in (b"a", b"b"):
        channel.basic_publish("", queue, body)
    got = ctx.get(channel, queue, auto_ack=False)
    channel.basic_publish("", queue, b"c")
    channel.basic_nack(got["delivery_tag"], requeue=True)
    time.sleep(0.2)
    return ctx.bodies(channel, queue)


@scenario
def max_length_bytes_drops_the_head(ctx, channel):
    """x-max-length-bytes counts bodies only."""
    queue = limited_queue(ctx, channel, max_length_bytes=10)
    for body in (b"aaaa", b"bbbb", b"cccc", b"dd"):
        channel.basic_publish("", queue, body, pika.BasicProperties(headers={"h": "x" * 100}))
    return ctx.bodies(channel, queue)


@scenario
def max_length_bytes_with_reject_publish(ctx, channel):
    """reject-publish refuses only once the limit has been reached."""
    queue = limited_queue(ctx, channel, max_length_bytes=5, overflow="reject-publish")
    outcomes = []
    for body in (b"123", b"4567", b"8"):
        try:
            channel.basic_publish("", queue, body)
            outcomes.append("ack")
        except pika.exceptions.NackError:
            outcomes.append("nack")
    return [outcomes, ctx.bodies(channel, queue)]


@scenario
def both_length_limits_hold(ctx, channel):
    """With both limits, the one reached first counts."""
    queue = limited_queue(ctx, channel, max_length=3, max_length_bytes=6)
    for body in (b"a", b"b", b"c", b"d", b"eeeee"):
        channel.basic_publish("", queue, body)
    return ctx.bodies(channel, queue)

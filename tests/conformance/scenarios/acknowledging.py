"""basic.get, ack, nack, reject and recover."""

from tests.conformance.scenario import scenario


def filled_queue(ctx, channel, *bodies, **attributes):
    queue = ctx.name("queue")
    channel.queue_declare(queue, **attributes)
    for body in bodies:
        channel.basic_publish("", queue, body)
    ctx.await_message_count(channel, queue, len(bodies))
    return queue


def body_and_flag(deliveries):
    return [[delivery["body"], delivery["redelivered"]] for delivery in deliveries]


@scenario
def get_from_empty_queue(ctx):
    """get-empty."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    return client.call(1, "basic.get", queue=queue)


@scenario
def get_from_missing_queue(ctx):
    """404 text of a get."""
    return ctx.attempt(ctx.channel().basic_get, ctx.name("missing"))


@scenario
def get_without_ack_cannot_be_acked(ctx, channel):
    """A no-ack get uses up a delivery tag that may not be acknowledged."""
    queue = filled_queue(ctx, channel, b"a")
    got = ctx.get(channel, queue, auto_ack=True)
    channel.basic_ack(got["delivery_tag"])
    return [got, ctx.refusal(channel)]


@scenario
def get_past_an_exclusive_consumer(ctx, channel):
    """An exclusive consumer keeps other consumers away, but not basic.get."""
    queue = filled_queue(ctx, channel)
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue, lambda *_: None, exclusive=True)
    channel.confirm_delivery()
    for body in (b"consumed", b"got"):
        channel.basic_publish("", queue, body)
    return ctx.get(ctx.connect().channel(), queue)


@scenario
def ack_twice(ctx, channel):
    """406 text for a delivery tag that was acknowledged before."""
    queue = filled_queue(ctx, channel, b"a")
    tag = ctx.get(channel, queue, auto_ack=False)["delivery_tag"]
    channel.basic_ack(tag)
    channel.basic_ack(tag)
    return ctx.refusal(channel)


@scenario
def ack_on_another_channel(ctx, channel):
    """Delivery tags belong to their channel."""
    queue = filled_queue(ctx, channel, b"a")
    tag = ctx.get(channel, queue, auto_ack=False)["delivery_tag"]
    other = ctx.channel()
    other.basic_ack(tag)
    return ctx.refusal(other)


@scenario
def ack_multiple_tag_zero_with_nothing_outstanding(ctx, channel):
    """ack(0, multiple) with nothing to acknowledge."""
    channel.basic_ack(0, multiple=True)
    return ctx.refusal(channel)


@scenario
def ack_multiple_tag_zero(ctx, channel):
    """ack(0, multiple) acknowledges everything outstanding."""
    queue = filled_queue(ctx, channel, b"a", b"b")
    for _ in range(2):
        ctx.get(channel, queue, auto_ack=False)
    channel.basic_ack(0, multiple=True)
    channel.close()
    return ctx.bodies(ctx.channel(), queue)


@scenario
def ack_multiple_of_an_acknowledged_tag(ctx, channel):
    """ack(1, multiple) after tag 1 was acknowledged by itself."""
    queue = filled_queue(ctx, channel, b"a", b"b")
    for _ in range(2):
        ctx.get(channel, queue, auto_ack=False)
    channel.basic_ack(1)
    channel.basic_ack(1, multiple=True)
    return ctx.refusal(channel)


@scenario
def ack_multiple_beyond_the_last_tag(ctx, channel):
    """406 text for multiple with a tag not yet given out."""
    queue = filled_queue(ctx, channel, b"a")
    ctx.get(channel, queue, auto_ack=False)
    channel.basic_ack(5, multiple=True)
    return ctx.refusal(channel)


@scenario
def reject_unknown_tag(ctx, channel):
    """406 text of a reject."""
    channel.basic_reject(7)
    return ctx.refusal(channel)


@scenario
def nack_multiple_requeues_in_order(ctx, channel):
    """Messages requeued together keep their order, before those behind them."""
    queue = filled_queue(ctx, channel, b"a", b"b", b"c", b"d")
    for _ in range(3):
        ctx.get(channel, queue, auto_ack=False)
    channel.basic_nack(0, multiple=True, requeue=True)
    ctx.await_message_count(channel, queue, 4)
    return body_and_flag(ctx.deliveries(channel, queue))


@scenario
def reject_requeues_at_the_old_position(ctx, channel):
    """A message rejected alone goes back to where it was, and is redelivered."""
    queue = filled_queue(ctx, channel, b"a", b"b", b"c")
    for _ in range(2):
        ctx.get(channel, queue, auto_ack=False)
    channel.basic_reject(1, requeue=True)
    ctx.await_message_count(channel, queue, 2)
    return body_and_flag(ctx.deliveries(channel, queue))


@scenario
def requeue_one_by_one_in_reverse(ctx, channel):
    """Requeuing the later message first does not change the order."""
    queue = filled_queue(ctx, channel, b"a", b"b", b"c")
    for _ in range(3):
        ctx.get(channel, queue, auto_ack=False)
    for tag in (3, 2, 1):
        channel.basic_reject(tag, requeue=True)
    ctx.await_message_count(channel, queue, 3)
    return body_and_flag(ctx.deliveries(channel, queue))


@scenario
def redelivered_flag_after_connection_loss(ctx, channel):
    """A message outstanding when a socket drops is redelivered with the flag set."""
    queue = filled_queue(ctx, channel, b"a", b"b")
    client = ctx.wire()
    client.call(1, "basic.get", queue=queue)
    client.drop()
    ctx.await_message_count(channel, queue, 2)
    return body_and_flag(ctx.deliveries(channel, queue))


@scenario
def recover_with_requeue(ctx, channel):
    """basic.recover(requeue=true) puts everything outstanding back."""
    queue = filled_queue(ctx, channel, b"a", b"b")
    for _ in range(2):
        ctx.get(channel, queue, auto_ack=False)
    answer = ctx.attempt(channel.basic_recover, requeue=True)
    ctx.await_message_count(channel, queue, 2)
    return [answer, body_and_flag(ctx.deliveries(channel, queue))]


@scenario
def recover_without_requeue(ctx):
    """basic.recover(requeue=false) is not implemented."""
    client = ctx.wire()
    client.send(1, "basic.recover", requeue=False)
    return client.read_until_closed()


@scenario
def recover_async(ctx):
    """basic.recover-async requeues without an answer."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    client.publish(1, "", queue, "a")
    client.call(1, "basic.get", queue=queue)
    client.send(1, "basic.recover-async", requeue=True)
    return [client.call(1, "basic.qos"), client.call(1, "basic.get", queue=queue)]

"""basic.publish: refusals, returns, and what publishers may put in properties."""

import pika

from tests.conformance.scenario import scenario


def declared_queues(ctx, channel, *labels):
    queues = [ctx.name(label) for label in labels]
    for queue in queues:
        channel.queue_declare(queue)
    return queues


def answer_to_publish(ctx, properties):
    """What the broker says to a message with these properties, and what arrives of it."""
    channel = ctx.channel()
    (queue,) = declared_queues(ctx, channel, "queue")
    channel.basic_publish("", queue, b"x", pika.BasicProperties(**properties))
    return [ctx.refusal(channel), ctx.bodies(ctx.channel(), queue)]


@scenario
def publish_to_missing_exchange(ctx):
    """404 text on the channel; the channel is closed with basic.publish as the culprit."""
    client = ctx.wire()
    client.publish(1, ctx.name("missing"), "key", "x")
    return client.read_event()


@scenario
def mandatory_message_is_returned(ctx):
    """basic.return with 312 NO_ROUTE carries properties and body back."""
    client = ctx.wire()
    client.publish(
        1,
        "amq.direct",
        ctx.name("nowhere"),
        "body",
        {"content_type": "text/plain", "headers": {"a": ("I", 1)}},
        mandatory=True,
    )
    return client.read_event()


@scenario
def mandatory_message_to_default_exchange(ctx):
    """A return from the default exchange names it ''."""
    client = ctx.wire()
    client.publish(1, "", ctx.name("nowhere"), "", mandatory=True)
    return client.read_event()


@scenario
def mandatory_routable_message_is_not_returned(ctx):
    """A mandatory message that reaches a queue is only confirmed."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    client.call(1, "confirm.select")
    client.publish(1, "", queue, "x", mandatory=True)
    return client.read_until_quiet()


@scenario
def mandatory_message_rejected_by_full_queue(ctx):
    """A message refused by reject-publish was routed: a nack and no return."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(
        1,
        "queue.declare",
        queue=queue,
        arguments={"x-max-length": ("I", 0), "x-overflow": ("S", "reject-publish")},
    )
    client.call(1, "confirm.select")
    client.publish(1, "", queue, "x", mandatory=True)
    return client.read_until_quiet()


@scenario
def bcc_alone_leaves_empty_headers(ctx):
    """What is left of the headers when BCC was the only one."""
    client = ctx.wire()
    to, bcc = ctx.name("to"), ctx.name("bcc")
    for queue in (to, bcc):
        client.call(1, "queue.declare", queue=queue)
    client.publish(1, "", to, "x", {"headers": {"BCC": ("A", [("S", bcc)])}})
    return [client.call(1, "basic.get", queue=queue, no_ack=True) for queue in (to, bcc)]


@scenario
def cc_to_the_same_queue_is_one_copy(ctx, channel):
    """A queue named twice gets one copy."""
    (queue,) = declared_queues(ctx, channel, "queue")
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x", pika.BasicProperties(headers={"CC": [queue, queue]}))
    return ctx.bodies(channel, queue)


@scenario
def cc_that_is_not_an_array(ctx):
    """A CC header that is a plain string is refused."""
    return answer_to_publish(ctx, {"headers": {"CC": "a string"}})


@scenario
def bcc_that_is_not_an_array(ctx):
    """A BCC header that is a number is refused."""
    return answer_to_publish(ctx, {"headers": {"BCC": 5}})


@scenario
def user_id_must_be_the_user(ctx):
    """406 text for another user's id."""
    return answer_to_publish(ctx, {"user_id": "conf_someone_else"})


@scenario
def user_id_of_the_user(ctx):
    """The connection's own user is a good user-id."""
    return answer_to_publish(ctx, {"user_id": ctx.target.user})


@scenario
def expiration_with_trailing_letters(ctx):
    """406 text for an expiration with something after the number."""
    return answer_to_publish(ctx, {"expiration": "100ms"})


@scenario
def expiration_negative(ctx):
    """406 text for a negative expiration."""
    return answer_to_publish(ctx, {"expiration": "-1"})


@scenario
def expiration_empty(ctx):
    """406 text for an empty expiration."""
    return answer_to_publish(ctx, {"expiration": ""})


@scenario
def expiration_too_large(ctx):
    """406 text for an expiration beyond the broker's limit."""
    return answer_to_publish(ctx, {"expiration": str(2**33 * 1000)})


@scenario
def delivery_mode_other_than_one_or_two(ctx):
    """406 text for a delivery mode that does not exist."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    client.publish(1, "", queue, "x", {"delivery_mode": 7})
    return client.call(1, "basic.get", queue=queue, no_ack=True)


@scenario
def publish_after_refusal_is_dropped(ctx):
    """Messages behind the one that closed the channel are not routed."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    client.publish(1, "", queue, "before")
    client.publish(1, ctx.name("missing"), "key", "x")
    client.publish(1, "", queue, "after")
    closed = client.read_event()
    client.send(1, "channel.close-ok")
    client.open_channel(1)
    return [closed["reply_code"]] + [
        client.call(1, "basic.get", queue=queue, no_ack=True) for _ in range(2)
    ]


@scenario
def body_above_max_message_size(ctx):
    """406 text for a body above the broker's message size limit."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    client.publish(1, "", queue, bytes(128 * 1024 * 1024 + 1))
    return client.read_event()


@scenario
def empty_body(ctx, channel):
    """A message without a body is a message."""
    (queue,) = declared_queues(ctx, channel, "queue")
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"")
    return ctx.deliveries(channel, queue)

"""basic.cancel after other requests of its channel: what the consumer still gets before it."""

from tests.conformance.scenario import scenario


def described(events):
    return [[event["method"], event.get("body")] for event in events]


@scenario
def publish_and_cancel(ctx):
    """A message that is published before the cancel, on its channel, is delivered before it."""
    client = ctx.wire()
    queue = ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    answers = []
    for number in range(10):
        client.call(1, "basic.consume", queue=queue, consumer_tag="c", no_ack=True)
        client.publish(1, "", queue, str(number))
        client.send(1, "basic.cancel", consumer_tag="c")
        answers.append(sorted(described(client.read_until_quiet(0.3)), reverse=True))
    return [answers, client.call(1, "queue.declare", queue=queue, passive=True)["message_count"]]


@scenario
def requeue_and_cancel(ctx):
    """A message that is requeued before the cancel is delivered again before it."""
    client = ctx.wire()
    queue = ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    client.call(1, "basic.consume", queue=queue, consumer_tag="c")
    client.publish(1, "", queue, "x")
    first = client.read_event()
    client.send(1, "basic.nack", delivery_tag=first["delivery_tag"], requeue=True)
    client.send(1, "basic.cancel", consumer_tag="c")
    after = described(client.read_until_quiet())
    return [sorted(after), client.call(1, "queue.declare", queue=queue, passive=True)]


@scenario
def get_requeue_and_cancel(ctx):
    """The same for a message that was got."""
    client = ctx.wire()
    queue = ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    client.publish(1, "", queue, "x")
    got = client.call(1, "basic.get", queue=queue)
    client.call(1, "basic.consume", queue=queue, consumer_tag="c")
    client.send(1, "basic.nack", delivery_tag=got["delivery_tag"], requeue=True)
    client.send(1, "basic.cancel", consumer_tag="c")
    after = described(client.read_until_quiet())
    return [sorted(after), client.call(1, "queue.declare", queue=queue, passive=True)]


@scenario
def ack_and_cancel(ctx):
    """Room that an ack makes before the cancel is used before it."""
    client = ctx.wire()
    queue = ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    client.call(1, "basic.qos", prefetch_count=1)
    client.call(1, "basic.consume", queue=queue, consumer_tag="c")
    client.publish(1, "", queue, "x")
    client.publish(1, "", queue, "y")
    first = client.read_event()
    client.send(1, "basic.ack", delivery_tag=first["delivery_tag"])
    client.send(1, "basic.cancel", consumer_tag="c")
    after = described(client.read_until_quiet())
    return [sorted(after), client.call(1, "queue.declare", queue=queue, passive=True)]

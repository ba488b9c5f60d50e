"""Opening, closing and misusing channels."""

from tests.conformance.scenario import scenario


@scenario
def method_on_unopened_channel(ctx):
    """A method on a channel that was never opened closes the connection with 504."""
    client = ctx.wire()
    client.send(2, "basic.qos")
    return client.read_until_closed()


@scenario
def publish_on_unopened_channel(ctx):
    """Content on a channel that was never opened."""
    client = ctx.wire()
    client.publish(2, "", "nowhere", "x")
    return client.read_until_closed()


@scenario
def channel_open_on_channel_zero(ctx):
    """Channel 0 cannot be opened."""
    client = ctx.wire()
    client.send(0, "channel.open")
    return client.read_until_closed()


@scenario
def queue_method_on_channel_zero(ctx):
    """Channel 0 takes connection methods only."""
    client = ctx.wire()
    client.send(0, "queue.declare", queue=ctx.name("queue"))
    return client.read_until_closed()


@scenario
def client_closes_channel(ctx):
    """channel.close is answered with close-ok; the number can be used again."""
    client = ctx.wire()
    return [
        client.call(1, "channel.close", reply_code=200, reply_text="bye"),
        client.call(1, "channel.open"),
        client.call(1, "basic.qos"),
    ]


@scenario
def method_after_client_closed_channel(ctx):
    """A closed channel number is an unopened one again."""
    client = ctx.wire()
    client.call(1, "channel.close", reply_code=200)
    client.send(1, "basic.qos")
    return client.read_until_closed()


@scenario
def channel_error_leaves_other_channels_alone(ctx):
    """An error on one channel does not touch another."""
    client = ctx.wire()
    client.open_channel(2)
    return [client.call(1, "queue.purge", queue=ctx.name("missing")), client.call(2, "basic.qos")]


@scenario
def frames_after_channel_error_are_ignored(ctx):
    """Until close-ok arrives, methods and content on the channel get no answer."""
    client = ctx.wire()
    queue = ctx.name("queue")
    closed = client.call(1, "queue.purge", queue=ctx.name("missing"))
    client.send(1, "queue.declare", queue=queue)
    client.publish(1, "", queue, "x")
    client.send(1, "basic.qos")
    client.send(1, "channel.close-ok")
    reopened = client.call(1, "channel.open")
    return [closed, reopened, client.call(1, "queue.declare", queue=queue, passive=True)]


@scenario
def client_close_crosses_channel_error(ctx):
    """channel.close on a channel the broker is closing is answered with close-ok."""
    client = ctx.wire()
    closed = client.call(1, "queue.purge", queue=ctx.name("missing"))
    return [closed, client.call(1, "channel.close", reply_code=200)]


@scenario
def unsolicited_close_ok(ctx):
    """channel.close-ok on an open channel that is not closing."""
    client = ctx.wire()
    client.send(1, "channel.close-ok")
    client.send(1, "basic.qos")
    return client.read_until_quiet(1)


@scenario
def flow_on_is_answered(ctx):
    """channel.flow(active=true) is answered with flow-ok."""
    return ctx.wire().call(1, "channel.flow", active=True)


@scenario
def connection_error_carries_class_and_method(ctx):
    """A connection-level error from a method on a channel: immediate publishing."""
    client = ctx.wire()
    client.publish(1, "", ctx.name("queue"), "x", immediate=True)
    return client.read_until_closed()


@scenario
def delivery_tags_restart_per_channel(ctx):
    """Delivery tags count from one on each channel, across gets and deliveries."""
    client = ctx.wire()
    client.open_channel(2)
    queue = ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    for body in "abcd":
        client.publish(1, "", queue, body)
    return [
        client.call(channel, "basic.get", queue=queue)["delivery_tag"] for channel in (1, 1, 2, 1)
    ]

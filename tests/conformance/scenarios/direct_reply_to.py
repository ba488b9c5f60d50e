"""The pseudo-queue amq.rabbitmq.reply-to."""

from tests.conformance.scenario import scenario

REPLY_TO = "amq.rabbitmq.reply-to"


def requester(ctx):
    """A wire client that consumes replies on channel 1."""
    client = ctx.wire()
    client.call(1, "basic.consume", queue=REPLY_TO, consumer_tag="replies", no_ack=True)
    return client


def sent_request(ctx, client):
    """Send a request; the server's side of it, as delivered."""
    queue = ctx.name("requests")
    server = ctx.wire()
    server.call(1, "queue.declare", queue=queue)
    client.publish(1, "", queue, "request", {"reply_to": REPLY_TO, "correlation_id": "c1"})
    client.call(1, "basic.qos")
    return server, server.call(1, "basic.get", queue=queue, no_ack=True)


@scenario
def request_and_reply(ctx):
    """A request carries a generated reply-to; publishing to it reaches the requester."""
    client = requester(ctx)
    server, request = sent_request(ctx, client)
    server.publish(1, "", request["properties"]["reply_to"], "reply", {"correlation_id": "c1"})
    reply = client.read_event()
    generated = reply.pop("routing_key") == request["properties"]["reply_to"]
    return [request, reply, generated]


@scenario
def consume_needs_no_ack(ctx):
    """406 text for consuming replies with acknowledgements."""
    return ctx.wire().call(1, "basic.consume", queue=REPLY_TO, no_ack=False)


@scenario
def consume_again_after_cancel(ctx):
    """After a cancel, the channel may consume replies again."""
    client = requester(ctx)
    return [
        client.call(1, "basic.cancel", consumer_tag="replies"),
        client.call(1, "basic.consume", queue=REPLY_TO, consumer_tag="again", no_ack=True),
    ]


@scenario
def publish_without_consumer(ctx):
    """406 text for a request from a channel that does not consume replies."""
    client = ctx.wire()
    client.publish(1, "", ctx.name("requests"), "x", {"reply_to": REPLY_TO})
    return client.read_event()


@scenario
def declare_actively(ctx):
    """Declaring the pseudo-queue outright."""
    return ctx.wire().call(1, "queue.declare", queue=REPLY_TO)


@scenario
def reply_queue_exists_while_consumed(ctx):
    """A server can ask with a passive declare whether the requester is still there."""
    client = requester(ctx)
    server, request = sent_request(ctx, client)
    reply_to = request["properties"]["reply_to"]
    present = server.call(1, "queue.declare", queue=reply_to, passive=True)
    client.call(1, "channel.close", reply_code=200)
    return [present, server.call(1, "queue.declare", queue=reply_to, passive=True)]


@scenario
def reply_with_confirms(ctx):
    """A reply on a confirming channel is acknowledged."""
    client = requester(ctx)
    server, request = sent_request(ctx, client)
    server.call(1, "confirm.select")
    server.publish(1, "", request["properties"]["reply_to"], "reply", mandatory=True)
    return [client.read_event()["body"], server.read_until_quiet()]


@scenario
def get_from_pseudo_queue(ctx):
    """basic.get on the pseudo-queue."""
    return ctx.wire().call(1, "basic.get", queue=REPLY_TO)

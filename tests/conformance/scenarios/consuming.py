"""basic.consume, cancel, qos and the order of deliveries."""

from tests.conformance.context import Inbox
from tests.conformance.scenario import scenario


def queue_of(ctx, client, *bodies, label="queue", **arguments):
    """A queue declared and filled over a wire client."""
    queue = ctx.name(label)
    client.call(1, "queue.declare", queue=queue, arguments=arguments)
    for body in bodies:
        client.publish(1, "", queue, body)
    client.call(1, "queue.declare", queue=queue, passive=True)
    return queue


def bodies_by_consumer(events):
    return [[event["consumer_tag"], event["body"]] for event in events]


@scenario
def server_named_consumer_tag(ctx):
    """An empty consumer tag gets an amq.ctag- name."""
    client = ctx.wire()
    return client.call(1, "basic.consume", queue=queue_of(ctx, client))


@scenario
def consume_missing_queue(ctx):
    """404 text of a consume."""
    client = ctx.wire()
    return client.call(1, "basic.consume", queue=ctx.name("missing"))


@scenario
def same_consumer_tag_on_two_channels(ctx):
    """Consumer tags belong to their channel."""
    client = ctx.wire()
    queue = queue_of(ctx, client)
    client.open_channel(2)
    return [
        client.call(channel, "basic.consume", queue=queue, consumer_tag="same")
        for channel in (1, 2)
    ]


@scenario
def exclusive_consumer_after_another(ctx):
    """403 text for an exclusive consumer on a queue that has one already."""
    client = ctx.wire()
    client.open_channel(2)
    queue = queue_of(ctx, client)
    client.call(1, "basic.consume", queue=queue)
    return client.call(2, "basic.consume", queue=queue, exclusive=True)


@scenario
def queue_is_free_after_exclusive_consumer(ctx):
    """Cancelling the exclusive consumer lets another in."""
    client = ctx.wire()
    queue = queue_of(ctx, client)
    client.call(1, "basic.consume", queue=queue, consumer_tag="first", exclusive=True)
    client.call(1, "basic.cancel", consumer_tag="first")
    return client.call(1, "basic.consume", queue=queue, consumer_tag="next", exclusive=True)


@scenario
def nowait_consume_is_silent(ctx):
    """no-wait consume: deliveries without a consume-ok."""
    client = ctx.wire()
    queue = queue_of(ctx, client, "a")
    client.send(1, "basic.consume", queue=queue, consumer_tag="mine", nowait=True, no_ack=True)
    return client.read_until_quiet()


@scenario
def no_ack_consumer_ignores_prefetch(ctx):
    """The prefetch limit does not hold a no-ack consumer back."""
    client = ctx.wire()
    queue = queue_of(ctx, client, "a", "b", "c")
    client.call(1, "basic.qos", prefetch_count=1)
    client.call(1, "basic.consume", queue=queue, no_ack=True)
    return [event["body"] for event in client.read_until_quiet()]


@scenario
def no_local_is_ignored(ctx):
    """no-local does not keep a connection's own messages away."""
    client = ctx.wire()
    queue = queue_of(ctx, client)
    client.call(1, "basic.consume", queue=queue, no_local=True, no_ack=True)
    client.publish(1, "", queue, "own")
    return client.read_event()["body"]


@scenario
def nowait_cancel_is_silent(ctx):
    """no-wait cancel: no answer, and no more deliveries."""
    client = ctx.wire()
    queue = queue_of(ctx, client)
    client.call(1, "basic.consume", queue=queue, consumer_tag="mine")
    client.send(1, "basic.cancel", consumer_tag="mine", nowait=True)
    client.publish(1, "", queue, "x")
    return client.read_until_quiet()


@scenario
def queue_deletion_cancels_consumers(ctx):
    """A consumer whose queue is deleted is sent basic.cancel with no-wait."""
    client = ctx.wire()
    queue = queue_of(ctx, client)
    client.call(1, "basic.consume", queue=queue, consumer_tag="mine")
    ctx.channel().queue_delete(queue)
    return client.read_event()


@scenario
def queue_deletion_without_cancel_capability(ctx):
    """A client without consumer_cancel_notify is told nothing."""
    client = ctx.wire(capabilities={})
    queue = queue_of(ctx, client)
    client.call(1, "basic.consume", queue=queue, consumer_tag="mine")
    ctx.channel().queue_delete(queue)
    return client.read_until_quiet()


@scenario
def cancel_ok_from_the_client_is_not_expected(ctx):
    """A basic.cancel-ok sent in answer to the broker's basic.cancel."""
    client = ctx.wire()
    queue = queue_of(ctx, client)
    client.call(1, "basic.consume", queue=queue, consumer_tag="mine")
    ctx.channel().queue_delete(queue)
    client.read_event()
    client.send(1, "basic.cancel-ok", consumer_tag="mine")
    client.send(1, "basic.qos")
    return client.read_until_quiet(1)


@scenario
def global_prefetch_limits_the_channel(ctx):
    """Qos with global limits all consumers of the channel together."""
    client = ctx.wire()
    queue = queue_of(ctx, client, "a", "b", "c", "d")
    client.call(1, "basic.qos", prefetch_count=2, **{"global": True})
    client.call(1, "basic.consume", queue=queue, consumer_tag="one")
    first = client.read_until_quiet()
    client.call(1, "basic.consume", queue=queue, consumer_tag="two")
    return [bodies_by_consumer(first), client.read_until_quiet()]


@scenario
def both_prefetch_limits_hold(ctx):
    """With both limits set, the lower one stops a consumer."""
    client = ctx.wire()
    queue = queue_of(ctx, client, "a", "b", "c", "d", "e")
    client.call(1, "basic.qos", prefetch_count=2)
    client.call(1, "basic.qos", prefetch_count=3, **{"global": True})
    client.call(1, "basic.consume", queue=queue, consumer_tag="one")
    first = client.read_until_quiet()
    client.call(1, "basic.consume", queue=queue, consumer_tag="two")
    return [bodies_by_consumer(first), bodies_by_consumer(client.read_until_quiet())]


@scenario
def global_prefetch_change_reaches_existing_consumers(ctx):
    """Raising the global limit lets existing consumers go on."""
    client = ctx.wire()
    queue = queue_of(ctx, client, "a", "b", "c")
    client.call(1, "basic.qos", prefetch_count=1, **{"global": True})
    client.call(1, "basic.consume", queue=queue, consumer_tag="mine")
    client.read_event()
    client.send(1, "basic.qos", prefetch_count=2, **{"global": True})
    return [[event["method"], event.get("body")] for event in client.read_until_quiet()]


@scenario
def ack_makes_room_for_the_next(ctx):
    """With prefetch 1, each ack brings exactly one more message."""
    client = ctx.wire()
    queue = queue_of(ctx, client, "a", "b", "c")
    client.call(1, "basic.qos", prefetch_count=1)
    client.call(1, "basic.consume", queue=queue)
    seen = [client.read_event()]
    for tag in (1, 2):
        client.send(1, "basic.ack", delivery_tag=tag)
        seen += client.read_until_quiet()
    return [[event["delivery_tag"], event["body"]] for event in seen]


@scenario
def qos_with_prefetch_size(ctx):
    """540 text for a prefetch size."""
    client = ctx.wire()
    client.send(1, "basic.qos", prefetch_size=1000)
    return client.read_until_closed()


@scenario
def messages_go_round_robin(ctx):
    """Two equal consumers get messages in turn."""
    client = ctx.wire()
    queue = queue_of(ctx, client)
    for tag in ("one", "two"):
        client.call(1, "basic.consume", queue=queue, consumer_tag=tag, no_ack=True)
    for body in "abcd":
        client.publish(1, "", queue, body)
    return bodies_by_consumer(client.read_events(4))


@scenario
def consumer_priority_must_be_an_integer(ctx):
    """406 text for an x-priority that is no integer."""
    client = ctx.wire()
    queue = queue_of(ctx, client)
    return client.call(1, "basic.consume", queue=queue, arguments={"x-priority": ("S", "high")})


@scenario
def unknown_consume_arguments_are_let_through(ctx):
    """Arguments without a meaning do no harm."""
    client = ctx.wire()
    queue = queue_of(ctx, client)
    return client.call(
        1,
        "basic.consume",
        queue=queue,
        consumer_tag="mine",
        arguments={"x-unknown": ("S", "x"), "x-cancel-on-ha-failover": ("t", True)},
    )


@scenario
def single_active_consumer_takes_over_unacknowledged(ctx):
    """What the closed active channel had outstanding goes to the next consumer."""
    client, queue_owner = ctx.wire(), ctx.wire()
    queue = queue_of(ctx, queue_owner, "a", "b", **{"x-single-active-consumer": ("t", True)})
    client.open_channel(2)
    client.call(1, "basic.consume", queue=queue, consumer_tag="active")
    client.read_events(2)
    client.call(2, "basic.consume", queue=queue, consumer_tag="waiting")
    client.send(1, "channel.close", reply_code=200)
    return [
        [event["consumer_tag"], event["body"], event["redelivered"]]
        for event in client.read_events(3)
        if event["method"] == "basic.deliver"
    ]


@scenario
def single_active_consumer_refuses_exclusive(ctx):
    """403 text for an exclusive consumer on a single-active-consumer queue."""
    client = ctx.wire()
    queue = queue_of(ctx, client, **{"x-single-active-consumer": ("t", True)})
    return client.call(1, "basic.consume", queue=queue, exclusive=True)


@scenario
def consumer_with_cancel_and_pending_messages(ctx):
    """After cancel-ok nothing more is delivered, and the rest stays ready."""
    client = ctx.wire()
    queue = queue_of(ctx, client, "a", "b", "c")
    client.call(1, "basic.qos", prefetch_count=1)
    client.call(1, "basic.consume", queue=queue, consumer_tag="mine")
    client.read_event()
    client.call(1, "basic.cancel", consumer_tag="mine")
    client.send(1, "basic.ack", delivery_tag=1)
    return [client.read_until_quiet(), ctx.bodies(ctx.channel(), queue)]


@scenario
def pika_consumer_receives_in_order(ctx, channel, queue):
    """An ordinary client's consumer sees messages in publishing order."""
    channel.queue_declare(queue)
    inbox = Inbox(channel, queue, auto_ack=True)
    for number in range(20):
        channel.basic_publish("", queue, str(number).encode())
    return [entry["body"] for entry in inbox.wait_for(20)]

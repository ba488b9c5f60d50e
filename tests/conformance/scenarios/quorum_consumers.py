"""Consumers of quorum queues: exclusive ones, prefetch, arguments, priorities, the active one."""

from tests.conformance.context import Inbox
from tests.conformance.scenario import scenario
from tests.conformance.scenarios.quorum_messages import filled, publish, quorum_queue, rest, seen


@scenario
def exclusive_consumers(ctx, channel):
    """The exclusive flag of a consumer means nothing."""
    queue = quorum_queue(ctx, channel)
    return [
        ctx.attempt(channel.basic_consume, queue, print, exclusive=True, consumer_tag="one"),
        ctx.attempt(channel.basic_consume, queue, print, exclusive=True, consumer_tag="two"),
        ctx.attempt(channel.basic_consume, queue, print, consumer_tag="three"),
    ]


@scenario
def global_prefetch_is_refused(ctx, channel):
    """A channel with a global prefetch cannot consume from a quorum queue."""
    queue = quorum_queue(ctx, channel)
    channel.basic_qos(prefetch_count=5, global_qos=True)
    return ctx.attempt(channel.basic_consume, queue, print)


@scenario
def global_prefetch_after_the_consumer(ctx):
    """A global prefetch that is set later is accepted, and does not limit the consumer."""
    client = ctx.wire()
    queue = filled(ctx, ctx.channel(), *"abcde")
    answer = client.call(1, "basic.qos", prefetch_count=0)
    client.call(1, "basic.consume", queue=queue)
    first = client.read_events(5)
    later = client.call(1, "basic.qos", **{"prefetch_count": 1, "global": True})
    publish(ctx.channel(), queue, "f", "g")
    events = client.read_until_quiet()
    return [answer["method"], later["method"], [event["body"] for event in first + events]]


@scenario
def get_works_with_global_prefetch(ctx, channel):
    """basic.get is not limited."""
    queue = filled(ctx, channel, "a")
    channel.basic_qos(prefetch_count=5, global_qos=True)
    return seen(ctx.get(channel, queue))


@scenario
def consumer_arguments(ctx):
    """Those of other types are refused, and x-priority is checked."""
    queue = quorum_queue(ctx, ctx.channel())
    return [
        ctx.attempt(ctx.connect().channel().basic_consume, queue, print, arguments=arguments)
        for arguments in (
            {"x-cancel-on-ha-failover": True},
            {"x-stream-offset": "first"},
            {"x-priority": "high"},
        )
    ]


@scenario
def get_with_single_active_consumer(ctx, channel):
    """basic.get is refused."""
    queue = filled(ctx, channel, "a", single_active_consumer=True)
    return ctx.attempt(channel.basic_get, queue)


@scenario
def single_active_consumer(ctx):
    """The first consumer is active, whatever the priorities, and the next one follows it."""
    client = ctx.wire()
    channel = ctx.channel()
    queue = quorum_queue(ctx, channel, single_active_consumer=True)
    for tag, priority in (("first", 0), ("second", 1), ("third", 9)):
        arguments = {"x-priority": ("I", priority)}
        client.call(1, "basic.consume", queue=queue, consumer_tag=tag, arguments=arguments)
    channel.confirm_delivery()
    publish(channel, queue, "a")
    first = client.read_event()
    client.send(1, "basic.ack", delivery_tag=first["delivery_tag"])
    client.call(1, "basic.cancel", consumer_tag="first")
    publish(channel, queue, "b")
    second = client.read_event()
    return [[event["consumer_tag"], event["body"]] for event in (first, second)]


@scenario
def consumer_priorities(ctx):
    """The consumer with the highest priority that has room comes first."""
    client = ctx.wire()
    channel = ctx.channel()
    queue = quorum_queue(ctx, channel)
    client.call(1, "basic.qos", prefetch_count=2)
    for tag, priority in (("low", 0), ("high", 5)):
        arguments = {"x-priority": ("I", priority)}
        client.call(1, "basic.consume", queue=queue, consumer_tag=tag, arguments=arguments)
    channel.confirm_delivery()
    publish(channel, queue, *"abcd")
    return [[event["consumer_tag"], event["body"]] for event in client.read_events(4)]


@scenario
def two_consumers_take_turns(ctx):
    """Consumers of equal priority get messages in turn."""
    client = ctx.wire()
    channel = ctx.channel()
    queue = quorum_queue(ctx, channel)
    for tag in ("one", "two"):
        client.call(1, "basic.consume", queue=queue, consumer_tag=tag)
    channel.confirm_delivery()
    publish(channel, queue, *"abcd")
    return [[event["consumer_tag"], event["body"]] for event in client.read_events(4)]


@scenario
def message_priorities_mean_nothing(ctx, channel):
    """Messages come in order."""
    queue = quorum_queue(ctx, channel)
    channel.confirm_delivery()
    for priority in (1, 9, 5):
        publish(channel, queue, str(priority), priority=priority)
    return ctx.bodies(channel, queue)


@scenario
def unlimited_prefetch_is_2000(ctx):
    """A consumer without a prefetch limit holds 2,000 messages."""
    client = ctx.wire()
    channel = ctx.channel()
    queue = quorum_queue(ctx, channel)
    client.call(1, "basic.consume", queue=queue)
    client.call(1, "confirm.select")
    for _ in range(2010):
        client.publish(1, "", queue, b"x")
    found = [event for event in client.read_until_quiet() if event["method"] == "basic.deliver"]
    client.send(1, "basic.ack", delivery_tag=5, multiple=True)
    more = [event["method"] for event in client.read_until_quiet()]
    return [len(found), found[-1]["delivery_tag"], more]


@scenario
def cancelled_consumer_keeps_its_messages(ctx, channel):
    """Messages stay with the channel after a cancel, and can be acked."""
    queue = filled(ctx, channel, "a", "b")
    inbox = Inbox(channel, queue)
    tags = [one["delivery_tag"] for one in inbox.wait_for(2)]
    channel.basic_cancel(inbox.consumer_tag)
    publish(channel, queue, "c")
    channel.basic_ack(tags[0])
    channel.basic_nack(tags[1])
    ctx.await_message_count(channel, queue, 2)
    return rest(ctx, queue)


@scenario
def deleted_queue_cancels_consumers(ctx):
    """A client that knows basic.cancel is told."""
    client = ctx.wire()
    channel = ctx.channel()
    queue = quorum_queue(ctx, channel)
    client.call(1, "basic.consume", queue=queue, consumer_tag="c")
    channel.queue_delete(queue)
    return client.read_until_quiet()


@scenario
def in_management(ctx):
    """The API lists consumers with their state."""
    vhost = ctx.vhost()
    channel, other = ctx.connect(vhost).channel(), ctx.connect(vhost).channel()
    single = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    channel.queue_declare("single", durable=True, arguments=single)
    channel.queue_declare("shared", durable=True, arguments={"x-queue-type": "quorum"})
    other.basic_qos(prefetch_count=7)
    Inbox(channel, "single", consumer_tag="active")
    Inbox(other, "single", consumer_tag="waiting")
    Inbox(other, "shared", consumer_tag="up", arguments={"x-priority": 3})
    found = ctx.await_consumers(vhost, 3)
    shown = ("active", "activity_status", "ack_required", "exclusive", "prefetch_count",
             "arguments")  # fmt: skip
    return {one["consumer_tag"]: [one[key] for key in shown] for one in found}

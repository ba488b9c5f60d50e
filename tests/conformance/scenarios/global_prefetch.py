"""A prefetch limit that all consumers of a channel share (basic.qos with the global flag)."""

from tests.conformance.scenario import scenario

GLOBAL = {"prefetch_size": 0, "global": True}


def filled(ctx, *bodies, name="queue", arguments=None):
    channel = ctx.channel()
    queue = ctx.name(name)
    channel.queue_declare(queue, arguments=arguments)
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body.encode())
    return queue


def consuming(client, queue, *tags, **options):
    for tag in tags:
        client.send(1, "basic.consume", queue=queue, consumer_tag=tag, **options)


def deliveries(client, count):
    """The next deliveries; other methods are passed over."""
    found = []
    while len(found) < count:
        event = client.read_event()
        if event["method"] == "basic.deliver":
            found.append(event)
    return found


def shown(events):
    return [[event["consumer_tag"], event["body"]] for event in events]


@scenario
def two_consumers_take_turns_one_by_one(ctx):
    """With room for one message, two consumers of a queue get it in turn."""
    client = ctx.wire()
    client.call(1, "basic.qos", prefetch_count=1, **GLOBAL)
    queue = filled(ctx)
    consuming(client, queue, "a", "b")
    client.read_events(2)
    filler = ctx.channel()
    for number in range(6):
        filler.basic_publish("", queue, b"%d" % number)
    seen = []
    for _ in range(6):
        (event,) = deliveries(client, 1)
        seen.append(event)
        client.send(1, "basic.ack", delivery_tag=event["delivery_tag"])
    return shown(seen)


@scenario
def two_consumers_share_a_larger_limit(ctx):
    """With room for four messages, each of two consumers gets two."""
    client = ctx.wire()
    client.call(1, "basic.qos", prefetch_count=4, **GLOBAL)
    queue = filled(ctx)
    consuming(client, queue, "a", "b")
    client.read_events(2)
    filler = ctx.channel()
    for number in range(8):
        filler.basic_publish("", queue, b"%d" % number)
    first = deliveries(client, 4)
    quiet = client.read_until_quiet()
    client.send(1, "basic.ack", delivery_tag=first[-1]["delivery_tag"], multiple=True)
    return [shown(first), quiet, shown(deliveries(client, 4))]


@scenario
def consumer_without_acks_waits(ctx):
    """A consumer without acks gets nothing while the limit is reached."""
    client = ctx.wire()
    client.call(1, "basic.qos", prefetch_count=1, **GLOBAL)
    with_acks, without = filled(ctx, "a", name="acks"), filled(ctx, "x", "y", name="none")
    consuming(client, with_acks, "acks")
    (held,) = deliveries(client, 1)
    consuming(client, without, "none", no_ack=True)
    before = [event["method"] for event in client.read_until_quiet()]
    client.send(1, "basic.ack", delivery_tag=held["delivery_tag"])
    return [before, shown(deliveries(client, 2))]


@scenario
def consumer_without_acks_takes_no_room(ctx):
    """What is delivered without acks does not count."""
    client = ctx.wire()
    client.call(1, "basic.qos", prefetch_count=2, **GLOBAL)
    consuming(client, filled(ctx, *"abcde"), "none", no_ack=True)
    return shown(deliveries(client, 5))


@scenario
def both_limits(ctx):
    """The limit of each consumer holds beside the shared one."""
    client = ctx.wire()
    client.call(1, "basic.qos", prefetch_count=2)
    client.call(1, "basic.qos", prefetch_count=3, **GLOBAL)
    first, second = filled(ctx, *"abcd", name="first"), filled(ctx, *"wxyz", name="second")
    consuming(client, first, "a")
    found = deliveries(client, 2)
    consuming(client, second, "b")
    found += deliveries(client, 1)
    return [shown(found), [event["method"] for event in client.read_until_quiet()]]


@scenario
def raising_the_limit(ctx):
    """A higher limit lets more messages through at once."""
    client = ctx.wire()
    client.call(1, "basic.qos", prefetch_count=1, **GLOBAL)
    consuming(client, filled(ctx, *"abcd"), "a")
    found = deliveries(client, 1)
    client.send(1, "basic.qos", prefetch_count=3, **GLOBAL)
    found += deliveries(client, 2)
    return [shown(found), [event["method"] for event in client.read_until_quiet()]]


@scenario
def removing_the_limit(ctx):
    """A limit of 0 is none."""
    client = ctx.wire()
    client.call(1, "basic.qos", prefetch_count=1, **GLOBAL)
    consuming(client, filled(ctx, *"abcd"), "a")
    found = deliveries(client, 1)
    client.send(1, "basic.qos", prefetch_count=0, **GLOBAL)
    return shown(found + deliveries(client, 3))


@scenario
def messages_got_count_when_the_limit_is_set(ctx):
    """What basic.get took before counts, and acking it frees no room."""
    client = ctx.wire()
    got, queue = filled(ctx, "g", name="got"), filled(ctx, *"ab", name="queue")
    client.call(1, "basic.get", queue=got)
    client.call(1, "basic.qos", prefetch_count=1, **GLOBAL)
    consuming(client, queue, "a")
    before = [event["method"] for event in client.read_until_quiet()]
    client.send(1, "basic.ack", delivery_tag=1)
    return [before, [event["method"] for event in client.read_until_quiet()]]


@scenario
def messages_got_later_do_not_count(ctx):
    """basic.get takes no room."""
    client = ctx.wire()
    got, queue = filled(ctx, "g", name="got"), filled(ctx, *"ab", name="queue")
    client.call(1, "basic.qos", prefetch_count=1, **GLOBAL)
    client.call(1, "basic.get", queue=got)
    consuming(client, queue, "a")
    return shown(deliveries(client, 1))


@scenario
def rejected_messages_make_room(ctx):
    """A reject without requeue makes room as an ack does."""
    client = ctx.wire()
    client.call(1, "basic.qos", prefetch_count=1, **GLOBAL)
    consuming(client, filled(ctx, *"ab"), "a")
    (first,) = deliveries(client, 1)
    client.send(1, "basic.reject", delivery_tag=first["delivery_tag"], requeue=False)
    return shown(deliveries(client, 1))


@scenario
def requeued_message_goes_to_the_other_consumer(ctx):
    """A nacked message goes to the consumer whose turn it is."""
    client = ctx.wire()
    client.call(1, "basic.qos", prefetch_count=1, **GLOBAL)
    queue = filled(ctx)
    consuming(client, queue, "a", "b")
    client.read_events(2)
    ctx.channel().basic_publish("", queue, b"x")
    seen = []
    for _ in range(4):
        (event,) = deliveries(client, 1)
        seen.append(event)
        client.send(1, "basic.nack", delivery_tag=event["delivery_tag"], requeue=True)
    return shown(seen)


@scenario
def cancelled_consumers_messages_still_count(ctx):
    """Messages of a cancelled consumer take room until they are acked."""
    client = ctx.wire()
    client.call(1, "basic.qos", prefetch_count=1, **GLOBAL)
    queue = filled(ctx, *"ab")
    consuming(client, queue, "a")
    (first,) = deliveries(client, 1)
    client.call(1, "basic.cancel", consumer_tag="a")
    consuming(client, queue, "b")
    before = [event["method"] for event in client.read_until_quiet()]
    client.send(1, "basic.ack", delivery_tag=first["delivery_tag"])
    return [before, shown(deliveries(client, 1))]

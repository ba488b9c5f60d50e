"""The record of a message's deaths (x-death) over many deaths, and records that clients made up."""

import itertools

from tests.conformance.scenario import scenario


def chain(ctx, channel, length, **arguments):
    """Queues that each dead-letter to the next one through the default exchange."""
    queues = [ctx.name(f"q{number}") for number in range(length)]
    channel.queue_declare(queues[-1])
    for queue, following in itertools.pairwise(queues):
        target = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": following}
        channel.queue_declare(queue, arguments={**target, **arguments})
    return queues


def deaths(delivery):
    """The deaths of a message: queue, reason and count, the latest first."""
    return [
        [death.get("queue"), death.get("reason"), death.get("count"), death.get("own")]
        for death in delivery["properties"]["headers"]["x-death"]
    ]


def published_with(ctx, x_death, headers=None):
    """What the dead letter shows of a message that was published with an x-death header."""
    channel = ctx.channel()
    source, grave = chain(ctx, channel, 2)
    client = ctx.wire()
    all_headers = {**(headers or {}), "x-death": x_death}
    client.publish(1, "", source, b"x", {"headers": all_headers})
    got = ctx.await_get(channel, source)
    channel.basic_reject(got["delivery_tag"], requeue=False)
    (dead,) = ctx.await_deliveries(channel, grave, 1)
    return dead


def death(queue, reason="rejected", **others):
    return ("F", {"queue": ("S", queue), "reason": ("S", reason), **others})


@scenario
def order_over_many_queues(ctx, channel):
    """The order of the entries of a message that died in five queues."""
    queues = chain(ctx, channel, 6)
    channel.basic_publish("", queues[0], b"x")
    orders = []
    for queue, following in itertools.pairwise(queues):
        got = ctx.await_get(channel, queue)
        channel.basic_reject(got["delivery_tag"], requeue=False)
        ctx.await_message_count(channel, following, 1)
        got = ctx.await_get(channel, following)
        orders.append(deaths(got))
        channel.basic_nack(got["delivery_tag"])
    return orders


@scenario
def order_when_a_queue_comes_again(ctx, channel):
    """An entry that is counted again moves to the front."""
    first, second, third, again = (ctx.name(name) for name in ("a", "b", "c", "d"))
    for queue, following in ((first, second), (second, third), (third, first)):
        target = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": following}
        channel.queue_declare(queue, arguments=target)
    channel.queue_declare(again)
    channel.basic_publish("", first, b"x")
    orders = []
    for queue in (first, second, third, first, second, third):
        got = ctx.await_get(channel, queue)
        if "headers" in got["properties"]:
            orders.append(deaths(got))
        channel.basic_reject(got["delivery_tag"], requeue=False)
    return orders


@scenario
def entry_without_count(ctx):
    """The only entry, of the same queue and reason, has no count."""
    source = ctx.name("q0")
    return deaths(published_with(ctx, ("A", [death(source)])))


@scenario
def entry_of_another_queue_without_count(ctx):
    """The only entry is of another queue and has no count."""
    return deaths(published_with(ctx, ("A", [death("other")])))


@scenario
def duplicates_without_count(ctx):
    """Entries that repeat queue and reason are merged, and their number is the count."""
    source = ctx.name("q0")
    return [
        deaths(published_with(ctx, ("A", [death(source), death(source), death(source)]))),
        deaths(published_with(ctx, ("A", [death("other"), death("other")]))),
    ]


@scenario
def duplicates_with_counts(ctx):
    """Of entries that repeat queue and reason the first one stays."""
    source = ctx.name("q0")
    first, second = (death(source, count=("l", count)) for count in (3, 5))
    return deaths(published_with(ctx, ("A", [first, second])))


@scenario
def different_entries_without_counts(ctx):
    """Entries of several queues and reasons get a count of 1."""
    source = ctx.name("q0")
    entries = [
        death("one", own=("I", 1)),
        death(source, "expired", own=("I", 2)),
        death(source, own=("I", 3)),
        death("two", count=("l", 7), own=("I", 4)),
    ]
    return deaths(published_with(ctx, ("A", entries)))


@scenario
def entry_without_queue_and_reason(ctx):
    """Entries that name neither are kept."""
    return deaths(published_with(ctx, ("A", [("F", {"own": ("I", 1)}), ("F", {"own": ("I", 2)})])))


@scenario
def names_of_other_types(ctx):
    """Queue and reason are compared by their values, whatever their types are."""
    source = ctx.name("q0")
    entry = {"queue": ("x", source), "reason": ("S", "rejected"), "count": ("I", 4)}
    return deaths(published_with(ctx, ("A", [("F", entry)])))


@scenario
def header_that_is_no_array(ctx):
    """It is replaced, and no x-first-death headers are set."""
    return published_with(ctx, ("S", "text"))["properties"]["headers"]


@scenario
def empty_array(ctx):
    """It gets its first entry, and no x-first-death headers are set."""
    return published_with(ctx, ("A", []))["properties"]["headers"]


@scenario
def keys_of_bcc(ctx, channel):
    """Without a key of its own a queue dead-letters to the keys of CC and BCC, too."""
    exchange = ctx.name("exchange")
    channel.exchange_declare(exchange, "direct")
    source = ctx.name("source")
    channel.queue_declare(source, arguments={"x-dead-letter-exchange": exchange})
    graves = {}
    for key in (source, "cc", "bcc"):
        graves[key] = ctx.name(f"grave_{key[:3]}")
        channel.queue_declare(graves[key], arguments={"x-dead-letter-exchange": exchange})
        channel.queue_bind(graves[key], exchange, key)
    headers = {"CC": ("A", [("S", "cc")]), "BCC": ("A", [("S", "bcc")])}
    ctx.wire().publish(1, "", source, b"x", {"headers": headers})
    got = ctx.await_get(channel, source)
    channel.basic_reject(got["delivery_tag"], requeue=False)
    first = {key: ctx.await_get(channel, grave) for key, grave in graves.items()}
    channel.basic_reject(first["bcc"]["delivery_tag"], requeue=False)
    again = {key: ctx.await_get(channel, grave) for key, grave in graves.items()}
    return [
        {key: [got["body"], got["routing_key"], got["properties"]] for key, got in found.items()}
        for found in (first, again)
    ]


@scenario
def keys_of_bcc_with_a_key_of_the_queue(ctx, channel):
    """A queue with a key of its own dead-letters to that key only."""
    exchange = ctx.name("exchange")
    channel.exchange_declare(exchange, "direct")
    source, grave, other = ctx.name("source"), ctx.name("grave"), ctx.name("other")
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "key"}
    channel.queue_declare(source, arguments=arguments)
    for queue, key in ((grave, "key"), (other, "bcc")):
        channel.queue_declare(queue)
        channel.queue_bind(queue, exchange, key)
    ctx.wire().publish(1, "", source, b"x", {"headers": {"BCC": ("A", [("S", "bcc")])}})
    got = ctx.await_get(channel, source)
    channel.basic_reject(got["delivery_tag"], requeue=False)
    dead = ctx.await_deliveries(channel, grave, 1)
    return [dead, ctx.get(channel, other)]


@scenario
def expiration_zero_after_a_requeue(ctx):
    """A message with expiration 0 that is requeued expires, though a consumer waits for it."""
    client = ctx.wire()
    channel = ctx.channel()
    source, grave = chain(ctx, channel, 2)
    client.call(1, "basic.qos", prefetch_count=1)
    client.call(1, "basic.consume", queue=source)
    answers = []
    for number in range(20):
        client.publish(1, "", source, str(number), {"expiration": "0"})
        event = client.read_event()
        client.send(1, "basic.nack", delivery_tag=event["delivery_tag"], requeue=True)
        (dead,) = ctx.await_deliveries(channel, grave, 1)
        answers.append([event["body"], event["redelivered"], deaths(dead)])
    return [answers, client.read_until_quiet()]

"""Publisher confirms."""

from tests.conformance.scenario import scenario


def confirmed_tags(client, last_tag):
    """The tags confirmed up to the last one, whether one by one or together."""
    outstanding = set(range(1, last_tag + 1))
    confirmed = {"basic.ack": set(), "basic.nack": set()}
    while outstanding:
        event = client.read_event()
        tag = event["delivery_tag"]
        tags = {each for each in outstanding if each <= tag} if event["multiple"] else {tag}
        confirmed[event["method"]] |= tags
        outstanding -= tags
    return {method: sorted(tags) for method, tags in confirmed.items()}


@scenario
def select_answers(ctx):
    """confirm.select is answered and may be repeated."""
    client = ctx.wire()
    return [client.call(1, "confirm.select") for _ in range(2)]


@scenario
def nowait_select_is_silent(ctx):
    """no-wait confirm.select: only the confirm itself arrives."""
    client = ctx.wire()
    client.send(1, "confirm.select", nowait=True)
    client.publish(1, "", ctx.name("nowhere"), "x")
    return client.read_until_quiet()


@scenario
def numbering_goes_on_after_repeated_select(ctx):
    """A repeated confirm.select does not start over."""
    client = ctx.wire()
    client.call(1, "confirm.select")
    client.publish(1, "", ctx.name("nowhere"), "x")
    first = client.read_event()
    client.call(1, "confirm.select")
    client.publish(1, "", ctx.name("nowhere"), "x")
    return [first, client.read_event()]


@scenario
def numbering_is_per_channel(ctx):
    """Each channel counts for itself."""
    client = ctx.wire()
    client.open_channel(2)
    answers = []
    for channel in (1, 2):
        client.call(channel, "confirm.select")
        client.publish(channel, "", ctx.name("nowhere"), "x")
        answers.append(client.read_event())
    return answers


@scenario
def unroutable_messages_are_acknowledged(ctx):
    """A message that goes nowhere counts as handled."""
    client = ctx.wire()
    client.call(1, "confirm.select")
    for _ in range(3):
        client.publish(1, "", ctx.name("nowhere"), "x")
    return confirmed_tags(client, 3)


@scenario
def full_queue_nacks_with_reject_publish(ctx):
    """reject-publish: what fits is acknowledged, what does not is nacked."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(
        1,
        "queue.declare",
        queue=queue,
        arguments={"x-max-length": ("I", 2), "x-overflow": ("S", "reject-publish")},
    )
    client.call(1, "confirm.select")
    answers = []
    for body in "abcd":
        client.publish(1, "", queue, body)
        answers.append(client.read_event()["method"])
    return [answers, ctx.bodies(ctx.channel(), queue)]


@scenario
def one_full_queue_of_two_nacks(ctx):
    """A message refused by one of its queues is nacked, yet in the other."""
    client, exchange = ctx.wire(), ctx.name("exchange")
    full, roomy = ctx.name("full"), ctx.name("roomy")
    client.call(1, "exchange.declare", exchange=exchange, type="fanout")
    client.call(
        1,
        "queue.declare",
        queue=full,
        arguments={"x-max-length": ("I", 0), "x-overflow": ("S", "reject-publish")},
    )
    client.call(1, "queue.declare", queue=roomy)
    for queue in (full, roomy):
        client.call(1, "queue.bind", queue=queue, exchange=exchange)
    client.call(1, "confirm.select")
    client.publish(1, exchange, "", "x")
    return [client.read_event()["method"], ctx.bodies(ctx.channel(), roomy)]


@scenario
def drop_head_is_acknowledged(ctx):
    """Pushing an older message out is no reason for a nack."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(1, "queue.declare", queue=queue, arguments={"x-max-length": ("I", 1)})
    client.call(1, "confirm.select")
    for body in "abc":
        client.publish(1, "", queue, body)
    return [confirmed_tags(client, 3), ctx.bodies(ctx.channel(), queue)]

"""Messages in quorum queues: redelivery, delivery counts and limits, settling, limits, expiry."""

import pika

from tests.conformance.context import Inbox
from tests.conformance.scenario import scenario


def quorum_queue(ctx, channel, name="queue", **arguments):
    """A new quorum queue; `delivery_limit=5` is x-delivery-limit."""
    queue = ctx.name(name)
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum", **named})
    return queue


def publish(channel, queue, *bodies, **properties):
    for body in bodies:
        channel.basic_publish("", queue, body.encode(), pika.BasicProperties(**properties))


def filled(ctx, channel, *bodies, **arguments):
    """A new quorum queue with confirmed messages."""
    queue = quorum_queue(ctx, channel, **arguments)
    channel.confirm_delivery()
    publish(channel, queue, *bodies)
    return queue


def seen(delivery):
    """What a redelivery shows of a message."""
    headers = delivery["properties"].get("headers", {})
    return [delivery["body"], delivery["redelivered"], headers]


def rest(ctx, queue):
    """All that is left in the queue, in order."""
    return [seen(delivery) for delivery in ctx.deliveries(ctx.connect().channel(), queue)]


@scenario
def first_delivery_and_get(ctx, channel):
    """A consumer sees no x-delivery-count at first, basic.get sees 0."""
    queue = filled(ctx, channel, "a", "b")
    got = seen(ctx.get(channel, queue))
    inbox = Inbox(channel, queue)
    return [got, [seen(one) for one in inbox.wait_for(1)]]


@scenario
def count_of_redeliveries_by_get(ctx, channel):
    """Each return adds one."""
    queue = filled(ctx, channel, "a")
    counts = []
    for _ in range(3):
        got = ctx.await_get(channel, queue)
        counts.append(seen(got))
        channel.basic_nack(got["delivery_tag"])
    return counts


@scenario
def count_of_redeliveries_to_a_consumer(ctx):
    """Each return adds one; by nack, reject and recover alike."""
    client = ctx.wire()
    channel = ctx.channel()
    queue = filled(ctx, channel, "a")
    client.call(1, "basic.consume", queue=queue, consumer_tag="c")
    events = [client.read_event()]
    client.send(1, "basic.nack", delivery_tag=events[-1]["delivery_tag"], requeue=True)
    events.append(client.read_event())
    client.send(1, "basic.reject", delivery_tag=events[-1]["delivery_tag"], requeue=True)
    events.append(client.read_event())
    client.send(1, "basic.recover", requeue=True)
    found = client.read_events(2)
    events += sorted(found, key=lambda event: event["method"])
    return [
        [event["method"], event.get("redelivered"), event.get("properties")] for event in events
    ]


@scenario
def own_count_header_of_the_publisher(ctx, channel):
    """The publisher's own x-delivery-count goes through, and is replaced in a redelivery."""
    queue = quorum_queue(ctx, channel, dead_letter_exchange="", dead_letter_routing_key="none")
    channel.confirm_delivery()
    publish(channel, queue, "a", headers={"x-delivery-count": 7, "other": "x"})
    inbox = Inbox(channel, queue)
    first = seen(inbox.wait_for(1)[0])
    channel.basic_nack(inbox.received[0]["delivery_tag"])
    return [first, seen(inbox.wait_for(2)[1])]


@scenario
def got_through_management(ctx, channel):
    """What management gets and requeues unseen goes to the front, what it rejects to the end."""
    queue = filled(ctx, channel, "a", "b", "c")
    got = []
    for mode in ("ack_requeue_true", "reject_requeue_true", "ack_requeue_false"):
        found = ctx.management.post(
            "queues", "/", queue, "get", count=2, ackmode=mode, encoding="auto"
        )
        got.append([[one["payload"], one["redelivered"], one["properties"]] for one in found])
        ctx.await_message_count(channel, queue, 1 if mode == "ack_requeue_false" else 3)
    return [got, rest(ctx, queue)]


@scenario
def nack_without_limit_goes_to_the_end(ctx, channel):
    """Without a delivery limit a requeued message goes behind those that wait."""
    queue = filled(ctx, channel, "a", "b", "c")
    got = ctx.get(channel, queue, auto_ack=False)
    channel.basic_nack(got["delivery_tag"])
    ctx.await_message_count(channel, queue, 3)
    return rest(ctx, queue)


@scenario
def nack_with_limit_goes_to_the_front(ctx, channel):
    """With a delivery limit a requeued message is the next one."""
    queue = filled(ctx, channel, "a", "b", "c", delivery_limit=5)
    got = ctx.get(channel, queue, auto_ack=False)
    channel.basic_nack(got["delivery_tag"])
    ctx.await_message_count(channel, queue, 3)
    return rest(ctx, queue)


@scenario
def order_of_returns_with_limit(ctx, channel):
    """Returned messages come in the order in which they were returned."""
    queue = filled(ctx, channel, "a", "b", "c", "d", delivery_limit=5)
    tags = [ctx.get(channel, queue, auto_ack=False)["delivery_tag"] for _ in range(3)]
    for tag in (tags[1], tags[2], tags[0]):
        channel.basic_nack(tag)
    ctx.await_message_count(channel, queue, 4)
    return rest(ctx, queue)


@scenario
def order_of_returns_without_limit(ctx, channel):
    """Returned messages come last, in the order in which they were returned."""
    queue = filled(ctx, channel, "a", "b", "c", "d")
    tags = [ctx.get(channel, queue, auto_ack=False)["delivery_tag"] for _ in range(3)]
    for tag in (tags[1], tags[2], tags[0]):
        channel.basic_nack(tag)
    ctx.await_message_count(channel, queue, 4)
    return rest(ctx, queue)


@scenario
def nack_multiple_of_a_consumer(ctx):
    """A multiple nack returns a consumer's messages in the order of their delivery."""
    answers = []
    for limit in ({}, {"delivery_limit": 5}):
        channel = ctx.connect().channel()
        queue = filled(ctx, channel, "a", "b", "c", "d", name=f"queue{len(limit)}", **limit)
        channel.basic_qos(prefetch_count=3)
        inbox = Inbox(channel, queue)
        tags = [one["delivery_tag"] for one in inbox.wait_for(3)]
        channel.basic_cancel(inbox.consumer_tag)
        channel.basic_nack(tags[-1], multiple=True)
        ctx.await_message_count(channel, queue, 4)
        answers.append(rest(ctx, queue))
    return answers


@scenario
def channel_that_closes(ctx):
    """The messages of a channel that ends go to the front, in their order, and count."""
    answers = []
    for limit in ({}, {"delivery_limit": 5}):
        channel = ctx.connect().channel()
        queue = filled(ctx, channel, "a", "b", "c", "d", name=f"queue{len(limit)}", **limit)
        channel.basic_qos(prefetch_count=3)
        Inbox(channel, queue).wait_for(3)
        channel.close()
        ctx.await_message_count(ctx.channel(), queue, 4)
        answers.append(rest(ctx, queue))
    return answers


@scenario
def returned_to_the_front_and_to_the_end(ctx, channel):
    """What a closed channel gave back comes before everything else, a nacked one comes last."""
    queue = filled(ctx, channel, "a", "b", "c")
    other = ctx.connect().channel()
    nacked = ctx.get(channel, queue, auto_ack=False)
    ctx.get(other, queue, auto_ack=False)
    channel.basic_nack(nacked["delivery_tag"])
    ctx.await_message_count(channel, queue, 2)
    other.close()
    ctx.await_message_count(channel, queue, 3)
    return rest(ctx, queue)


@scenario
def consumer_gets_its_message_back(ctx):
    """A nacked message comes after those that wait, and ahead of them with a limit."""
    answers = []
    for limit in ({}, {"delivery_limit": 5}):
        channel = ctx.connect().channel()
        queue = filled(ctx, channel, "a", "b", "c", name=f"queue{len(limit)}", **limit)
        channel.basic_qos(prefetch_count=1)
        inbox = Inbox(channel, queue)
        channel.basic_nack(inbox.wait_for(1)[0]["delivery_tag"])
        for number in range(1, 4):
            channel.basic_ack(inbox.wait_for(number + 1)[number]["delivery_tag"])
        answers.append([seen(one) for one in inbox.received])
    return answers


@scenario
def delivery_limit_dead_letters(ctx, channel):
    """A message that was returned more often than the limit is dead-lettered."""
    grave = ctx.name("grave")
    channel.queue_declare(grave)
    queue = quorum_queue(
        ctx, channel, delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key=grave
    )
    channel.confirm_delivery()
    publish(channel, queue, "a", headers={"own": 1})
    counts = []
    for _ in range(3):
        got = ctx.await_get(channel, queue)
        counts.append(seen(got))
        channel.basic_nack(got["delivery_tag"])
    dead = ctx.await_deliveries(channel, grave, 1)
    return [counts, [seen(one) for one in dead], rest(ctx, queue)]


@scenario
def delivery_limit_without_dead_letter_exchange(ctx, channel):
    """Without a dead-letter exchange such a message is dropped."""
    queue = filled(ctx, channel, "a", "b", delivery_limit=1)
    for _ in range(2):
        got = ctx.await_get(channel, queue)
        channel.basic_nack(got["delivery_tag"])
        ctx.await_message_count(channel, queue, 2 if not _ else 1)
    return rest(ctx, queue)


@scenario
def delivery_limit_zero(ctx, channel):
    """A limit of 0: the first return is the last."""
    queue = filled(ctx, channel, "a", "b", delivery_limit=0)
    got = ctx.await_get(channel, queue)
    channel.basic_nack(got["delivery_tag"])
    return [ctx.await_message_count(channel, queue, 1), rest(ctx, queue)]


@scenario
def delivery_limit_and_closed_channels(ctx):
    """Channels that end count, too."""
    queue = filled(ctx, ctx.channel(), "a", "b", delivery_limit=1)
    for left in (2, 1):
        channel = ctx.connect().channel()
        ctx.await_get(channel, queue)
        channel.close()
        ctx.await_message_count(ctx.channel(), queue, left)
    return rest(ctx, queue)


@scenario
def delivery_limit_of_a_policy(ctx):
    """The lower of policy and argument counts, and a policy counts for messages in the queue."""
    vhost = ctx.vhost()
    channel = ctx.connect(vhost).channel()
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": 5}
    channel.queue_declare("q", durable=True, arguments=arguments)
    channel.confirm_delivery()
    publish(channel, "q", "a")
    ctx.management.set_policy(vhost, "limit", ".*", {"delivery-limit": 1})
    ctx.await_queue(vhost, "q", lambda queue: queue.get("policy") == "limit")
    seen_counts = []
    for left in (1, 0):
        got = ctx.await_get(channel, "q")
        seen_counts.append(seen(got))
        channel.basic_nack(got["delivery_tag"])
        ctx.await_message_count(channel, "q", left)
    return [seen_counts, ctx.get(channel, "q")]


@scenario
def delivery_limit_that_is_no_number(ctx, channel):
    """It limits nothing, and yet returned messages go to the front."""
    queue = filled(ctx, channel, "a", "b", delivery_limit="many")
    for _ in range(3):
        got = ctx.await_get(channel, queue)
        channel.basic_nack(got["delivery_tag"])
        ctx.await_message_count(channel, queue, 2)
    return rest(ctx, queue)


@scenario
def rejected_and_dead_lettered(ctx, channel):
    """A dead letter has no x-delivery-count."""
    grave = ctx.name("grave")
    channel.queue_declare(grave)
    queue = quorum_queue(ctx, channel, dead_letter_exchange="", dead_letter_routing_key=grave)
    channel.confirm_delivery()
    publish(channel, queue, "a")
    got = ctx.await_get(channel, queue)
    channel.basic_nack(got["delivery_tag"])
    got = ctx.await_get(channel, queue)
    channel.basic_reject(got["delivery_tag"], requeue=False)
    return [seen(one) for one in ctx.await_deliveries(channel, grave, 1)]


@scenario
def purge(ctx, channel):
    """Ready messages are dropped, unacknowledged ones are not."""
    queue = filled(ctx, channel, "a", "b", "c")
    got = ctx.get(channel, queue, auto_ack=False)
    purged = ctx.attempt(channel.queue_purge, queue)
    channel.basic_nack(got["delivery_tag"])
    ctx.await_message_count(channel, queue, 1)
    return [purged, rest(ctx, queue)]


@scenario
def time_to_live(ctx, channel):
    """A message expires at the head, and is dead-lettered."""
    grave = ctx.name("grave")
    channel.queue_declare(grave)
    queue = quorum_queue(
        ctx, channel, message_ttl=100, dead_letter_exchange="", dead_letter_routing_key=grave
    )
    channel.confirm_delivery()
    publish(channel, queue, "a")
    publish(channel, queue, "b", expiration="50")
    return [seen(one) for one in ctx.await_deliveries(channel, grave, 2)]


@scenario
def expiration_zero_without_consumer(ctx, channel):
    """A message that may not wait expires."""
    queue = quorum_queue(ctx, channel)
    channel.confirm_delivery()
    publish(channel, queue, "a", expiration="0")
    return [ctx.await_message_count(channel, queue, 0), ctx.get(channel, queue)]


@scenario
def max_length_drops_the_head(ctx, channel):
    """The oldest messages are dropped and dead-lettered with the reason maxlen."""
    grave = ctx.name("grave")
    channel.queue_declare(grave)
    queue = quorum_queue(
        ctx, channel, max_length=2, dead_letter_exchange="", dead_letter_routing_key=grave
    )
    channel.confirm_delivery()
    publish(channel, queue, "a", "b", "c")
    dead = ctx.await_deliveries(channel, grave, 1)
    return [[seen(one) for one in dead], rest(ctx, queue)]


@scenario
def reject_publish(ctx):
    """One message more than the limit is taken, then publishes are refused."""
    client = ctx.wire()
    queue = quorum_queue(ctx, ctx.channel(), max_length=5, overflow="reject-publish")
    client.call(1, "confirm.select")
    answers = []
    for number in range(8):
        client.publish(1, "", queue, str(number))
        answers.append(client.read_event()["method"])
    return [answers, ctx.bodies(ctx.channel(), queue)]


@scenario
def reject_publish_until_there_is_room_again(ctx):
    """Publishes are refused until a fifth of the limit is free."""
    client = ctx.wire()
    channel = ctx.channel()
    queue = quorum_queue(ctx, channel, max_length=5, overflow="reject-publish")
    client.call(1, "confirm.select")

    def answer():
        client.publish(1, "", queue, "x")
        return client.read_event()["method"]

    answers = [answer() for _ in range(8)]
    for _ in range(3):
        ctx.get(channel, queue)
        client.read_until_quiet()
        answers.append(answer())
    return answers


@scenario
def overflow_of_a_policy_wins(ctx):
    """A policy's overflow counts, not the argument's."""
    vhost = ctx.vhost()
    client = ctx.wire(virtual_host=vhost)
    ctx.management.set_policy(vhost, "p", ".*", {"overflow": "reject-publish"})
    channel = ctx.connect(vhost).channel()
    arguments = {"x-queue-type": "quorum", "x-overflow": "drop-head", "x-max-length": 1}
    channel.queue_declare("q", durable=True, arguments=arguments)
    client.call(1, "confirm.select")
    answers = []
    for number in range(4):
        client.publish(1, "", "q", str(number))
        answers.append(client.read_event()["method"])
    return [answers, ctx.bodies(channel, "q")]


@scenario
def transactions(ctx, channel):
    """Publishes and acks in a transaction."""
    queue = quorum_queue(ctx, channel)
    channel.tx_select()
    publish(channel, queue, "a", "b")
    channel.tx_commit()
    got = ctx.await_get(channel, queue)
    channel.basic_ack(got["delivery_tag"])
    channel.tx_commit()
    return rest(ctx, queue)


@scenario
def rejected_in_a_transaction_of_a_channel_that_closes(ctx, channel):
    """What was rejected and not committed comes back in its place among the other messages."""
    queue = filled(ctx, channel, "a", "b", "c")
    held = ctx.channel()
    held.tx_select()
    first, second = (ctx.await_get(held, queue) for _ in range(2))
    held.basic_reject(second["delivery_tag"], requeue=False)
    held.basic_reject(first["delivery_tag"], requeue=False)
    ctx.await_get(held, queue)
    held.close()
    ctx.await_message_count(channel, queue, 3)
    return rest(ctx, queue)


@scenario
def queue_that_is_not_used_expires(ctx, channel):
    """x-expires removes it, after a tick of five seconds at most."""
    queue = quorum_queue(ctx, channel, expires=500)
    return ctx.await_gone(queue)

"""Dead letter exchanges: which messages go there, and what is written into their headers."""

import pika

from tests.conformance.scenario import scenario


def dead_letter_pair(ctx, channel, **arguments):
    """A queue that dead-letters to a second queue through the default exchange."""
    source, grave = ctx.name("source"), ctx.name("grave")
    channel.queue_declare(grave)
    channel.queue_declare(
        source,
        arguments={
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": grave,
            **{"x-" + key.replace("_", "-"): value for key, value in arguments.items()},
        },
    )
    return source, grave


def reject_one(ctx, channel, queue):
    got = ctx.await_get(channel, queue)
    channel.basic_reject(got["delivery_tag"], requeue=False)


@scenario
def nacked_messages(ctx, channel):
    """Nack multiple without requeue dead-letters in order."""
    source, grave = dead_letter_pair(ctx, channel)
    for body in (b"a", b"b", b"c"):
        channel.basic_publish("", source, body)
        ctx.await_get(channel, source)
    channel.basic_nack(0, multiple=True, requeue=False)
    return [entry["body"] for entry in ctx.await_deliveries(channel, grave, 3)]


@scenario
def expired_by_queue_ttl(ctx, channel):
    """x-message-ttl: reason 'expired', without original-expiration."""
    source, grave = dead_letter_pair(ctx, channel, message_ttl=100)
    channel.basic_publish("", source, b"x")
    return ctx.await_deliveries(channel, grave, 1)


@scenario
def rejected_message_with_expiration(ctx, channel):
    """A rejected message loses its expiration too."""
    source, grave = dead_letter_pair(ctx, channel)
    channel.basic_publish("", source, b"x", pika.BasicProperties(expiration="60000"))
    reject_one(ctx, channel, source)
    return ctx.await_deliveries(channel, grave, 1)


@scenario
def pushed_out_by_max_length(ctx, channel):
    """x-max-length: reason 'maxlen', oldest first."""
    source, grave = dead_letter_pair(ctx, channel, max_length=1)
    for body in (b"a", b"b", b"c"):
        channel.basic_publish("", source, body)
    return ctx.await_deliveries(channel, grave, 2)


@scenario
def refused_with_reject_publish(ctx):
    """reject-publish does not dead-letter."""
    client = ctx.wire()
    channel = ctx.channel()
    source, grave = dead_letter_pair(ctx, channel, max_length=0, overflow="reject-publish")
    client.call(1, "confirm.select")
    client.publish(1, "", source, "x")
    return [client.read_event()["method"], ctx.bodies(channel, grave)]


@scenario
def x_death_field_types(ctx):
    """The exact field types in the headers of a dead letter."""
    client = ctx.wire()
    channel = ctx.channel()
    source, grave = dead_letter_pair(ctx, channel)
    client.publish(1, "", source, "x", {"expiration": "50", "headers": {"own": ("s", 7)}})
    ctx.await_message_count(channel, grave, 1)
    got = client.call(1, "basic.get", queue=grave, no_ack=True)
    return got["properties"]


@scenario
def cc_without_routing_key(ctx, channel):
    """Without a dead letter routing key, the CC keys are used and kept as well."""
    exchange, source = ctx.name("exchange"), ctx.name("source")
    graves = [ctx.name("by key"), ctx.name("by cc")]
    channel.exchange_declare(exchange, "direct")
    channel.queue_declare(source, arguments={"x-dead-letter-exchange": exchange})
    channel.queue_bind(source, "amq.direct", ctx.name("key"))
    for grave, key in zip(graves, (ctx.name("key"), ctx.name("cc")), strict=False):
        channel.queue_declare(grave)
        channel.queue_bind(grave, exchange, key)
    channel.basic_publish(
        "amq.direct", ctx.name("key"), b"x", pika.BasicProperties(headers={"CC": [ctx.name("cc")]})
    )
    reject_one(ctx, channel, source)
    return [ctx.await_deliveries(channel, grave, 1) for grave in graves]


@scenario
def cc_with_routing_key(ctx, channel):
    """A dead letter routing key removes CC, and x-death remembers all keys."""
    source, grave = dead_letter_pair(ctx, channel)
    channel.basic_publish(
        "", source, b"x", pika.BasicProperties(headers={"CC": [ctx.name("elsewhere")]})
    )
    reject_one(ctx, channel, source)
    return ctx.await_deliveries(channel, grave, 1)


@scenario
def second_death_in_another_queue(ctx, channel):
    """The newest death comes first; x-first-death- headers keep the first."""
    first, second, last = (ctx.name(label) for label in ("first", "second", "last"))
    channel.queue_declare(last)
    for queue, target in ((second, last), (first, second)):
        channel.queue_declare(
            queue, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
        )
    channel.basic_publish("", first, b"x")
    reject_one(ctx, channel, first)
    reject_one(ctx, channel, second)
    return ctx.await_deliveries(channel, last, 1)


@scenario
def repeated_death_is_counted(ctx, channel):
    """Dying again in the same queue for the same reason raises the count."""
    work, delay = ctx.name("work"), ctx.name("delay")
    channel.queue_declare(
        work, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": delay}
    )
    channel.queue_declare(
        delay,
        arguments={
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": work,
            "x-message-ttl": 50,
        },
    )
    channel.basic_publish("", work, b"x")
    for _ in range(3):
        reject_one(ctx, channel, work)
    return ctx.await_deliveries(channel, work, 1)


@scenario
def automatic_cycle_is_dropped(ctx, channel, queue):
    """A message that expires back into its own queue without a reject is dropped."""
    channel.queue_declare(queue, arguments={"x-dead-letter-exchange": "", "x-message-ttl": 50})
    channel.basic_publish("", queue, b"x")
    return ctx.await_message_count(channel, queue, 0)


@scenario
def cycle_with_a_reject_goes_on(ctx, channel, queue):
    """A message rejected into its own queue comes back."""
    channel.queue_declare(queue, arguments={"x-dead-letter-exchange": ""})
    channel.basic_publish("", queue, b"x")
    reject_one(ctx, channel, queue)
    return ctx.await_deliveries(channel, queue, 1)


@scenario
def dead_letters_pass_an_internal_exchange(ctx, channel):
    """An internal exchange takes dead letters."""
    exchange, source, grave = ctx.name("exchange"), ctx.name("source"), ctx.name("grave")
    channel.exchange_declare(exchange, "fanout", internal=True)
    channel.queue_declare(grave)
    channel.queue_bind(grave, exchange)
    channel.queue_declare(source, arguments={"x-dead-letter-exchange": exchange})
    channel.basic_publish("", source, b"x")
    reject_one(ctx, channel, source)
    return [entry["exchange"] for entry in ctx.await_deliveries(channel, grave, 1)]


@scenario
def purge_and_delete_do_not_dead_letter(ctx, channel):
    """Purged messages and those of a deleted queue are no dead letters."""
    source, grave = dead_letter_pair(ctx, channel)
    channel.confirm_delivery()
    channel.basic_publish("", source, b"purged")
    channel.queue_purge(source)
    channel.basic_publish("", source, b"deleted")
    channel.queue_delete(source)
    return ctx.await_deliveries(channel, grave, 1, timeout=0.5)

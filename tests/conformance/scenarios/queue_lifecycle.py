"""Deleting, purging, binding and unbinding queues, and queues that go by themselves."""

import time

from tests.conformance.scenario import scenario
from tests.patience import PATIENCE_SECONDS


def exists(ctx, queue):
    answer = ctx.attempt(ctx.channel().queue_declare, queue, passive=True)
    return "queue.declare-ok" in answer


def await_gone(ctx, queue, pause_seconds=0.05):
    """Whether the queue is gone in the end. pause_seconds: between looks, each of which uses it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while exists(ctx, queue):
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_seconds)
    return True


@scenario
def delete_missing_queue(ctx):
    """Deleting a queue that does not exist is fine."""
    return ctx.attempt(ctx.channel().queue_delete, ctx.name("missing"))


@scenario
def delete_missing_queue_with_conditions(ctx):
    """if-unused and if-empty make no difference for a missing queue."""
    return ctx.attempt(
        ctx.channel().queue_delete, ctx.name("missing"), if_unused=True, if_empty=True
    )


@scenario
def delete_if_empty_refused(ctx, channel, queue):
    """406 text for if-empty on a queue with messages."""
    channel.queue_declare(queue)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x")
    return ctx.attempt(channel.queue_delete, queue, if_empty=True)


@scenario
def delete_if_empty_with_unacknowledged_message(ctx, channel, queue):
    """Unacknowledged messages do not make a queue non-empty for if-empty."""
    channel.queue_declare(queue)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x")
    channel.basic_get(queue)
    return ctx.attempt(channel.queue_delete, queue, if_empty=True)


@scenario
def delete_if_unused_and_if_empty_on_busy_queue(ctx, channel, queue):
    """Which of the two conditions is reported when neither holds."""
    channel.queue_declare(queue)
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue, lambda *_: None)
    channel.confirm_delivery()
    for _ in range(2):
        channel.basic_publish("", queue, b"x")
    return ctx.attempt(ctx.connect().channel().queue_delete, queue, if_unused=True, if_empty=True)


@scenario
def delete_while_unacknowledged(ctx, channel, queue):
    """Acknowledging a message of a deleted queue is fine."""
    channel.queue_declare(queue)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x")
    got = ctx.get(channel, queue, auto_ack=False)
    deleted = ctx.attempt(channel.queue_delete, queue)
    channel.basic_ack(got["delivery_tag"])
    return [deleted, ctx.refusal(channel)]


@scenario
def purge_counts_ready_messages_only(ctx, channel, queue):
    """purge-ok counts ready messages; unacknowledged ones stay."""
    channel.queue_declare(queue)
    channel.confirm_delivery()
    for body in (b"a", b"b", b"c"):
        channel.basic_publish("", queue, body)
    got = ctx.get(channel, queue, auto_ack=False)
    purged = ctx.attempt(channel.queue_purge, queue)
    channel.basic_nack(got["delivery_tag"])
    return [purged, ctx.bodies(channel, queue), ctx.attempt(channel.queue_purge, queue)]


@scenario
def purge_missing_queue(ctx):
    """404 text of a purge."""
    return ctx.attempt(ctx.channel().queue_purge, ctx.name("missing"))


@scenario
def bind_missing_queue(ctx):
    """404 text naming the queue."""
    return ctx.attempt(ctx.channel().queue_bind, ctx.name("missing"), "amq.direct", "key")


@scenario
def bind_missing_exchange(ctx, channel, queue):
    """404 text naming the exchange."""
    channel.queue_declare(queue)
    return ctx.attempt(channel.queue_bind, queue, ctx.name("missing"), "key")


@scenario
def unbind_missing_queue(ctx):
    """Unbinding from a queue that does not exist."""
    return ctx.attempt(ctx.channel().queue_unbind, ctx.name("missing"), "amq.direct", "key")


@scenario
def unbind_missing_exchange(ctx, channel, queue):
    """Unbinding from an exchange that does not exist."""
    channel.queue_declare(queue)
    return ctx.attempt(channel.queue_unbind, queue, ctx.name("missing"), "key")


@scenario
def bind_to_default_exchange(ctx, channel, queue):
    """403 text for binding a queue to the default exchange."""
    channel.queue_declare(queue)
    return ctx.attempt(channel.queue_bind, queue, "", "key")


@scenario
def unbind_from_default_exchange(ctx, channel, queue):
    """403 text for unbinding a queue from the default exchange."""
    channel.queue_declare(queue)
    return ctx.attempt(channel.queue_unbind, queue, "", queue)


@scenario
def bindings_differ_by_arguments(ctx):
    """The same key with other arguments is another binding, unbound by its own arguments."""
    channel, queue, key = ctx.channel(), ctx.name("queue"), ctx.name("key")
    channel.queue_declare(queue)
    channel.confirm_delivery()
    for number in (1, 2):
        channel.queue_bind(queue, "amq.direct", key, arguments={"n": number})
    channel.queue_unbind(queue, "amq.direct", key, arguments={"n": 1})
    channel.queue_unbind(queue, "amq.direct", key, arguments={"n": 3})
    channel.basic_publish("amq.direct", key, b"still bound")
    bound = ctx.bodies(channel, queue)
    channel.queue_unbind(queue, "amq.direct", key, arguments={"n": 2})
    channel.basic_publish("amq.direct", key, b"unbound")
    return [bound, ctx.bodies(channel, queue)]


@scenario
def nowait_bind_is_silent(ctx):
    """no-wait bind: no answer, the binding works."""
    client, queue, key = ctx.wire(), ctx.name("queue"), ctx.name("key")
    client.call(1, "queue.declare", queue=queue)
    client.send(1, "queue.bind", queue=queue, exchange="amq.direct", routing_key=key, nowait=True)
    client.publish(1, "amq.direct", key, "routed")
    return client.call(1, "basic.get", queue=queue, no_ack=True)


@scenario
def exclusive_queue_survives_its_channel(ctx):
    """An exclusive queue belongs to the connection, not to the channel."""
    owner, queue = ctx.connect(), ctx.name("queue")
    channel = owner.channel()
    channel.queue_declare(queue, exclusive=True)
    channel.close()
    return ctx.attempt(owner.channel().queue_declare, queue, passive=True)


@scenario
def exclusive_queue_goes_when_the_socket_drops(ctx):
    """No connection.close is needed for an exclusive queue to go."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(1, "queue.declare", queue=queue, exclusive=True)
    client.drop()
    return await_gone(ctx, queue)


@scenario
def auto_delete_queue_goes_with_its_last_consumer(ctx, channel, queue):
    """Cancelling the first of two consumers leaves the queue, the second takes it away."""
    channel.queue_declare(queue, auto_delete=True)
    first, second = (channel.basic_consume(queue, lambda *_: None) for _ in range(2))
    channel.basic_cancel(first)
    after_first = exists(ctx, queue)
    channel.basic_cancel(second)
    return [after_first, await_gone(ctx, queue)]


@scenario
def auto_delete_queue_goes_when_the_channel_closes(ctx, channel, queue):
    """Closing the consumer's channel counts as cancelling it."""
    channel.queue_declare(queue, auto_delete=True)
    channel.basic_consume(queue, lambda *_: None)
    channel.close()
    return await_gone(ctx, queue)


@scenario
def get_does_not_count_as_use_for_auto_delete(ctx, channel, queue):
    """basic.get leaves an auto-delete queue alone."""
    channel.queue_declare(queue, auto_delete=True)
    channel.basic_get(queue)
    time.sleep(0.2)
    return exists(ctx, queue)


@scenario
def unused_queue_expires(ctx, queue, channel):
    """x-expires removes an unused queue."""
    channel.queue_declare(queue, arguments={"x-expires": 300})
    return not await_gone(ctx, queue, pause_seconds=1.2)


EXPIRY_SECONDS, USES, PAUSE_SECONDS = 3, 4, 1.2
"""All uses together take longer than a queue lives that is not used."""


@scenario
def get_postpones_queue_expiry(ctx):
    """basic.get and redeclaring count as use for x-expires, publishing does not."""
    return [[use, _exists_after(ctx, use)] for use in ("get", "declare", "publish")]


def _exists_after(ctx, use):
    """Whether a queue exists after several uses of one kind, none of which came too late."""
    arguments = {"x-expires": EXPIRY_SECONDS * 1000}
    attempt = 0
    while True:
        queue = ctx.name(f"{use}{attempt}")
        began, late = time.monotonic(), False
        ctx.channel().queue_declare(queue, arguments=arguments)
        for _ in range(USES):
            time.sleep(PAUSE_SECONDS)
            before, began = began, time.monotonic()
            if use == "get":
                ctx.attempt(ctx.channel().basic_get, queue)
            elif use == "declare":
                ctx.channel().queue_declare(queue, arguments=arguments)
            else:
                ctx.channel().basic_publish("", queue, b"x")
            late |= time.monotonic() - before > EXPIRY_SECONDS
        answer = exists(ctx, queue)
        late |= time.monotonic() - began > EXPIRY_SECONDS
        if use == "publish" or not late:
            return answer
        # The machine is so busy that the queue may have expired before it was used again.
        attempt += 1

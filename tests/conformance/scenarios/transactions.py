"""tx.select, commit and rollback."""

from tests.conformance.scenario import scenario


def declared_queue(ctx, client):
    queue = ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    return queue


@scenario
def select_twice(ctx):
    """tx.select may be repeated."""
    client = ctx.wire()
    return [client.call(1, "tx.select") for _ in range(2)]


@scenario
def rollback_without_select(ctx):
    """406 text of a rollback on a channel without transactions."""
    return ctx.wire().call(1, "tx.rollback")


@scenario
def select_on_a_confirm_channel(ctx):
    """406 text for transactions on a channel with confirms."""
    client = ctx.wire()
    client.call(1, "confirm.select")
    return client.call(1, "tx.select")


@scenario
def published_messages_appear_at_commit(ctx):
    """Messages are in the queue after the commit and not before."""
    client, observer = ctx.wire(), ctx.wire()
    queue = declared_queue(ctx, client)
    client.call(1, "tx.select")
    client.publish(1, "", queue, "a")
    before = observer.call(1, "basic.get", queue=queue, no_ack=True)
    committed = client.call(1, "tx.commit")
    return [before, committed, observer.call(1, "basic.get", queue=queue, no_ack=True)]


@scenario
def rollback_drops_published_messages(ctx):
    """After a rollback, only what is published later is committed."""
    client = ctx.wire()
    queue = declared_queue(ctx, client)
    client.call(1, "tx.select")
    client.publish(1, "", queue, "dropped")
    rolled_back = client.call(1, "tx.rollback")
    client.publish(1, "", queue, "kept")
    client.call(1, "tx.commit")
    return [rolled_back] + [client.call(1, "basic.get", queue=queue, no_ack=True) for _ in range(2)]


@scenario
def acks_take_effect_at_commit(ctx):
    """An uncommitted ack is undone when the channel closes."""
    client = ctx.wire()
    queue = declared_queue(ctx, client)
    for body in "ab":
        client.publish(1, "", queue, body)
    client.call(1, "tx.select")
    for _ in range(2):
        client.call(1, "basic.get", queue=queue)
    client.send(1, "basic.ack", delivery_tag=1)
    client.call(1, "tx.commit")
    client.send(1, "basic.ack", delivery_tag=2)
    client.call(1, "channel.close", reply_code=200)
    client.open_channel(1)
    return [client.call(1, "basic.get", queue=queue, no_ack=True) for _ in range(2)]


@scenario
def rolled_back_acks_can_be_repeated(ctx):
    """After a rollback, the acknowledged messages are outstanding again."""
    client = ctx.wire()
    queue = declared_queue(ctx, client)
    client.publish(1, "", queue, "a")
    client.call(1, "tx.select")
    client.call(1, "basic.get", queue=queue)
    client.send(1, "basic.ack", delivery_tag=1)
    client.call(1, "tx.rollback")
    client.send(1, "basic.ack", delivery_tag=1)
    return [client.call(1, "tx.commit"), client.call(1, "queue.delete", queue=queue)]


@scenario
def unknown_tag_in_a_transaction(ctx):
    """An ack of an unknown tag fails at once, not at the commit."""
    client = ctx.wire()
    client.call(1, "tx.select")
    client.send(1, "basic.ack", delivery_tag=5)
    return client.read_event()


@scenario
def mandatory_return_comes_at_commit(ctx):
    """An unroutable message in a transaction is returned before commit-ok."""
    client = ctx.wire()
    client.call(1, "tx.select")
    client.publish(1, "", ctx.name("nowhere"), "x", mandatory=True)
    early = client.read_until_quiet()
    client.send(1, "tx.commit")
    return [early, client.read_events(2)]


@scenario
def empty_commit_and_rollback(ctx):
    """Committing and rolling back nothing is fine."""
    client = ctx.wire()
    client.call(1, "tx.select")
    return [client.call(1, "tx.commit"), client.call(1, "tx.rollback"), client.call(1, "tx.commit")]

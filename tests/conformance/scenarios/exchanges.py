"""exchange.declare, delete, bind and unbind."""

from tests.conformance.scenario import scenario


def redeclare(ctx, first, second, label="exchange"):
    channel, exchange = ctx.channel(), ctx.name(label)
    channel.exchange_declare(exchange, **first)
    return ctx.attempt(channel.exchange_declare, exchange, **second)


def bound_queue(ctx, channel, exchange, label="queue", key=""):
    queue = ctx.name(label)
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange, key)
    return queue


@scenario
def unknown_type(ctx):
    """An unknown exchange type closes the connection with 503."""
    client = ctx.wire()
    client.send(1, "exchange.declare", exchange=ctx.name("exchange"), type="x-no-such-type")
    return client.read_until_closed()


@scenario
def redeclare_equivalent(ctx):
    """An equivalent redeclare is fine."""
    return redeclare(
        ctx,
        {"exchange_type": "topic", "durable": True},
        {"exchange_type": "topic", "durable": True},
    )


@scenario
def redeclare_with_other_type(ctx):
    """406 naming 'type'."""
    return redeclare(ctx, {"exchange_type": "direct"}, {"exchange_type": "fanout"})


@scenario
def redeclare_with_other_auto_delete(ctx):
    """406 naming 'auto_delete'."""
    return redeclare(ctx, {"auto_delete": True}, {"auto_delete": False})


@scenario
def redeclare_with_other_internal(ctx):
    """406 naming 'internal'."""
    return redeclare(ctx, {"internal": False}, {"internal": True})


@scenario
def redeclare_with_other_unknown_argument(ctx):
    """Arguments without a meaning are not compared."""
    return redeclare(ctx, {"arguments": {"x-conf": 1}}, {"arguments": {"x-conf": 2}})


@scenario
def alternate_exchange_must_be_a_string(ctx):
    """406 for an alternate-exchange of another type."""
    return ctx.attempt(
        ctx.channel().exchange_declare, ctx.name("exchange"), arguments={"alternate-exchange": 5}
    )


@scenario
def passive_ignores_attributes(ctx):
    """A passive declare compares nothing, not even the type."""
    return redeclare(
        ctx,
        {"exchange_type": "direct"},
        {"exchange_type": "topic", "passive": True, "durable": True},
    )


@scenario
def passive_with_unknown_type(ctx):
    """A passive declare does not look at the type's name."""
    return redeclare(ctx, {}, {"exchange_type": "x-no-such-type", "passive": True})


@scenario
def declare_default_exchange(ctx):
    """403 text for declaring '', actively and passively."""
    client = ctx.wire()
    client.open_channel(2)
    return [
        client.call(1, "exchange.declare", exchange="", type="direct", durable=True),
        client.call(2, "exchange.declare", exchange="", type="direct", passive=True),
    ]


@scenario
def delete_default_exchange(ctx):
    """403 text for deleting ''."""
    return ctx.wire().call(1, "exchange.delete", exchange="")


@scenario
def delete_missing_exchange(ctx):
    """Deleting an exchange that does not exist is fine."""
    return ctx.attempt(ctx.channel().exchange_delete, ctx.name("missing"), if_unused=True)


@scenario
def delete_if_unused_refused(ctx):
    """406 text for if-unused on an exchange with a binding."""
    channel, exchange = ctx.channel(), ctx.name("exchange")
    channel.exchange_declare(exchange)
    bound_queue(ctx, channel, exchange)
    return ctx.attempt(channel.exchange_delete, exchange, if_unused=True)


@scenario
def predeclared_exchanges_exist(ctx):
    """The exchanges every virtual host has."""
    names = [
        "amq.direct",
        "amq.fanout",
        "amq.topic",
        "amq.headers",
        "amq.match",
        "amq.rabbitmq.trace",
        "amq.rabbitmq.log",
    ]
    return [
        [name, ctx.attempt(ctx.channel().exchange_declare, name, passive=True)] for name in names
    ]


@scenario
def publish_to_internal_exchange(ctx):
    """403 text for publishing to an internal exchange."""
    channel, exchange = ctx.channel(), ctx.name("exchange")
    channel.exchange_declare(exchange, internal=True)
    channel.basic_publish(exchange, "key", b"x")
    return ctx.refusal(channel)


@scenario
def exchange_to_exchange_keeps_key_and_exchange(ctx):
    """Through an exchange binding, a message keeps its first exchange and key."""
    channel, outer, inner = ctx.channel(), ctx.name("outer"), ctx.name("inner")
    channel.exchange_declare(outer, "topic")
    channel.exchange_declare(inner, "topic")
    channel.exchange_bind(inner, outer, "#.red")
    queue = bound_queue(ctx, channel, inner, key="big.*")
    channel.confirm_delivery()
    for key in ("big.red", "big.blue", "small.red"):
        channel.basic_publish(outer, key, key.encode())
    return ctx.deliveries(channel, queue)


@scenario
def exchange_binding_cycle(ctx):
    """A cycle of bindings delivers each message once."""
    channel, one, two = ctx.channel(), ctx.name("one"), ctx.name("two")
    for exchange in (one, two):
        channel.exchange_declare(exchange, "fanout")
    channel.exchange_bind(one, two)
    channel.exchange_bind(two, one)
    queue = bound_queue(ctx, channel, two)
    channel.confirm_delivery()
    channel.basic_publish(one, "", b"once")
    return ctx.bodies(channel, queue)


@scenario
def bind_missing_exchanges(ctx):
    """404 texts for a missing destination, a missing source, and both."""
    exchange = ctx.name("exchange")
    ctx.channel().exchange_declare(exchange)
    return [
        ctx.attempt(ctx.channel().exchange_bind, ctx.name("destination"), exchange),
        ctx.attempt(ctx.channel().exchange_bind, exchange, ctx.name("source")),
        ctx.attempt(ctx.channel().exchange_bind, ctx.name("destination"), ctx.name("source")),
    ]


@scenario
def unbind_missing_exchange_binding(ctx):
    """Unbinding what was never bound is fine."""
    exchange = ctx.name("exchange")
    ctx.channel().exchange_declare(exchange)
    return ctx.attempt(ctx.channel().exchange_unbind, exchange, "amq.direct", "key")


@scenario
def bind_default_exchange(ctx):
    """403 text with the default exchange as a source and as a destination."""
    client, exchange = ctx.wire(), ctx.name("exchange")
    client.open_channel(2)
    client.call(1, "exchange.declare", exchange=exchange, type="fanout")
    return [
        client.call(1, "exchange.bind", destination=exchange, source=""),
        client.call(2, "exchange.bind", destination="", source=exchange),
    ]


@scenario
def auto_delete_exchange_goes_with_its_last_binding(ctx):
    """Removing the last binding deletes an auto-delete exchange."""
    channel, exchange = ctx.channel(), ctx.name("exchange")
    channel.exchange_declare(exchange, auto_delete=True)
    queue = bound_queue(ctx, channel, exchange, key="a")
    channel.queue_bind(queue, exchange, "b")
    channel.queue_unbind(queue, exchange, "a")
    after_first = ctx.attempt(channel.exchange_declare, exchange, passive=True)
    channel.queue_unbind(queue, exchange, "b")
    return [after_first, ctx.attempt(channel.exchange_declare, exchange, passive=True)]


@scenario
def auto_delete_exchange_never_bound_stays(ctx):
    """An auto-delete exchange that never had a binding stays."""
    exchange = ctx.name("exchange")
    owner = ctx.connect()
    owner.channel().exchange_declare(exchange, auto_delete=True)
    owner.close()
    return ctx.attempt(ctx.channel().exchange_declare, exchange, passive=True)


@scenario
def auto_delete_exchanges_go_in_a_chain(ctx):
    """Losing its last source binding deletes the outer exchange once the inner one goes."""
    channel, outer, inner = ctx.channel(), ctx.name("outer"), ctx.name("inner")
    for exchange in (outer, inner):
        channel.exchange_declare(exchange, "fanout", auto_delete=True)
    channel.exchange_bind(inner, outer)
    channel.queue_delete(bound_queue(ctx, channel, inner))
    return [
        ctx.attempt(ctx.channel().exchange_declare, exchange, passive=True)
        for exchange in (inner, outer)
    ]


@scenario
def alternate_exchange_takes_unroutable_messages(ctx):
    """Only what the exchange cannot route goes to its alternate, with its exchange kept."""
    channel, main, alternate = ctx.channel(), ctx.name("main"), ctx.name("alternate")
    channel.exchange_declare(alternate, "fanout")
    channel.exchange_declare(main, arguments={"alternate-exchange": alternate})
    routed = bound_queue(ctx, channel, main, "routed", key="known")
    rest = bound_queue(ctx, channel, alternate, "rest")
    channel.confirm_delivery()
    for key in ("known", "unknown"):
        channel.basic_publish(main, key, key.encode(), mandatory=True)
    return [ctx.deliveries(channel, routed), ctx.deliveries(channel, rest)]


@scenario
def alternate_exchange_chain(ctx, channel):
    """An alternate that cannot route hands on to its own alternate."""
    first, second, third = (ctx.name(label) for label in ("first", "second", "third"))
    channel.exchange_declare(first, arguments={"alternate-exchange": second})
    channel.exchange_declare(second, arguments={"alternate-exchange": third})
    channel.exchange_declare(third, "fanout")
    queue = bound_queue(ctx, channel, third)
    channel.confirm_delivery()
    channel.basic_publish(first, "key", b"x")
    return ctx.deliveries(channel, queue)


@scenario
def alternate_exchange_that_is_missing(ctx):
    """A missing alternate leaves a message unroutable, without an error."""
    client, exchange = ctx.wire(), ctx.name("exchange")
    client.call(
        1,
        "exchange.declare",
        exchange=exchange,
        type="direct",
        arguments={"alternate-exchange": ("S", ctx.name("missing"))},
    )
    client.publish(1, exchange, "key", "x", mandatory=True)
    return [client.read_event(), client.call(1, "basic.qos")]


@scenario
def nowait_exchange_methods_are_silent(ctx):
    """no-wait declare, bind, unbind and delete get no answer."""
    client, exchange = ctx.wire(), ctx.name("exchange")
    client.send(1, "exchange.declare", exchange=exchange, type="fanout", nowait=True)
    client.send(1, "exchange.bind", destination=exchange, source="amq.fanout", nowait=True)
    client.send(1, "exchange.unbind", destination=exchange, source="amq.fanout", nowait=True)
    client.send(1, "exchange.delete", exchange=exchange, nowait=True)
    return client.call(1, "exchange.declare", exchange=exchange, passive=True)

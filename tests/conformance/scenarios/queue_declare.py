"""queue.declare: equivalence, passive declares, names and arguments."""

from tests.conformance.scenario import scenario


def redeclare(ctx, first, second):
    channel, queue = ctx.channel(), ctx.name("queue")
    channel.queue_declare(queue, **first)
    return ctx.attempt(channel.queue_declare, queue, **second)


def redeclare_arguments(ctx, first, second):
    return redeclare(ctx, {"arguments": first}, {"arguments": second})


def declare_each(ctx, argument, *values):
    """The answer to a durable queue declared with each value of an argument."""
    answers = []
    for index, value in enumerate(values):
        queue = ctx.name(f"queue{index}")
        answer = ctx.attempt(
            ctx.channel().queue_declare, queue, durable=True, arguments={argument: value}
        )
        answers.append([value, answer])
    return answers


def declare_typed(ctx, **arguments):
    """The answer to a queue declared with exactly typed arguments."""
    client = ctx.wire()
    client.send(
        1,
        "queue.declare",
        queue=ctx.name("queue"),
        durable=True,
        arguments={key.replace("_", "-"): value for key, value in arguments.items()},
    )
    return client.read_until_quiet(0.5)


@scenario
def redeclare_equivalent(ctx, channel, queue):
    """An equivalent redeclare is fine and counts messages."""
    channel.queue_declare(queue, durable=True, arguments={"x-message-ttl": 60000})
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x")
    return ctx.attempt(
        channel.queue_declare, queue, durable=True, arguments={"x-message-ttl": 60000}
    )


@scenario
def redeclare_with_other_durability(ctx):
    """406 naming 'durable'."""
    return redeclare(ctx, {"durable": False}, {"durable": True})


@scenario
def redeclare_exclusive_as_shared(ctx):
    """406 naming 'exclusive', on the connection that owns the queue."""
    return redeclare(ctx, {"exclusive": True}, {"exclusive": False})


@scenario
def redeclare_shared_as_exclusive(ctx):
    """A shared queue redeclared as exclusive."""
    return redeclare(ctx, {"exclusive": False}, {"exclusive": True})


@scenario
def redeclare_with_other_message_ttl(ctx):
    """406 with both values of x-message-ttl and their type."""
    return redeclare_arguments(ctx, {"x-message-ttl": 1000}, {"x-message-ttl": 2000})


@scenario
def redeclare_with_added_argument(ctx):
    """An argument the queue does not have: 'current is none'."""
    return redeclare_arguments(ctx, {}, {"x-max-length": 10})


@scenario
def redeclare_with_other_expires(ctx):
    """406 naming x-expires."""
    return redeclare_arguments(ctx, {"x-expires": 60000}, {"x-expires": 60001})


@scenario
def redeclare_with_other_dead_letter_exchange(ctx):
    """406 with both exchange names."""
    return redeclare_arguments(
        ctx, {"x-dead-letter-exchange": "one"}, {"x-dead-letter-exchange": "two"}
    )


@scenario
def redeclare_with_other_max_length(ctx):
    """406 naming x-max-length."""
    return redeclare_arguments(ctx, {"x-max-length": 1}, {"x-max-length": 2})


@scenario
def redeclare_with_other_max_length_bytes(ctx):
    """406 naming x-max-length-bytes."""
    return redeclare_arguments(ctx, {"x-max-length-bytes": 1}, {"x-max-length-bytes": 2})


@scenario
def redeclare_with_other_overflow(ctx):
    """406 naming x-overflow."""
    return redeclare_arguments(ctx, {"x-overflow": "drop-head"}, {"x-overflow": "reject-publish"})


@scenario
def redeclare_with_other_queue_mode(ctx):
    """406 naming x-queue-mode."""
    return redeclare_arguments(ctx, {"x-queue-mode": "lazy"}, {"x-queue-mode": "default"})


@scenario
def redeclare_with_classic_type_spelt_out(ctx):
    """x-queue-type classic is equivalent to no x-queue-type."""
    return redeclare_arguments(ctx, {}, {"x-queue-type": "classic"})


@scenario
def redeclare_classic_as_quorum(ctx):
    """406 naming x-queue-type."""
    return redeclare(
        ctx, {"durable": True}, {"durable": True, "arguments": {"x-queue-type": "quorum"}}
    )


@scenario
def redeclare_with_other_integer_width(ctx):
    """The same number in another integer type is equivalent."""
    client, queue = ctx.wire(), ctx.name("queue")
    return [
        client.call(1, "queue.declare", queue=queue, arguments={"x-message-ttl": (letter, 100)})
        for letter in ("I", "l", "s", "b", "B", "u", "i")
    ]


@scenario
def passive_missing(ctx):
    """404 text of a passive declare."""
    return ctx.attempt(ctx.channel().queue_declare, ctx.name("missing"), passive=True)


@scenario
def passive_counts_ready_messages_and_consumers(ctx, channel, queue):
    """Counts leave out unacknowledged messages and count every consumer."""
    channel.queue_declare(queue)
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", queue, b"x")
    channel.basic_get(queue)
    before = ctx.attempt(channel.queue_declare, queue, passive=True)
    channel.basic_qos(prefetch_count=1)
    for _ in range(2):
        channel.basic_consume(queue, lambda *_: None)
    return [before, ctx.attempt(channel.queue_declare, queue, passive=True)]


@scenario
def exclusive_queue_is_locked_to_its_connection(ctx, queue):
    """405 text for passive declare, declare, consume, bind, get, purge and delete."""
    ctx.channel().queue_declare(queue, exclusive=True)
    other = ctx.connect()
    return [
        ctx.attempt(other.channel().queue_declare, queue, passive=True),
        ctx.attempt(other.channel().queue_declare, queue, exclusive=True),
        ctx.attempt(other.channel().queue_declare, queue),
        ctx.attempt(other.channel().basic_consume, queue, lambda *_: None),
        ctx.attempt(other.channel().basic_get, queue),
        ctx.attempt(other.channel().queue_bind, queue, "amq.direct", "key"),
        ctx.attempt(other.channel().queue_purge, queue),
        ctx.attempt(other.channel().queue_delete, queue),
    ]


@scenario
def reserved_prefix(ctx):
    """403 text for declaring a queue whose name starts with 'amq.'."""
    return ctx.attempt(ctx.channel().queue_declare, "amq.conf_queue")


@scenario
def reserved_prefix_passive(ctx):
    """A passive declare of a reserved name only says that there is none."""
    return ctx.attempt(ctx.channel().queue_declare, "amq.conf_queue", passive=True)


@scenario
def last_declared_queue_is_remembered(ctx):
    """'' in bind, get, consume, purge and delete means the channel's last declared queue."""
    client = ctx.wire()
    client.call(1, "queue.declare", queue=ctx.name("first"))
    client.call(1, "queue.declare", queue=ctx.name("last"))
    answers = [client.call(1, "queue.bind", exchange="amq.direct", routing_key=ctx.name("key"))]
    client.publish(1, "", ctx.name("last"), "to last")
    return answers + [
        client.call(1, method)
        for method in ("basic.get", "queue.purge", "basic.consume", "queue.delete")
    ]


@scenario
def bind_with_empty_key_to_last_declared_queue(ctx):
    """With both names empty, bind uses the last queue's name as the routing key too."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    client.call(1, "queue.bind", exchange="amq.direct")
    client.publish(1, "amq.direct", queue, "by name")
    client.publish(1, "amq.direct", "", "by empty key")
    return client.call(1, "basic.get", queue=queue, no_ack=True)


@scenario
def passive_declare_is_remembered_as_last(ctx, queue):
    """A passive declare sets the last declared queue as well."""
    ctx.channel().queue_declare(queue)
    client = ctx.wire()
    client.call(1, "queue.declare", queue=queue, passive=True)
    return client.call(1, "basic.get")


@scenario
def nowait_declare_is_silent(ctx):
    """no-wait: no declare-ok, and the queue is there."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.send(1, "queue.declare", queue=queue, nowait=True)
    return client.call(1, "queue.declare", queue=queue, passive=True)


@scenario
def name_with_255_octets(ctx):
    """The longest possible name works."""
    queue = ctx.name("q")
    return ctx.attempt(
        ctx.channel().queue_declare, queue + "x" * (255 - len(queue)), exclusive=True
    )


@scenario
def name_with_unusual_characters(ctx):
    """Slashes, blanks, quotes and non-ASCII letters in a name and in an error text."""
    queue = ctx.name("a/b c'd\"é雪")
    return [
        ctx.attempt(ctx.channel().queue_declare, queue, passive=True),
        ctx.attempt(ctx.channel().queue_declare, queue),
    ]


@scenario
def message_ttl_values(ctx):
    """x-message-ttl: zero is fine, negative, huge and non-numbers are 406."""
    return declare_each(
        ctx, "x-message-ttl", 0, 1000, -1, 2**32 - 1, 2**32, 2**33 * 1000, "1000", True
    )


@scenario
def message_ttl_of_floating_type(ctx):
    """A double is no x-message-ttl."""
    return declare_typed(ctx, x_message_ttl=("d", 1000.0))


@scenario
def max_length_values(ctx):
    """x-max-length: zero is fine, negative numbers and strings are not."""
    return declare_each(ctx, "x-max-length", 0, 5, -1, "5", None)


@scenario
def max_length_bytes_values(ctx):
    """x-max-length-bytes: zero is fine, negative numbers and strings are not."""
    return declare_each(ctx, "x-max-length-bytes", 0, 5, -1, "5")


@scenario
def overflow_values(ctx):
    """x-overflow: the three known words only."""
    return declare_each(
        ctx, "x-overflow", "drop-head", "reject-publish", "reject-publish-dlx", "drop-tail", "", 1
    )


@scenario
def dead_letter_exchange_values(ctx):
    """x-dead-letter-exchange must be a string; '' and missing exchanges are fine."""
    return declare_each(ctx, "x-dead-letter-exchange", "", "conf_no_such_exchange", 5, True)


@scenario
def queue_mode_values(ctx):
    """x-queue-mode: default and lazy."""
    return declare_each(ctx, "x-queue-mode", "default", "lazy", "eager", 1)


@scenario
def queue_type_values(ctx):
    """x-queue-type: known types only."""
    return declare_each(ctx, "x-queue-type", "classic", "unknown", "", 1)


@scenario
def quorum_queue_must_be_durable(ctx):
    """A transient, an exclusive and an auto-delete quorum queue."""
    arguments = {"x-queue-type": "quorum"}
    return [
        ctx.attempt(
            ctx.channel().queue_declare, ctx.name("queue"), arguments=arguments, **attributes
        )
        for attributes in (
            {},
            {"durable": True, "exclusive": True},
            {"durable": True, "auto_delete": True},
        )
    ]


@scenario
def unknown_arguments_are_let_through(ctx):
    """Arguments without a meaning do no harm, whatever their type."""
    return declare_typed(ctx, x_unknown=("F", {"nested": ("A", [("V", None)])}))

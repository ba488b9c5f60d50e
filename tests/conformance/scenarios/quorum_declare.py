"""Declaring and deleting quorum queues: properties, arguments, redeclarations, policies."""

from tests.conformance.scenario import scenario

SHOWN = {
    "arguments", "auto_delete", "consumer_capacity", "consumer_details", "consumer_utilisation",
    "consumers", "deliveries", "durable", "effective_policy_definition", "exclusive",
    "exclusive_consumer_tag", "garbage_collection", "head_message_timestamp", "incoming", "leader",
    "members", "memory", "message_bytes", "message_bytes_dlx", "message_bytes_persistent",
    "message_bytes_ram", "message_bytes_ready", "message_bytes_unacknowledged",
    "messages", "messages_dlx", "messages_persistent", "messages_ram", "messages_ready",
    "messages_unacknowledged", "name", "node", "online", "open_files", "operator_policy", "policy",
    "recoverable_slaves", "reductions", "single_active_consumer_ctag",
    "single_active_consumer_tag", "state", "type", "vhost",
}  # fmt: skip
"""What RabbitMQ shows of queues, classic and quorum."""


def answer_to_declare(ctx, arguments=None, name="queue", **properties):
    options = {"durable": True, **properties}
    arguments = {"x-queue-type": "quorum", **(arguments or {})}
    queue = ctx.name(name) if name else ""
    return ctx.attempt(ctx.channel().queue_declare, queue, arguments=arguments, **options)


@scenario
def declare(ctx, channel, queue):
    """A durable quorum queue is declared, declared again and found by a passive declare."""
    arguments = {"x-queue-type": "quorum"}
    return [
        ctx.attempt(channel.queue_declare, queue, durable=True, arguments=arguments),
        ctx.attempt(channel.queue_declare, queue, durable=True, arguments=arguments),
        ctx.attempt(channel.queue_declare, queue, passive=True),
    ]


@scenario
def properties_that_it_cannot_have(ctx):
    """It is durable, and neither exclusive nor auto-delete."""
    return [
        answer_to_declare(ctx, durable=False),
        answer_to_declare(ctx, exclusive=True),
        answer_to_declare(ctx, auto_delete=True),
        answer_to_declare(ctx, durable=False, exclusive=True, auto_delete=True),
        answer_to_declare(ctx, durable=False, exclusive=True),
    ]


@scenario
def name_from_the_server(ctx):
    """A quorum queue needs a name from the client."""
    return answer_to_declare(ctx, name="")


@scenario
def arguments_of_other_types(ctx):
    """Arguments of classic queues and streams are refused."""
    others = {
        "x-max-priority": 5,
        "x-queue-mode": "lazy",
        "x-queue-version": 2,
        "x-queue-master-locator": "min-masters",
        "x-max-age": "1D",
        "x-stream-max-segment-size-bytes": 1000,
        "x-initial-cluster-size": 1,
    }
    return [answer_to_declare(ctx, {name: value}) for name, value in others.items()]


@scenario
def arguments_of_other_types_with_bad_values(ctx):
    """What the type does not know is refused before its value is looked at."""
    return [
        answer_to_declare(ctx, {"x-max-priority": -1}),
        answer_to_declare(ctx, {"x-queue-mode": 5}),
        answer_to_declare(ctx, {"x-max-priority": 5, "x-max-length": -1}),
    ]


@scenario
def arguments_of_quorum_queues_in_a_classic_queue(ctx):
    """A classic queue refuses them, whatever their value is."""
    return [
        answer_to_declare(ctx, {"x-queue-type": "classic", name: value})
        for name, value in (
            ("x-delivery-limit", 5),
            ("x-delivery-limit", "many"),
            ("x-quorum-initial-group-size", 0),
            ("x-dead-letter-strategy", "at-least-once"),
            ("x-dead-letter-strategy", "sometimes"),
            ("x-max-in-memory-length", -1),
            ("x-queue-leader-locator", "here"),
        )
    ]


@scenario
def arguments_with_good_values(ctx):
    """Everything that a quorum queue takes."""
    good = [
        {"x-delivery-limit": 5},
        {"x-quorum-initial-group-size": 1},
        {"x-dead-letter-strategy": "at-least-once"},
        {"x-dead-letter-strategy": "at-most-once", "x-dead-letter-exchange": ""},
        {"x-max-in-memory-length": 10, "x-max-in-memory-bytes": 10},
        {"x-queue-leader-locator": "client-local"},
        {"x-queue-leader-locator": "balanced"},
        {"x-single-active-consumer": True},
        {"x-max-length": 10, "x-max-length-bytes": 1000, "x-overflow": "reject-publish"},
        {"x-overflow": "reject-publish-dlx"},
        {"x-message-ttl": 1000, "x-expires": 100000},
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "key"},
        {"x-cancel-on-ha-failover": True, "x-own": "anything"},
    ]
    return [answer_to_declare(ctx, arguments, f"q{n}") for n, arguments in enumerate(good)]


@scenario
def arguments_with_bad_values(ctx):
    """Types and values are checked."""
    bad = [
        {"x-quorum-initial-group-size": 0},
        {"x-quorum-initial-group-size": -1},
        {"x-quorum-initial-group-size": "one"},
        {"x-dead-letter-strategy": "sometimes"},
        {"x-dead-letter-strategy": 5},
        {"x-max-in-memory-length": -1},
        {"x-max-in-memory-bytes": "many"},
        {"x-queue-leader-locator": "here"},
        {"x-queue-leader-locator": 5},
        {"x-single-active-consumer": "yes"},
        {"x-message-ttl": -1},
        {"x-expires": 0},
        {"x-max-length": "ten"},
        {"x-overflow": "drop-tail"},
        {"x-dead-letter-routing-key": "key"},
    ]
    return [answer_to_declare(ctx, arguments, f"q{n}") for n, arguments in enumerate(bad)]


@scenario
def delivery_limit_is_not_checked(ctx):
    """Any type and value is taken as x-delivery-limit."""
    return [
        answer_to_declare(ctx, {"x-delivery-limit": "many"}, "text"),
        answer_to_declare(ctx, {"x-delivery-limit": -5}, "negative"),
        answer_to_declare(ctx, {"x-delivery-limit": True}, "boolean"),
    ]


@scenario
def redeclare_as_another_type(ctx):
    """The type is compared."""
    channel, quorum, classic = ctx.channel(), ctx.name("quorum"), ctx.name("classic")
    channel.queue_declare(quorum, durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_declare(classic, durable=True)

    def again(queue, arguments, **properties):
        options = {"durable": True, **properties}
        return ctx.attempt(ctx.channel().queue_declare, queue, arguments=arguments, **options)

    return [
        again(quorum, {}),
        again(quorum, {"x-queue-type": "classic"}),
        again(quorum, {"x-queue-type": "stream"}),
        again(quorum, {"x-queue-type": "quorum"}, durable=False),
        again(quorum, {"x-queue-type": "quorum"}, exclusive=True),
        again(quorum, {"x-queue-type": "quorum"}, auto_delete=True),
        again(classic, {"x-queue-type": "quorum"}),
        again(classic, {"x-queue-type": "quorum"}, durable=False),
    ]


@scenario
def redeclare_with_other_arguments(ctx, channel, queue):
    """Known arguments are compared, unknown ones are not."""
    first = {"x-queue-type": "quorum", "x-delivery-limit": 5}
    channel.queue_declare(queue, durable=True, arguments=first)
    answers = []
    for others in (
        {"x-delivery-limit": 6},
        {"x-delivery-limit": 5, "x-max-length": 5},
        {},
        {"x-delivery-limit": 5, "x-own": 1},
        {"x-delivery-limit": 5, "x-dead-letter-strategy": "at-least-once"},
    ):
        arguments = {"x-queue-type": "quorum", **others}
        answers.append(
            ctx.attempt(ctx.channel().queue_declare, queue, durable=True, arguments=arguments)
        )
    return answers


@scenario
def delete_with_conditions(ctx, channel, queue):
    """if-unused and if-empty are not supported, whatever is in the queue."""
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    answers = [
        ctx.attempt(ctx.connect().channel().queue_delete, queue, **conditions)
        for conditions in (
            {"if_unused": True},
            {"if_empty": True},
            {"if_unused": True, "if_empty": True},
        )
    ]
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"one")
    return [*answers, ctx.attempt(channel.queue_delete, queue)]


@scenario
def policies_that_do_not_apply(ctx):
    """A policy with a key that the type does not support is not in force for it at all."""
    vhost = ctx.vhost()
    channel = ctx.connect(vhost).channel()
    definitions = (
        {"queue-mode": "lazy"},
        {"ha-mode": "all"},
        {"queue-master-locator": "min-masters"},
        {"max-age": "1D"},
        {"stream-max-segment-size-bytes": 1000},
        {"initial-cluster-size": 1},
        {"queue-leader-locator": "client-local"},
        {"delivery-limit": 5},
        {"dead-letter-strategy": "at-most-once"},
        {"max-in-memory-length": 5},
        {"overflow": "reject-publish"},
        {"queue-version": 2},
    )
    for number, definition in enumerate(definitions):
        pattern = f"^{number}-"
        ctx.management.set_policy(vhost, f"p{number}", pattern, {"max-length": 5, **definition})
        channel.queue_declare(f"{number}-classic", durable=True)
        arguments = {"x-queue-type": "quorum"}
        channel.queue_declare(f"{number}-quorum", durable=True, arguments=arguments)

    def policy_of(queue):
        return ctx.await_queue(vhost, queue, lambda shown: "policy" in shown)["policy"]

    return [
        [definition, policy_of(f"{number}-quorum"), policy_of(f"{number}-classic")]
        for number, definition in enumerate(definitions)
    ]


@scenario
def a_lower_policy_applies_instead(ctx):
    """Where the first policy does not apply, the next one does."""
    vhost = ctx.vhost()
    channel = ctx.connect(vhost).channel()
    ctx.management.set_policy(vhost, "first", ".*", {"queue-mode": "lazy"}, priority=2)
    ctx.management.set_policy(vhost, "second", ".*", {"delivery-limit": 2}, priority=1)
    channel.queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_declare("classic", durable=True)
    return [
        ctx.await_queue(vhost, queue, lambda queue: "policy" in queue)["policy"]
        for queue in ("quorum", "classic")
    ]


@scenario
def in_management(ctx):
    """What the API shows of a quorum queue on one node."""
    vhost = ctx.vhost()
    channel = ctx.connect(vhost).channel()
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": 3}
    channel.queue_declare("quorum", durable=True, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_publish("", "quorum", b"12345")
    shown = ctx.await_queue(
        vhost, "quorum", lambda queue: queue.get("messages_ready") == 1 and "leader" in queue
    )
    shared = sorted(shown.keys() & SHOWN)
    plain = (
        "name", "type", "durable", "auto_delete", "exclusive", "arguments", "state", "members",
        "online", "leader", "node", "messages", "messages_ready", "messages_unacknowledged",
        "messages_persistent", "message_bytes", "message_bytes_ready",
        "message_bytes_persistent", "messages_dlx", "message_bytes_dlx",
        "consumers", "policy", "operator_policy", "effective_policy_definition",
        "single_active_consumer_tag", "exclusive_consumer_tag", "delivery_limit",
    )  # fmt: skip
    return [shared, {key: shown[key] for key in plain if key in shown}]


@scenario
def in_definitions(ctx):
    """Definitions that are exported declare the queue again."""
    vhost = ctx.vhost()
    connection = ctx.connect(vhost)
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": 3}
    connection.channel().queue_declare("quorum", durable=True, arguments=arguments)
    exported = ctx.management.get("definitions", vhost)["queues"]
    connection.channel().queue_delete("quorum")
    ctx.management.post("definitions", vhost, queues=exported)
    found = ctx.await_queue(vhost, "quorum", lambda queue: queue["type"] == "quorum")
    return [exported, found["arguments"]]

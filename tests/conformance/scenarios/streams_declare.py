"""Declaring and deleting streams: properties, arguments, redeclarations, policies, management.

Not asked: values of x-max-age such as "D", "-1D" and "soon", for which RabbitMQ closes the
connection with INTERNAL_ERROR, and a policy with a number as max-age, which it answers with 500.
"""

from urllib.error import HTTPError

from tests.conformance.context import Inbox
from tests.conformance.scenario import scenario

STREAM = {"x-queue-type": "stream"}


def stream_queue(ctx, channel, name="stream", **arguments):
    """A new stream; `max_age="1D"` is x-max-age."""
    stream = ctx.name(name)
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    channel.queue_declare(stream, durable=True, arguments={**STREAM, **named})
    return stream


def answer_to_declare(ctx, arguments=None, name="stream", **properties):
    """The answer to a declaration; the stream is deleted if there is one then."""
    channel = ctx.connect().channel()
    options = {"durable": True, "arguments": {**STREAM, **(arguments or {})}, **properties}
    stream = ctx.name(name) if name else ""
    answer = ctx.attempt(channel.queue_declare, stream, **options)
    if "queue.declare-ok" not in answer:
        return answer
    channel.queue_delete(stream)
    return "declared"


def answers_to_values(ctx, argument, *values):
    return [[str(value), answer_to_declare(ctx, {argument: value})] for value in values]


@scenario
def declare(ctx, channel, queue):
    """A stream is declared, declared again, found by a passive declare, and deleted."""
    return [
        ctx.attempt(channel.queue_declare, queue, durable=True, arguments=STREAM),
        ctx.attempt(channel.queue_declare, queue, durable=True, arguments=STREAM),
        ctx.attempt(channel.queue_declare, queue, passive=True),
        ctx.attempt(channel.queue_delete, queue),
        ctx.attempt(channel.queue_declare, queue, passive=True),
    ]


@scenario
def properties_that_it_cannot_have(ctx):
    """It is durable, neither exclusive nor auto-delete, and has a name from its client."""
    return [
        answer_to_declare(ctx, durable=False),
        answer_to_declare(ctx, exclusive=True),
        answer_to_declare(ctx, auto_delete=True),
        answer_to_declare(ctx, durable=False, exclusive=True, auto_delete=True),
        answer_to_declare(ctx, name=""),
    ]


@scenario
def arguments_of_other_types(ctx):
    """Expiry, dead letters, priorities, limits of messages and the like are refused."""
    others = {
        "x-message-ttl": 1000,
        "x-expires": 10000,
        "x-max-length": 10,
        "x-max-priority": 3,
        "x-overflow": "drop-head",
        "x-dead-letter-exchange": "amq.direct",
        "x-dead-letter-routing-key": "key",
        "x-dead-letter-strategy": "at-least-once",
        "x-single-active-consumer": True,
        "x-queue-mode": "lazy",
        "x-queue-version": 2,
        "x-queue-master-locator": "min-masters",
        "x-delivery-limit": 3,
        "x-max-in-memory-length": 3,
        "x-quorum-initial-group-size": 1,
    }
    return {name: answer_to_declare(ctx, {name: value}) for name, value in others.items()}


@scenario
def several_bad_arguments(ctx):
    """Which of several faults is named."""
    return [
        answer_to_declare(ctx, {"x-message-ttl": -1}),
        answer_to_declare(ctx, {"x-max-age": "1W", "x-max-length": 5}),
        answer_to_declare(ctx, {"x-max-age": "1W", "x-max-length-bytes": -1}),
        answer_to_declare(ctx, {"x-max-length": 5}, durable=False),
    ]


@scenario
def ages(ctx):
    """x-max-age is a positive number and one of the units Y, M, D, h, m and s."""
    good = answers_to_values(ctx, "x-max-age", "1Y", "2M", "3D", "4h", "5m", "6s")
    bad = ("0s", "60", "1d", "1H", "1W", "1.5h", "1 D", "1D1h", 60, True, None)
    return [good, answers_to_values(ctx, "x-max-age", *bad)]


@scenario
def sizes(ctx):
    """Sizes are integers; a segment has at most three billion bytes."""
    values = (-1, 0, 1, 3_000_000_000, 3_000_000_001, "100", True, None)
    return {
        argument: answers_to_values(ctx, argument, *values)
        for argument in ("x-max-length-bytes", "x-stream-max-segment-size-bytes")
    }


@scenario
def members_and_locators(ctx):
    """The number of members is positive; the locator is a known word."""
    locators = ("client-local", "balanced", "random", "least-leaders", "min-masters", "", 3)
    return [
        answers_to_values(ctx, "x-initial-cluster-size", 1, 5, 0, -1, "3", True),
        answers_to_values(ctx, "x-queue-leader-locator", *locators),
        answers_to_values(ctx, "x-unknown", "any", 5),
    ]


@scenario
def declared_again_as_another_type(ctx, channel):
    """The type is compared."""
    stream, classic = stream_queue(ctx, channel), ctx.name("classic")
    channel.queue_declare(classic, durable=True)
    return [
        ctx.attempt(ctx.connect().channel().queue_declare, name, durable=True, arguments=arguments)
        for name, arguments in (
            (stream, {}),
            (stream, {"x-queue-type": "classic"}),
            (stream, {"x-queue-type": "quorum"}),
            (classic, STREAM),
        )
    ]


@scenario
def declared_again_with_other_arguments(ctx, channel):
    """Arguments are compared as they are, not what they mean; unknown ones are not compared."""
    changes = [
        ({}, {"x-max-age": "1D"}),
        ({"x-max-age": "1D"}, {}),
        ({"x-max-age": "1D"}, {"x-max-age": "24h"}),
        ({"x-max-length-bytes": 1000}, {"x-max-length-bytes": 2000}),
        ({"x-max-length-bytes": 1000}, {"x-max-length-bytes": 1000}),
        ({"x-stream-max-segment-size-bytes": 1000}, {"x-stream-max-segment-size-bytes": 2000}),
        ({"x-queue-leader-locator": "client-local"}, {"x-queue-leader-locator": "balanced"}),
        ({"x-initial-cluster-size": 1}, {"x-initial-cluster-size": 3}),
        ({"x-unknown": 1}, {"x-unknown": 2}),
    ]
    answers = []
    for number, (first, second) in enumerate(changes):
        stream = ctx.name(f"stream{number}")
        for arguments in (first, second):
            answer = ctx.attempt(
                ctx.connect().channel().queue_declare, stream, durable=True,
                arguments={**STREAM, **arguments},
            )  # fmt: skip
        answers.append([str(first), str(second), answer])
    return answers


@scenario
def deletion_with_conditions(ctx, channel):
    """A stream with messages and a consumer is deleted all the same; the count is 0."""
    answers = []
    for number, condition in enumerate(({}, {"if_empty": True}, {"if_unused": True})):
        stream = stream_queue(ctx, channel, f"stream{number}")
        channel.confirm_delivery()
        channel.basic_publish("", stream, b"a")
        consuming = ctx.connect().channel()
        consuming.basic_qos(prefetch_count=1)
        Inbox(consuming, stream, arguments={"x-stream-offset": "first"}).wait_for(1)
        answers.append(ctx.attempt(ctx.connect().channel().queue_delete, stream, **condition))
    return answers


@scenario
def purge_and_get(ctx, channel):
    """Neither is possible, by a client or by the API."""
    vhost = ctx.vhost()
    ctx.connect(vhost).channel().queue_declare("s", durable=True, arguments=STREAM)
    stream = stream_queue(ctx, channel)
    answers = [
        ctx.attempt(ctx.connect().channel().queue_purge, stream),
        ctx.attempt(ctx.connect().channel().basic_get, stream),
        ctx.attempt(ctx.connect().channel().basic_get, stream, auto_ack=True),
    ]
    try:
        ctx.management.delete("queues", vhost, "s", "contents")
    except HTTPError as error:
        answers.append([error.code, error.read().decode()])
    return answers


POLICIES = {
    "max-age": "1h",
    "max-length-bytes": 1000,
    "stream-max-segment-size-bytes": 1000,
    "queue-leader-locator": "balanced",
    "initial-cluster-size": 1,
    "message-ttl": 1000,
    "expires": 100000,
    "max-length": 10,
    "overflow": "drop-head",
    "delivery-limit": 3,
    "dead-letter-exchange": "amq.direct",
    "ha-mode": "all",
}


@scenario
def policies(ctx):
    """A policy with a key that streams do not have is not in force, also for its other keys."""
    vhost, shown = ctx.vhost(), {}
    channel = ctx.connect(vhost).channel()
    ctx.management.set_policy(vhost, "both", "^both$", {"max-age": "1h", "max-length": 10})
    channel.queue_declare("both", durable=True, arguments=STREAM)
    for key, value in POLICIES.items():
        ctx.management.set_policy(vhost, key, f"^{key}$", {key: value}, apply_to="queues")
        channel.queue_declare(key, durable=True, arguments=STREAM)
    for name in (*POLICIES, "both"):
        queue = ctx.await_queue(vhost, name, lambda queue: "policy" in queue)
        shown[name] = [queue["policy"], queue.get("effective_policy_definition")]
    return shown


@scenario
def policies_that_are_refused(ctx):
    """Values of policies are checked when they are set."""
    vhost, answers = ctx.vhost(), []
    for key, value in (
        ("max-age", "1W"),
        ("max-age", "1h"),
        ("stream-max-segment-size-bytes", -1),
        ("stream-max-segment-size-bytes", 3_000_000_001),
        ("initial-cluster-size", -1),
        ("queue-leader-locator", "somewhere"),
        ("max-length-bytes", -1),
    ):
        try:
            ctx.management.set_policy(vhost, "p", "^q", {key: value}, apply_to="queues")
            answers.append([key, value, "set"])
        except HTTPError as error:
            answers.append([key, value, error.code, error.read().decode()])
    return answers


@scenario
def operator_policies(ctx):
    """Which limit is in force when policy and operator policy set it."""
    vhost = ctx.vhost()
    ctx.management.set_policy(vhost, "p", "^s$", {"max-length-bytes": 9000, "max-age": "1h"})
    ctx.management.set_operator_policy(vhost, "o", "^s$", {"max-length-bytes": 4000})
    ctx.connect(vhost).channel().queue_declare("s", durable=True, arguments=STREAM)
    queue = ctx.await_queue(vhost, "s", lambda queue: "operator_policy" in queue)
    return [queue["policy"], queue["operator_policy"], queue["effective_policy_definition"]]


@scenario
def in_management(ctx):
    """What the API shows of a stream with messages and a consumer."""
    vhost = ctx.vhost()
    channel = ctx.connect(vhost).channel()
    channel.queue_declare("s", durable=True, arguments={**STREAM, "x-max-age": "1h"})
    channel.confirm_delivery()
    for body in (b"a", b"b", b"c"):
        channel.basic_publish("", "s", body)
    channel.basic_qos(prefetch_count=2)
    Inbox(channel, "s", consumer_tag="c", arguments={"x-stream-offset": "first"}).wait_for(2)
    queue = ctx.await_queue(
        vhost, "s", lambda queue: queue.get("messages") == 3 and queue.get("consumers") == 1
    )
    shown = (
        "arguments", "auto_delete", "consumers", "durable", "exclusive", "messages",
        "messages_ready", "messages_unacknowledged", "name", "state", "type", "vhost",
    )  # fmt: skip
    consumer = ctx.await_consumers(vhost, 1)[0]
    described = (
        "ack_required", "active", "activity_status", "arguments", "consumer_tag", "exclusive",
        "prefetch_count", "queue",
    )  # fmt: skip
    return [
        {key: queue[key] for key in shown},
        [len(queue["members"]), len(queue["online"])],
        {key: consumer[key] for key in described},
    ]

"""Consumers of streams: where they begin, prefetch, acknowledgements, what they cannot have.

Not asked: offsets such as "First", "-1h" and 1.5, and basic.recover, for which RabbitMQ closes the
connection with INTERNAL_ERROR.
"""

import datetime
import time

from tests.conformance.context import Inbox
from tests.conformance.scenario import scenario
from tests.conformance.scenarios.streams_declare import stream_queue
from tests.patience import PATIENCE_SECONDS


def filled(ctx, *bodies, name="stream", **arguments):
    """A new stream with confirmed messages, each in a chunk of its own."""
    channel = ctx.channel()
    stream = stream_queue(ctx, channel, name, **arguments)
    publish(ctx, stream, *bodies)
    return stream


def publish(ctx, stream, *bodies):
    channel = ctx.channel()
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", stream, body.encode())


def consumer(ctx, stream, offset=None, prefetch=100, **options):
    """A consumer on a connection of its own."""
    channel = ctx.connect().channel()
    channel.basic_qos(prefetch_count=prefetch)
    arguments = {} if offset is None else {"x-stream-offset": offset}
    return Inbox(channel, stream, arguments=arguments, **options)


def answer_to_consume(ctx, stream, prefetch=100, global_prefetch=False, **options):
    channel = ctx.connect().channel()
    channel.basic_qos(prefetch_count=prefetch, global_qos=global_prefetch)
    answer = ctx.attempt(channel.basic_consume, stream, print, consumer_tag="c", **options)
    return "consumes" if answer == "c" else answer


def seen(deliveries):
    return [
        [one["body"], one["redelivered"], one["properties"].get("headers")] for one in deliveries
    ]


def offset_of(delivery):
    return delivery["properties"]["headers"]["x-stream-offset"]


@scenario
def first_last_next_and_numbers(ctx):
    """Where a consumer begins; `next` is the default."""
    stream = filled(ctx, *"abcd")
    later = [consumer(ctx, stream), consumer(ctx, stream, "next")]
    found = {
        str(offset): seen(consumer(ctx, stream, offset).wait_for(count))
        for offset, count in (("first", 4), ("last", 1), (0, 4), (2, 2), (3, 1))
    }
    publish(ctx, stream, "e")
    return [found, [seen(inbox.wait_for(1)) for inbox in later]]


@scenario
def number_before_the_first(ctx):
    """A negative offset is the first one."""
    return seen(consumer(ctx, filled(ctx, "a", "b"), -1).wait_for(2))


@scenario
def number_after_the_last(ctx):
    """The consumer waits for the message of this offset."""
    stream = filled(ctx, "a", "b")
    inbox = consumer(ctx, stream, 4)
    publish(ctx, stream, *"cdef")
    return seen(inbox.wait_for(2))


@scenario
def every_position_of_an_empty_stream(ctx):
    """All wait for the first message."""
    stream = filled(ctx)
    inboxes = [consumer(ctx, stream, offset) for offset in ("first", "last", "next", 0, "1h")]
    publish(ctx, stream, "a", "b")
    return [seen(inbox.wait_for(2)) for inbox in inboxes]


@scenario
def times(ctx):
    """A time before all messages, between them, and after all."""
    stream = filled(ctx, "a", "b")
    time.sleep(2.1)  # AMQP's times are in seconds.
    between = datetime.datetime.fromtimestamp(int(time.time()) - 1, datetime.UTC)
    publish(ctx, stream, "c")
    old = datetime.datetime.fromtimestamp(1000, datetime.UTC)
    future = datetime.datetime.fromtimestamp(int(time.time()) + 3600, datetime.UTC)
    waiting = consumer(ctx, stream, future)
    found = [seen(consumer(ctx, stream, old).wait_for(3))]
    found.append(seen(consumer(ctx, stream, between).wait_for(1)))
    publish(ctx, stream, "d")
    return [*found, seen(waiting.wait_for(1))]


@scenario
def intervals(ctx):
    """A text such as 1h means: of the last hour."""
    stream = filled(ctx, "a", "b")
    return [seen(consumer(ctx, stream, age).wait_for(2)) for age in ("10m", "1h", "30D", "1Y")]


@scenario
def offsets_that_are_refused(ctx):
    """Texts that are neither a word nor an interval."""
    stream = filled(ctx, "a")
    return [
        answer_to_consume(ctx, stream, arguments={"x-stream-offset": offset})
        for offset in ("10", "1x", "1.5h", "1 h", "1d")
    ]


@scenario
def prefetch_is_required(ctx):
    """Also for one that acknowledges automatically; a global limit is none."""
    stream = filled(ctx, "a")
    return [
        answer_to_consume(ctx, stream, prefetch=0),
        answer_to_consume(ctx, stream, global_prefetch=True),
        answer_to_consume(ctx, stream, prefetch=0, auto_ack=True),
        answer_to_consume(ctx, stream, auto_ack=True),
    ]


@scenario
def prefetch_after_a_global_one(ctx):
    """With both limits, the consumer is accepted."""
    stream = filled(ctx, *"abc")
    channel = ctx.connect().channel()
    channel.basic_qos(prefetch_count=5, global_qos=True)
    channel.basic_qos(prefetch_count=2)
    return ctx.attempt(channel.basic_consume, stream, print, consumer_tag="c")


@scenario
def acknowledgements_are_credit(ctx):
    """As many messages as the prefetch limit are out; an ack makes room for another one."""
    inbox = consumer(ctx, filled(ctx, *"abcdefgh"), "first", prefetch=2)
    quiet_seconds = ctx.target.quiet_seconds
    steps = [list(inbox.settle(2, quiet_seconds))]
    for number, multiple, count in ((0, False, 3), (-1, True, 5)):
        inbox.channel.basic_ack(inbox.received[number]["delivery_tag"], multiple=multiple)
        steps.append(list(inbox.settle(count, quiet_seconds)))
    return [[one["body"] for one in step] for step in steps]


@scenario
def unknown_delivery_tag(ctx):
    """It is refused as on other queues."""
    inbox = consumer(ctx, filled(ctx, "a"), "first")
    inbox.wait_for(1)
    inbox.channel.basic_ack(5)
    return ctx.refusal(inbox.channel)


@scenario
def nack_and_reject(ctx):
    """Both are refused."""
    answers = []
    for number, requeue in enumerate((True, False)):
        for method in ("basic_nack", "basic_reject"):
            stream = filled(ctx, "a", "b", name=f"{method}{number}")
            inbox = consumer(ctx, stream, "first", prefetch=1)
            tag = inbox.wait_for(1)[0]["delivery_tag"]
            getattr(inbox.channel, method)(tag, requeue=requeue)
            answers.append(ctx.refusal(inbox.channel))
    return answers


@scenario
def consumers_read_for_themselves(ctx):
    """Two consumers of one channel, and one of another."""
    stream = filled(ctx, *"abcd")
    channel = ctx.connect().channel()
    channel.basic_qos(prefetch_count=10)
    inboxes = [
        Inbox(channel, stream, arguments={"x-stream-offset": "first"}),
        Inbox(channel, stream, arguments={"x-stream-offset": 2}),
        consumer(ctx, stream, "last"),
    ]
    for inbox, count in zip(inboxes, (4, 2, 1), strict=True):
        inbox.wait_for(count)
    return [inbox.bodies for inbox in inboxes]


@scenario
def exclusive_consumers(ctx):
    """The exclusive flag means nothing."""
    stream = filled(ctx, "a")
    inbox = consumer(ctx, stream, "first", exclusive=True)
    return [
        answer_to_consume(ctx, stream, exclusive=True),
        answer_to_consume(ctx, stream),
        seen(inbox.wait_for(1)),
    ]


@scenario
def consumer_arguments(ctx):
    """Those of other types are refused; unknown ones are ignored."""
    stream = filled(ctx, "a")
    return [
        answer_to_consume(ctx, stream, arguments=arguments)
        for arguments in (
            {"x-priority": 5},
            {"x-priority": "high"},
            {"x-cancel-on-ha-failover": True},
            {"x-unknown": 1},
        )
    ]


@scenario
def tag_in_use(ctx):
    """A second consumer of a channel with the same tag."""
    stream = filled(ctx, "a")
    inbox = consumer(ctx, stream, consumer_tag="c")
    return ctx.attempt(inbox.channel.basic_consume, stream, print, consumer_tag="d")


@scenario
def unacknowledged_messages_of_a_closed_channel(ctx):
    """Another consumer reads them as new."""
    stream = filled(ctx, *"abc")
    inbox = consumer(ctx, stream, "first", prefetch=2)
    inbox.wait_for(2)
    inbox.channel.close()
    return seen(consumer(ctx, stream, "first").wait_for(3))


@scenario
def acknowledged_messages_stay(ctx):
    """What one consumer has acknowledged is there for the next one, and is counted."""
    stream = filled(ctx, *"abc")
    inbox = consumer(ctx, stream, "first")
    inbox.channel.basic_ack(inbox.wait_for(3)[-1]["delivery_tag"], multiple=True)
    again = consumer(ctx, stream, "first").wait_for(3)
    return [seen(again), ctx.await_message_count(ctx.channel(), stream, 3)]


@scenario
def cancel(ctx):
    """After a cancel nothing comes, and what is out can be acknowledged."""
    stream = filled(ctx, *"abc")
    inbox = consumer(ctx, stream, "first", prefetch=2, consumer_tag="c")
    tags = [one["delivery_tag"] for one in inbox.wait_for(2)]
    cancelled = ctx.attempt(inbox.channel.basic_cancel, "c")
    inbox.channel.basic_ack(tags[-1], multiple=True)
    refusal = ctx.refusal(inbox.channel)
    bodies = [one["body"] for one in inbox.settle(len(tags), ctx.target.quiet_seconds)]
    return [str(cancelled), refusal, bodies]


@scenario
def deleted_stream_cancels_consumers(ctx):
    """A client that knows basic.cancel is told."""
    stream = filled(ctx, "a")
    inbox = consumer(ctx, stream, "first", consumer_tag="c")
    inbox.wait_for(1)
    ctx.channel().queue_delete(stream)
    return inbox.wait_for(2)[1:]


@scenario
def retention_by_the_size_of_a_policy(ctx):
    """The oldest segments go; offsets go on, and one that is gone means the first that is left."""
    vhost = ctx.vhost()
    ctx.management.set_policy(vhost, "p", "^s$", {"max-length-bytes": 5000})
    channel = ctx.connect(vhost).channel()
    arguments = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 1000}
    channel.queue_declare("s", durable=True, arguments=arguments)
    channel.confirm_delivery()
    for number in range(60):
        channel.basic_publish("", "s", b"%d " % number + bytes(200))
    channel.basic_qos(prefetch_count=1)
    deadline = time.monotonic() + PATIENCE_SECONDS
    first = last = None
    while time.monotonic() < deadline and not (first and offset_of(first) > 20):
        inbox = Inbox(channel, "s", arguments={"x-stream-offset": "first"})
        first = inbox.wait_for(1)[0]
        channel.basic_cancel(inbox.consumer_tag)
    gone = Inbox(channel, "s", arguments={"x-stream-offset": 0}).wait_for(1)[0]
    last = Inbox(channel, "s", arguments={"x-stream-offset": "last"}).wait_for(1)[0]
    return [offset_of(first) > 20, offset_of(gone) == offset_of(first), last["body"][:3]]

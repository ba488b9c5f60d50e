"""Publishing to streams: confirms, and what consumers see of properties and headers."""

import pika

from tests.conformance.scenario import scenario
from tests.conformance.scenarios.streams_declare import stream_queue

FIRST = {"x-stream-offset": ("S", "first")}


def read(ctx, stream, count):
    """The first messages, as they come: exchange, key, properties with types, and body."""
    client = ctx.wire()
    client.call(1, "basic.qos", prefetch_count=100)
    client.call(1, "basic.consume", queue=stream, consumer_tag="c", arguments=FIRST)
    return client.read_events(count)


def read_properties(ctx, properties):
    """What becomes of properties of a message."""
    client, stream = ctx.wire(), stream_queue(ctx, ctx.channel())
    client.call(1, "confirm.select")
    client.publish(1, "", stream, "body", properties)
    confirm = client.read_event()["method"]
    return [confirm, *read(ctx, stream, 1)]


@scenario
def confirms(ctx, channel):
    """Every message is confirmed, persistent or not."""
    client, stream = ctx.wire(), stream_queue(ctx, channel)
    client.call(1, "confirm.select")
    answers = []
    for mode in (1, 2):
        client.publish(1, "", stream, "a", {"delivery_mode": mode})
        answers.append(client.read_event())
    return answers


@scenario
def all_properties(ctx):
    """Properties come back, the expiration among them."""
    return read_properties(ctx, {
        "content_type": "text/plain", "content_encoding": "gzip", "delivery_mode": 2,
        "priority": 7, "correlation_id": "c", "reply_to": "r", "expiration": "60000",
        "message_id": "m", "timestamp": 1700000000, "type": "t", "user_id": "guest", "app_id": "a",
    })  # fmt: skip


@scenario
def no_properties(ctx):
    """A message without properties has the header of its offset."""
    return read_properties(ctx, {})


@scenario
def transient(ctx):
    """The delivery mode 1 and other values."""
    return [read_properties(ctx, {"delivery_mode": mode})[1:] for mode in (1, 2, 0, 3)]


@scenario
def types_of_headers(ctx):
    """Headers with simple values, of every type."""
    return read_properties(ctx, {"headers": {
        "text": ("S", "x"), "empty": ("S", ""), "yes": ("t", True), "byte": ("b", -5),
        "octet": ("B", 5), "short": ("s", -300), "ushort": ("u", 300), "int": ("I", -70000),
        "uint": ("i", 70000), "long": ("l", 5_000_000_000), "double": ("d", 1.5),
        "time": ("T", 1700000000), "bytes": ("x", b"\xff\x00"), "void": ("V", None),
        "x-own": ("S", "y"),
    }})  # fmt: skip


@scenario
def headers_that_are_lost(ctx):
    """Tables and arrays are dropped, the publisher's offset is replaced."""
    return read_properties(ctx, {"headers": {
        "kept": ("S", "x"), "table": ("F", {"a": ("I", 1)}), "array": ("A", [("I", 1)]),
        "x-table": ("F", {"a": ("I", 1)}), "x-stream-offset": ("l", 99),
    }})  # fmt: skip


@scenario
def empty_and_large_bodies(ctx, channel):
    """Bodies of no byte, and of several frames."""
    stream = stream_queue(ctx, channel)
    channel.confirm_delivery()
    for size in (0, 1, 300_000):
        channel.basic_publish("", stream, b"x" * size)
    return [len(event["body"]) for event in read(ctx, stream, 3)]


@scenario
def exchange_and_key(ctx, channel):
    """A delivery shows the exchange and the key of the publish."""
    stream, exchange = stream_queue(ctx, channel), ctx.name("exchange")
    channel.exchange_declare(exchange, "topic")
    channel.queue_bind(stream, exchange, "a.#")
    channel.confirm_delivery()
    channel.basic_publish(exchange, "a.b", b"one")
    channel.basic_publish("", stream, b"two")
    return read(ctx, stream, 2)


@scenario
def carbon_copies(ctx, channel):
    """A copy shows the key of the publish, and neither CC nor BCC."""
    client = ctx.wire()
    names = [stream_queue(ctx, channel, name) for name in ("to", "cc", "bcc")]
    copies = {"CC": ("A", [("S", names[1])]), "BCC": ("A", [("S", names[2])])}
    client.call(1, "confirm.select")
    client.publish(1, "", names[0], "a", {"headers": copies})
    client.read_event()
    return [read(ctx, name, 1) for name in names]


@scenario
def mandatory(ctx, channel):
    """A stream is a queue for a mandatory message; one for no queue comes back."""
    client, stream = ctx.wire(), stream_queue(ctx, channel)
    client.call(1, "confirm.select")
    client.publish(1, "", stream, "a", mandatory=True)
    routed = client.read_event()
    client.publish(1, "", ctx.name("nowhere"), "b", mandatory=True)
    return [routed, *client.read_events(2)]


@scenario
def transactions(ctx, channel):
    """What is rolled back is not in the stream."""
    stream = stream_queue(ctx, channel)
    channel.tx_select()
    channel.basic_publish("", stream, b"a")
    channel.tx_rollback()
    channel.basic_publish("", stream, b"b")
    committed = ctx.attempt(channel.tx_commit)
    return [committed, read(ctx, stream, 1)]


@scenario
def counts(ctx, channel):
    """A passive declare counts messages, and no consumers."""
    stream = stream_queue(ctx, channel)
    channel.confirm_delivery()
    for number in range(7):
        channel.basic_publish("", stream, str(number).encode())
    read(ctx, stream, 7)
    ctx.await_message_count(channel, stream, 7)
    return ctx.attempt(channel.queue_declare, stream, passive=True)


@scenario
def dead_letters_of_a_classic_queue_with_a_policy(ctx):
    """Afterwards the source, whose policy names the stream, is empty."""
    vhost = ctx.vhost()
    definition = {"dead-letter-exchange": "", "dead-letter-routing-key": "s"}
    ctx.management.set_policy(vhost, "p", "^source$", definition)
    channel = ctx.connect(vhost).channel()
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("source")
    channel.confirm_delivery()
    channel.basic_publish("", "source", b"a", pika.BasicProperties(expiration="0"))
    return ctx.await_message_count(channel, "source", 0)

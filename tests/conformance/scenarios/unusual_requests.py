"""Requests at the edge of the protocol: deep tables, unknown types, empty names, reopening."""

import struct

from tests.conformance.field_table import encode_field, encode_shortstr
from tests.conformance.scenario import scenario
from tests.conformance.wire import METHOD_FRAME


def nested(depth, letter="F"):
    """A table or an array with `depth` levels of nesting."""
    value = (letter, {} if letter == "F" else [])
    for _ in range(depth - 1):
        value = (letter, {"k": value} if letter == "F" else [value])
    return value


def encoded_nested(depth, letter="F"):
    """The encoding of `nested`, made from the inside out, so that nothing recurses."""
    payload = b""
    for _ in range(depth - 1):
        head = encode_shortstr("k") if letter == "F" else b""
        payload = head + letter.encode() + struct.pack(">I", len(payload)) + payload
    return letter.encode() + struct.pack(">I", len(payload)) + payload


def header_frame_with(field):
    """A content header for an empty body with one header of these bytes."""
    table = encode_shortstr("deep") + field
    return struct.pack(">HHQH", 60, 0, 0, 1 << 13) + struct.pack(">I", len(table)) + table


@scenario
def deep_headers(ctx):
    """Headers of any depth are delivered as they came."""
    answers = []
    for letter in "FA":
        for depth in (10, 128, 129, 130, 200, 1000, 5000):
            client = ctx.wire()
            queue = ctx.name(f"{letter}{depth}")
            client.call(1, "queue.declare", queue=queue)
            client.send(1, "basic.publish", exchange="", routing_key=queue)
            field = encoded_nested(depth, letter)
            client.send_frame(2, 1, header_frame_with(field))
            client.send(1, "basic.get", queue=queue, no_ack=True)
            method, header = client.read_frame(), client.read_frame()
            answers.append([letter, depth, method.kind, header.payload.endswith(field)])
    return answers


@scenario
def deep_arguments(ctx):
    """Arguments of any depth are accepted and compared."""
    answers = []
    for depth in (10, 128, 129, 130, 200, 1000, 5000):
        client = ctx.wire()
        queue = ctx.name(f"q{depth}")
        table = encode_shortstr("x-own") + encoded_nested(depth)
        payload = struct.pack(">HHH", 50, 10, 0) + encode_shortstr(queue) + b"\0"
        payload += struct.pack(">I", len(table)) + table
        for _ in range(2):
            client.send_frame(METHOD_FRAME, 1, payload)
            answers.append([depth, client.read_event()])
    return answers


@scenario
def unknown_field_type(ctx):
    """A field of an unknown type in arguments and in headers."""
    answers = []
    for letter in b"zZ\x00":
        client = ctx.wire()
        table = encode_shortstr("x-own") + bytes([letter]) + b"\0\0\0\0"
        payload = struct.pack(">HHH", 50, 10, 0) + encode_shortstr(ctx.name("q")) + b"\0"
        client.send_frame(METHOD_FRAME, 1, payload + struct.pack(">I", len(table)) + table)
        answers.append(client.read_until_closed())
        client = ctx.wire()
        client.send(1, "basic.publish", exchange="", routing_key="none")
        client.send_frame(2, 1, header_frame_with(bytes([letter]) + b"\0\0\0\0"))
        answers.append(client.read_until_quiet(1))
    return answers


@scenario
def every_field_type_in_arguments(ctx):
    """Each type that RabbitMQ knows is accepted in the arguments of a queue."""
    fields = {
        "t": True, "b": -5, "B": 5, "s": -5, "u": 5, "I": -5, "i": 5, "l": -5, "L": 5, "f": 1.5,
        "d": 1.5, "D": (1, 5), "S": "text", "x": b"bytes", "T": 5, "V": None, "F": {}, "A": [],
    }  # fmt: skip
    answers = []
    for letter, value in fields.items():
        client = ctx.wire()
        table = encode_shortstr("x-own") + encode_field(letter, value)
        name = ctx.name(f"q_{letter}_{letter.islower()}")
        payload = struct.pack(">HHH", 50, 10, 0) + encode_shortstr(name) + b"\0"
        client.send_frame(METHOD_FRAME, 1, payload + struct.pack(">I", len(table)) + table)
        answers.append([letter, client.read_event()["method"]])
    return answers


@scenario
def exchange_with_an_empty_type(ctx):
    """Declaring an exchange with an empty type."""
    client = ctx.wire()
    client.send(1, "exchange.declare", exchange=ctx.name("exchange"), type="")
    return client.read_until_quiet(1)


@scenario
def exchange_with_an_empty_type_that_exists(ctx):
    """The same for an exchange that exists."""
    client = ctx.wire()
    name = ctx.name("exchange")
    client.call(1, "exchange.declare", exchange=name, type="direct")
    client.send(1, "exchange.declare", exchange=name, type="")
    return client.read_until_quiet(1)


@scenario
def channel_reopened_without_close_ok(ctx):
    """A channel that the broker closed is opened again before channel.close-ok."""
    client = ctx.wire()
    client.send(1, "queue.declare", queue="missing", passive=True)
    closed = client.read_event()
    client.send(1, "channel.open")
    return [closed["method"], client.read_until_quiet(1)]


@scenario
def methods_on_a_channel_that_failed(ctx):
    """Whatever comes before channel.close-ok is ignored."""
    client = ctx.wire()
    client.send(1, "queue.declare", queue="missing", passive=True)
    closed = client.read_event()
    client.send(1, "basic.qos", prefetch_count=1)
    client.publish(1, "", "none", "x")
    client.send(1, "channel.close", reply_code=200)
    return [closed["method"], client.read_until_quiet(1)]


@scenario
def close_ok_that_was_not_asked_for(ctx):
    """channel.close-ok on an open channel, and on one that is not open."""
    client = ctx.wire()
    client.send(1, "channel.close-ok")
    first = client.read_until_quiet(1)
    client = ctx.wire()
    client.send(2, "channel.close-ok")
    return [first, client.read_until_quiet(1)]

"""Frames that break the rules, and the limits on good ones."""

import struct

from tests.conformance.methods import encode_method
from tests.conformance.scenario import scenario
from tests.conformance.wire import (
    BODY_FRAME,
    FRAME_OVERHEAD,
    HEADER_FRAME,
    HEARTBEAT_FRAME,
    METHOD_FRAME,
    encode_frame,
)


def method_payload(class_id, method_id, arguments=b""):
    return struct.pack(">HH", class_id, method_id) + arguments


@scenario
def wrong_frame_end_during_handshake(ctx):
    """A wrong frame end before the connection is open."""
    client = ctx.raw_socket()
    client.start()
    client.send_frame(METHOD_FRAME, 0, encode_method("connection.tune-ok", {}), end=0xCD)
    return client.read_until_closed()


@scenario
def unknown_frame_type_on_a_channel(ctx):
    """A frame type that does not exist, on an open channel."""
    client = ctx.wire()
    client.send_frame(7, 1, b"abc")
    return client.read_until_closed()


@scenario
def frame_above_frame_max(ctx):
    """A frame above the negotiated frame_max closes the connection."""
    client = ctx.wire(frame_max=4096)
    client.send_frame(METHOD_FRAME, 1, b"\0" * 4097)
    return client.read_until_closed()


@scenario
def frame_of_exactly_frame_max(ctx):
    """frame_max counts the whole frame: its payload may have frame_max - 8 octets."""
    client = ctx.wire(frame_max=4096)
    queue = ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    client.publish(1, "", queue, b"x" * (4096 - FRAME_OVERHEAD))
    got = client.call(1, "basic.get", queue=queue, no_ack=True)
    return {"method": got["method"], "body size": len(got["body"])}


@scenario
def method_frame_without_payload(ctx):
    """A method frame too short to name a method."""
    client = ctx.wire()
    client.send_frame(METHOD_FRAME, 1, b"")
    return client.read_until_closed()


@scenario
def unknown_class(ctx):
    """A method of a class that does not exist."""
    client = ctx.wire()
    client.send_frame(METHOD_FRAME, 1, method_payload(99, 10))
    return client.read_until_closed()


@scenario
def truncated_method_arguments(ctx):
    """A method frame that ends in the middle of its arguments."""
    client = ctx.wire()
    client.send_frame(METHOD_FRAME, 1, method_payload(60, 10, b"\0\0"))
    return client.read_until_closed()


@scenario
def surplus_method_arguments(ctx):
    """A method frame that goes on after its arguments."""
    client = ctx.wire()
    client.send_frame(METHOD_FRAME, 1, encode_method("basic.qos", {}) + b"more")
    return client.read_until_closed()


@scenario
def basic_deliver_sent_by_the_client(ctx):
    """basic.deliver with its content, sent by the client."""
    client = ctx.wire()
    client.send(1, "basic.deliver", consumer_tag="tag", delivery_tag=1)
    client.send_content_header(1, 0)
    return client.read_until_closed()


@scenario
def content_header_without_method(ctx):
    """A content header that no method announced."""
    client = ctx.wire()
    client.send_content_header(1, 0)
    return client.read_until_closed()


@scenario
def content_body_instead_of_header(ctx):
    """A content body straight after basic.publish."""
    client = ctx.wire()
    client.send(1, "basic.publish", routing_key=ctx.name("queue"))
    client.send_frame(BODY_FRAME, 1, b"x")
    return client.read_until_closed()


@scenario
def method_instead_of_content_header(ctx):
    """A method straight after basic.publish."""
    client = ctx.wire()
    client.send(1, "basic.publish", routing_key=ctx.name("queue"))
    client.send(1, "basic.qos")
    return client.read_until_closed()


@scenario
def header_instead_of_content_body(ctx):
    """A second content header where the announced body is due."""
    client = ctx.wire()
    client.send(1, "basic.publish", routing_key=ctx.name("queue"))
    client.send_content_header(1, 5)
    client.send_content_header(1, 5)
    return client.read_until_closed()


@scenario
def content_header_of_another_class(ctx):
    """A content header that names another class than its method."""
    client = ctx.wire()
    client.send(1, "basic.publish", routing_key=ctx.name("queue"))
    client.send_content_header(1, 0, class_id=50)
    return client.read_until_closed()


@scenario
def truncated_content_header(ctx):
    """A content header frame too short to hold a size."""
    client = ctx.wire()
    client.send(1, "basic.publish", routing_key=ctx.name("queue"))
    client.send_frame(HEADER_FRAME, 1, struct.pack(">HH", 60, 0))
    return client.read_until_closed()


@scenario
def body_longer_than_announced(ctx):
    """A body frame with more octets than the header announced."""
    client = ctx.wire()
    queue = ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    client.send(1, "basic.publish", routing_key=queue)
    client.send_content_header(1, 3)
    client.send_frame(BODY_FRAME, 1, b"abcdef")
    client.send(1, "basic.get", queue=queue, no_ack=True)
    return client.read_until_quiet(1)


@scenario
def content_on_two_channels_interleaved(ctx):
    """Frames of two messages on two channels may alternate."""
    client = ctx.wire()
    client.open_channel(2)
    queue = ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    for channel in (1, 2):
        client.send(channel, "basic.publish", routing_key=queue)
    for channel in (1, 2):
        client.send_content_header(channel, 2)
    for octet in (b"a", b"b"):
        for channel in (1, 2):
            client.send_frame(BODY_FRAME, channel, octet)
    client.call(2, "basic.qos")
    return [client.call(1, "basic.get", queue=queue, no_ack=True)["body"] for _ in range(2)]


@scenario
def content_header_on_channel_zero(ctx):
    """Content has no place on channel 0."""
    client = ctx.wire()
    client.send_content_header(0, 0)
    return client.read_until_closed()


@scenario
def heartbeat_on_another_channel(ctx):
    """A heartbeat frame on a channel other than 0."""
    client = ctx.wire()
    client.send_frame(HEARTBEAT_FRAME, 1, b"")
    client.send(1, "basic.qos")
    return client.read_until_quiet(1)


@scenario
def frames_sent_in_one_write(ctx):
    """Several frames in one segment are answered one by one and in order."""
    client = ctx.wire()
    queue = ctx.name("queue")
    client.send_bytes(
        b"".join(
            encode_frame(METHOD_FRAME, 1, encode_method(*call))
            for call in (
                ("queue.declare", {"queue": queue}),
                ("queue.purge", {"queue": queue}),
                ("queue.delete", {"queue": queue}),
            )
        )
    )
    return client.read_events(3)


@scenario
def delivery_is_split_at_frame_max(ctx):
    """A body is delivered in frames that fill the consumer's frame_max."""
    publisher, receiver = ctx.wire(), ctx.wire(frame_max=4096)
    queue = ctx.name("queue")
    publisher.call(1, "queue.declare", queue=queue)
    publisher.publish(1, "", queue, b"x" * 10000)
    publisher.call(1, "basic.qos")
    receiver.send(1, "basic.get", queue=queue, no_ack=True)
    return [
        [frame.kind, len(frame.payload)]
        for frame in (receiver.read_frame() for _ in range(5))
        if frame.kind != METHOD_FRAME
    ]


@scenario
def header_frame_is_not_split(ctx):
    """Message headers larger than the consumer's frame_max still come in one frame."""
    publisher, receiver = ctx.wire(), ctx.wire(frame_max=4096)
    queue = ctx.name("queue")
    publisher.call(1, "queue.declare", queue=queue)
    publisher.publish(1, "", queue, b"body", {"headers": {"big": ("S", "h" * 9000)}})
    publisher.call(1, "basic.qos")
    receiver.send(1, "basic.get", queue=queue, no_ack=True)
    return [
        [frame.kind, len(frame.payload)]
        for frame in (receiver.read_frame() for _ in range(3))
        if frame.kind != METHOD_FRAME
    ]

"""Encoding content: the frames of basic.deliver, basic.get-ok and basic.return.

A delivery is a method frame, a header frame and body frames. Consumers write the deliveries of a
run to one buffer (`DeliveryFrames`). A body above `COPIED_BYTES_MAX`, or above what fits into a
frame, is not copied there: its frames are pieces of their own (`body_frames`).
"""

import struct
from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i64

from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.amqp.frames import (
    BODY,
    CLASS_BASIC,
    FRAME_END,
    FRAME_END_BYTE,
    FRAME_OVERHEAD_BYTES,
    HEADER,
    METHOD,
)

_FRAME_START = struct.Struct(">BHI")
_HEADER_START = struct.Struct(">BHIHHQ")
_DELIVER_START = struct.Struct(">BHIHH")
_HEADER_FIXED_BYTES: Final = 12
"""Class, weight and body size in a content header."""
_CLASS_AND_WEIGHT: Final = b"\0\x3c\0\0"
_BASIC_DELIVER = 60
_DELIVER_FIXED_BYTES = 13
"""Class, method, delivery tag and redelivered flag of a basic.deliver."""

Piece = bytes | memoryview
"""A part of a connection's output."""
COPIED_BYTES_MAX: Final = 16 * 1024
"""Up to this size it costs less to copy a body than to write it as a piece of its own."""
LARGE_BODY_BYTES = 1024 * 1024
"""A body of this size is sent without copying it."""

pack_tag = struct.Struct(">Q?").pack
"""Delivery tag and redelivered flag."""


def deliver_prefix(channel: int, consumer_tag: bytes, address: bytes) -> bytes:
    """The start of a basic.deliver frame, up to its delivery tag.

    consumer_tag, address: encoded short strings; the address is the exchange followed by the
        routing key.
    """
    size = _DELIVER_FIXED_BYTES + len(consumer_tag) + len(address)
    return _DELIVER_START.pack(METHOD, channel, size, CLASS_BASIC, _BASIC_DELIVER) + consumer_tag


def write_content(writer: BytesWriter, before_body: bytes, properties: bytes, body: bytes) -> None:
    """Write the header and the body of a message after the type and channel of the header frame.

    before_body: the end octet of the header frame, and the type and channel of the body frame.
    """
    size = len(body)
    write_i32_be(writer, len(properties) + _HEADER_FIXED_BYTES)
    writer.write(_CLASS_AND_WEIGHT)
    write_i64_be(writer, size)
    writer.write(properties)
    if size:
        writer.write(before_body)
        write_i32_be(writer, size)
        writer.write(body)
    writer.append(FRAME_END)


class DeliveryFrames:
    """The common part of one consumer's deliveries while the address stays the same."""

    __slots__ = ("_after_flag", "_before_body", "_before_tag")

    def __init__(self, channel: int, consumer_tag: bytes, address: bytes) -> None:
        """consumer_tag, address: as in `deliver_prefix`."""
        number = channel.to_bytes(2, "big")
        self._before_tag = deliver_prefix(channel, consumer_tag, address)
        self._after_flag = b"%b\xce\x02%b" % (address, number)
        self._before_body = b"\xce\x03%b" % number

    def write(
        self, writer: BytesWriter, tag: i64, redelivered: bool, properties: bytes, body: bytes
    ) -> None:
        """Write a delivery. The body must fit into one frame."""
        writer.write(self._before_tag)
        write_i64_be(writer, tag)
        writer.append(redelivered)
        writer.write(self._after_flag)
        write_content(writer, self._before_body, properties, body)


def header_frame(channel: int, properties: bytes, body_bytes: int) -> bytes:
    """A content header frame. As in RabbitMQ it is never split, even above frame_max."""
    size = _HEADER_FIXED_BYTES + len(properties)
    start = _HEADER_START.pack(HEADER, channel, size, CLASS_BASIC, 0, body_bytes)
    return start + properties + FRAME_END_BYTE


def body_frames(channel: int, body: bytes, frame_bytes_max: int) -> list[Piece]:
    """The body in as few frames as frame_max allows; none for an empty body.

    A large body is not copied: to copy 100 MB takes 25 ms.
    """
    if not body:
        return []
    room = frame_bytes_max - FRAME_OVERHEAD_BYTES if frame_bytes_max else len(body)
    whole: Piece = memoryview(body) if len(body) >= LARGE_BODY_BYTES else body
    parts: list[Piece] = []
    for start in range(0, len(body), room):
        piece = whole[start : start + room]
        parts += (_FRAME_START.pack(BODY, channel, len(piece)), piece, FRAME_END_BYTE)
    return parts


def content_frames(
    channel: int, method_payload: bytes, properties: bytes, body: bytes, frame_bytes_max: int
) -> list[Piece]:
    """All frames of a method with content."""
    method = _FRAME_START.pack(METHOD, channel, len(method_payload)) + method_payload
    header = header_frame(channel, properties, len(body))
    return [method, FRAME_END_BYTE, header, *body_frames(channel, body, frame_bytes_max)]


def encode_address(exchange: str, routing_key: str) -> bytes:
    """Exchange and routing key as encoded short strings."""
    return encode_short_string(exchange) + encode_short_string(routing_key)

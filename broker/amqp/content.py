"""Encoding content: the frames of basic.deliver, basic.get-ok and basic.return.

A delivery is a method frame, a header frame and body frames. Only the delivery tag, the redelivered
flag and the body differ from one delivery of equal messages to the next. So a consumer keeps the
bytes between them (`deliver_prefix`, `deliver_suffix`), and encodes them again only when the
address, the properties or the body size change.
"""

import struct

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
_pack_suffix = struct.Struct(">BBHIHHQ").pack
_pack_body = struct.Struct(">BBHI").pack
"""The starts of a header and of a body frame, each after the end octet of the frame before."""
_HEADER_FIXED_BYTES = 12
"""Class, weight and body size in a content header."""
_BASIC_DELIVER = 60
_DELIVER_FIXED_BYTES = 13
"""Class, method, delivery tag and redelivered flag of a basic.deliver."""

Piece = bytes | memoryview
"""A part of a connection's output."""
LARGE_BODY_BYTES = 1024 * 1024
"""A body of this size is not copied to be sent."""

pack_tag = struct.Struct(">Q?").pack
"""Delivery tag and redelivered flag."""


def deliver_prefix(channel: int, consumer_tag: bytes, address: bytes) -> bytes:
    """The start of a basic.deliver frame, up to its delivery tag.

    consumer_tag, address: encoded short strings; the address is the exchange followed by the
        routing key.
    """
    size = _DELIVER_FIXED_BYTES + len(consumer_tag) + len(address)
    return _DELIVER_START.pack(METHOD, channel, size, CLASS_BASIC, _BASIC_DELIVER) + consumer_tag


def deliver_suffix(channel: int, address: bytes, properties: bytes, body_bytes: int) -> bytes:
    """The bytes between the redelivered flag and the body, for a body that fits in one frame."""
    size = _HEADER_FIXED_BYTES + len(properties)
    start = _pack_suffix(FRAME_END, HEADER, channel, size, CLASS_BASIC, 0, body_bytes)
    if not body_bytes:
        return address + start + properties
    return b"".join((address, start, properties, _pack_body(FRAME_END, BODY, channel, body_bytes)))


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

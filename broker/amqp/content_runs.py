"""The frames of basic.get-ok and of basic.return, whose messages are sent without a consumer.

Messages that are returned together share the method's frame. They are appended to one buffer, which
is one piece of the output; a body that is large, or does not fit into one frame, has pieces of its
own.
"""

import struct

from librt.strings import BytesWriter

from leveret.broker.amqp.content import COPIED_BYTES_MAX, Piece, content_frames, write_content
from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.amqp.frames import (
    CLASS_BASIC,
    FRAME_OVERHEAD_BYTES,
    METHOD,
    encode_frame,
)

_RETURN, _GET_OK = 50, 71
_pack_return = struct.Struct(">HHH").pack
_pack_get_ok = struct.Struct(">HHQ?").pack
_pack_count = struct.Struct(">I").pack


def get_ok(tag: int, redelivered: bool, address: bytes, ready_count: int) -> bytes:
    """A basic.get-ok. address: exchange and routing key as short strings."""
    return _pack_get_ok(CLASS_BASIC, _GET_OK, tag, redelivered) + address + _pack_count(ready_count)


def returned(code: int, text: str, address: bytes) -> bytes:
    """A basic.return. address: exchange and routing key as short strings."""
    return _pack_return(CLASS_BASIC, _RETURN, code) + encode_short_string(text) + address


def content_run(
    channel: int, method: bytes, contents: list[tuple[bytes, bytes]], frame_bytes_max: int
) -> list[Piece]:
    """The frames of messages that are sent with equal methods.

    method: encoded. contents: properties and body of each. frame_bytes_max: 0 for no limit.
    """
    number = channel.to_bytes(2, "big")
    before_size = encode_frame(METHOD, channel, method) + b"\x02" + number
    before_body = b"\xce\x03" + number
    body_bytes_max = COPIED_BYTES_MAX
    if frame_bytes_max:
        body_bytes_max = min(body_bytes_max, frame_bytes_max - FRAME_OVERHEAD_BYTES)
    pieces: list[Piece] = []
    writer = BytesWriter()
    for properties, body in contents:
        if len(body) > body_bytes_max:
            if len(writer):
                pieces.append(writer.getvalue())
                writer.truncate(0)
            pieces += content_frames(channel, method, properties, body, frame_bytes_max)
            continue
        writer.write(before_size)
        write_content(writer, before_body, properties, body)
    if len(writer):
        pieces.append(writer.getvalue())
    return pieces

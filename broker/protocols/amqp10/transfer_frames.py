"""The transfers of one message as frames: one, or several for a large message. Pure."""

from struct import Struct
from typing import Final

SERIAL: Final = 1 << 32
"""Counters of links and sessions have 32 bits; 0 follows the highest number (RFC 1982)."""
FRAME_HEADER_BYTES: Final = 8
_FRAME: Final = Struct(">IBBH")
_UINT: Final = Struct(">I")


def forward(count: int, other: int) -> int:
    """The distance of a counter from another one; negative if it is behind."""
    difference = (count - other) % SERIAL
    return difference - SERIAL if difference >= SERIAL // 2 else difference


def credit_left(seen: int, credit: int, delivery_count: int) -> int:
    """The rest of the credit that a client gave when it had seen this many deliveries."""
    return max(0, credit - forward(delivery_count, seen))


def transfer_frames(
    channel: int,
    frame_bytes_max: int,
    handle: int,
    delivery_id: int,
    delivery_tag: bytes,
    is_settled: bool,
    payload: bytes,
) -> list[bytes]:
    """The frames of one message. frame_bytes_max: the client's. delivery_tag: up to 32 bytes."""
    encoded_handle = encode_uint(handle)
    fields = (
        encoded_handle + b"\x70" + _UINT.pack(delivery_id)
        + bytes((0xA0, len(delivery_tag))) + delivery_tag + b"\x43"
        + (b"\x41" if is_settled else b"\x42")
    )  # fmt: skip
    whole = _transfer(5, fields)
    if FRAME_HEADER_BYTES + len(whole) + len(payload) <= frame_bytes_max:
        return [_frame(channel, whole, payload)]
    frames: list[bytes] = []
    begin = _transfer(6, fields + b"\x41")
    more = _transfer(6, encoded_handle + b"\x40\x40\x40\x40\x41")
    last = _transfer(1, encoded_handle)
    room = frame_bytes_max - FRAME_HEADER_BYTES
    at = 0
    while at < len(payload):
        head = more if frames else begin
        size = room - len(head)
        if frames and len(payload) - at <= room - len(last):
            head, size = last, len(payload) - at
        frames.append(_frame(channel, head, payload[at : at + size]))
        at += size
    return frames


def _frame(channel: int, head: bytes, payload: bytes) -> bytes:
    size = FRAME_HEADER_BYTES + len(head) + len(payload)
    return _FRAME.pack(size, 2, 0, channel) + head + payload


def _transfer(count: int, fields: bytes) -> bytes:
    """A transfer with these encoded fields; they are few."""
    return b"\x00\x53\x14\xc0" + bytes((len(fields) + 1, count)) + fields


def encode_uint(number: int) -> bytes:
    """A number of at most 32 bits."""
    if number == 0:
        return b"\x43"
    return bytes((0x52, number)) if number < 256 else b"\x70" + _UINT.pack(number)

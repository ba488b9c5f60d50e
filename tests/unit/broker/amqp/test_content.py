"""Encoding of deliveries into frames."""

import pytest
from librt.strings import BytesWriter

from leveret.broker.amqp.content import (
    LARGE_BODY_BYTES,
    DeliveryFrames,
    body_frames,
    content_frames,
    encode_address,
    header_frame,
)
from leveret.broker.amqp.frames import BODY, HEADER, METHOD, FrameScanner, FrameSink, encode_frame
from leveret.broker.amqp.methods import decode_method


class Frames(FrameSink):
    """A sink that stores frames."""

    def __init__(self):
        self.stored = []

    def on_frame(self, kind, channel, payload):
        self.stored.append((kind, channel, payload))


def scanned(data):
    """Return the frames in these bytes, which must contain nothing else."""
    sink = Frames()
    scanner = FrameScanner(sink, 0)
    scanner.add(data)
    scanner.scan()
    assert sum(8 + len(payload) for _, _, payload in sink.stored) == len(data)
    return sink.stored


@pytest.mark.parametrize("body", [b"", b"x", b"hello" * 100])
def test_a_delivery_is_three_frames(body):
    address = encode_address("logs", "error.disk")
    properties = b"\x10\x00\x02"
    writer = BytesWriter()
    DeliveryFrames(7, b"\3tag", address).write(writer, 12345, True, properties, body)
    delivery = writer.getvalue()
    (kind, channel, payload), *content = scanned(delivery)
    method = decode_method(payload)
    assert (kind, channel) == (METHOD, 7)
    assert (method.consumer_tag, method.delivery_tag, method.redelivered) == ("tag", 12345, True)
    assert (method.exchange, method.routing_key) == ("logs", "error.disk")
    header = b"\0\x3c\0\0" + len(body).to_bytes(8, "big") + properties
    bodies = [(BODY, 7, body)] if body else []
    assert content == [(HEADER, 7, header), *bodies]


def test_a_header_frame_is_never_split():
    properties = b"\x80\x00\x05" + b"a" * 5
    assert header_frame(1, properties, 9) == encode_frame(
        HEADER, 1, b"\0\x3c\0\0" + (9).to_bytes(8, "big") + properties
    )


@pytest.mark.parametrize(
    ("body_bytes", "frame_bytes_max", "sizes"),
    [
        (0, 4096, []),
        (0, 0, []),
        (1, 4096, [1]),
        (4088, 4096, [4088]),
        (4089, 4096, [4088, 1]),
        (3 * 4088, 4096, [4088, 4088, 4088]),
        (100_000, 0, [100_000]),
    ],
)
def test_a_body_goes_into_as_few_frames_as_frame_max_allows(body_bytes, frame_bytes_max, sizes):
    body = bytes(number % 251 for number in range(body_bytes))
    frames = scanned(b"".join(body_frames(3, body, frame_bytes_max)))
    assert [len(payload) for _, _, payload in frames] == sizes
    assert b"".join(payload for _, _, payload in frames) == body
    assert all((kind, channel) == (BODY, 3) for kind, channel, _ in frames)


def test_a_large_body_is_not_copied():
    body = bytes(LARGE_BODY_BYTES)
    frames = body_frames(1, body, 131072)
    assert all(piece.obj is body for piece in frames[1::3])
    assert b"".join(payload for _, _, payload in scanned(b"".join(frames))) == body


def test_a_method_with_content():
    payload = b"\0\x3c\0\x32\x01\x38\0\0\0"
    frames = scanned(b"".join(content_frames(2, payload, b"\0\0", b"ab", 4096)))
    assert frames == [
        (METHOD, 2, payload),
        (HEADER, 2, b"\0\x3c\0\0" + (2).to_bytes(8, "big") + b"\0\0"),
        (BODY, 2, b"ab"),
    ]


def test_an_address_is_two_short_strings():
    assert encode_address("", "key") == b"\0\3key"
    assert encode_address("é", "\udcff") == b"\2\xc3\xa9\1\xff"

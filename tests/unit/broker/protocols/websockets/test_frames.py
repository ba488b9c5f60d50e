"""WebSocket frames of a client in any pieces, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.broker.protocols.websockets.deflating import INFLATED_BYTES_MAX, deflate
from leveret.broker.protocols.websockets.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    TEXT,
    ClientFrames,
    FrameRefused,
    close_frame,
    frame_head,
)
from leveret.broker.protocols.websockets.masks import unmasked, unmasked_as_number
from tests.protocol.web_socket_peer import deflated_frame, masked_frame

MASK = b"\x01\x80\xff\x10"
SENT = (
    masked_frame(BINARY, b"first ", is_final=False)
    + masked_frame(PING, b"are you there")
    + masked_frame(CONTINUATION, b"second")
    + masked_frame(BINARY, b"")
    + masked_frame(TEXT, 300 * b"x")
    + masked_frame(BINARY, 70_000 * b"y")
)
RECEIVED = b"first second" + 300 * b"x" + 70_000 * b"y"


def receive(data, *, size=None, **options):
    frames = ClientFrames(options.get("frame_bytes_max"), options.get("has_binary_only", False))
    frames.inflates = options.get("inflates", False)
    size = size or len(data)
    payload, control = b"", []
    for at in range(0, len(data), size):
        payload += frames.add(data[at : at + size])
        control += frames.take_control()
    return payload, control


@pytest.mark.parametrize("size", [None, 1, 2, 3, 5, 8, 1000])
def test_payload_passes_as_it_comes(size):
    assert receive(SENT, size=size) == (RECEIVED, [(PING, b"are you there")])


def test_the_rest_of_a_large_frame_is_not_kept():
    frames = ClientFrames(None, False)
    large = masked_frame(BINARY, 1_000_000 * b"z")
    assert frames.add(large[:500_000]) == (500_000 - 14) * b"z"
    assert frames.add(large[500_000:]) == (500_000 + 14) * b"z"


@given(st.binary(max_size=40))
def test_masks(data):
    plain = bytes(byte ^ MASK[place % 4] for place, byte in enumerate(data))
    assert unmasked(data, MASK) == unmasked_as_number(data, MASK) == plain


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x82\x01x", 1002),
        (b"\xc2\x80" + MASK, 1002),
        (b"\x83\x80" + MASK, 1002),
        (b"\x80\x80" + MASK, 1002),
        (masked_frame(BINARY, b"", is_final=False) + masked_frame(BINARY, b""), 1002),
        (masked_frame(PING, b"", is_final=False), 1002),
        (masked_frame(PING, 126 * b"x"), 1002),
        (b"\x8b\x80" + MASK, 1002),
        (b"\x82\xff" + (1 << 40).to_bytes(8, "big") + MASK, 1009),
        (masked_frame(BINARY, 1001 * b"x"), 1009),
        (masked_frame(TEXT, b"x"), 1003),
    ],
)
def test_refused(data, code):
    for size in (None, 1):
        with pytest.raises(FrameRefused) as refused:
            receive(data, size=size, frame_bytes_max=1000, has_binary_only=code == 1003)
        assert refused.value.code == code


def test_frames_of_the_server():
    assert frame_head(TEXT, 5) == b"\x81\x05"
    assert frame_head(BINARY, 126) == b"\x82\x7e\x00\x7e"
    assert frame_head(BINARY, 1 << 16) == b"\x82\x7f" + (1 << 16).to_bytes(8, "big")
    assert close_frame(1000, "bye") == bytes([0x80 | CLOSE, 5]) + b"\x03\xe8bye"


class TestCompressedMessages:
    PLAIN = b"".join(b"line %d\n" % number for number in range(1000))

    def sent(self):
        deflated = deflate(self.PLAIN)
        half = len(deflated) // 2
        return (
            deflated_frame(TEXT, deflated[:half], is_final=False)
            + masked_frame(PING, b"p")
            + masked_frame(CONTINUATION, deflated[half:])
            + masked_frame(BINARY, b" plain ")
            + deflated_frame(BINARY, deflated, is_final=False)
            + masked_frame(CONTINUATION, b"")
        )

    @pytest.mark.parametrize("size", [None, 1, 7, 1000])
    def test_they_are_inflated_as_they_come(self, size):
        payload, control = receive(self.sent(), size=size, inflates=True)
        assert payload == self.PLAIN + b" plain " + self.PLAIN
        assert control == [(PING, b"p")]

    def test_they_are_refused_unless_agreed(self):
        with pytest.raises(FrameRefused) as refused:
            receive(deflated_frame(TEXT, deflate(b"x")))
        assert refused.value.code == 1002

    @pytest.mark.parametrize("frame", [
        deflated_frame(CONTINUATION, b"x"), deflated_frame(PING, b""),
    ])  # fmt: skip
    def test_only_the_first_frame_of_a_message_has_the_mark(self, frame):
        with pytest.raises(FrameRefused) as refused:
            receive(masked_frame(TEXT, b"a", is_final=False) + frame, inflates=True)
        assert refused.value.code == 1002

    def test_bytes_that_cannot_be_inflated(self):
        with pytest.raises(FrameRefused) as refused:
            receive(deflated_frame(TEXT, b"\xff" * 20), inflates=True)
        assert refused.value.code == 1007

    @pytest.mark.parametrize("count", [1, 20])
    def test_what_one_read_inflates_to_is_limited(self, count):
        bomb = deflate(bytes(1 + INFLATED_BYTES_MAX // count))
        with pytest.raises(FrameRefused) as refused:
            receive(count * deflated_frame(BINARY, bomb), inflates=True)
        assert refused.value.code == 1009

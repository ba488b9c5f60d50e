"""Bytes as frames, in whatever pieces they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.broker.protocols.amqp10.frame_input import FrameError, FrameInput
from leveret.broker.protocols.amqp10.performatives import frame

FRAMES = [(0, b""), (1, b"body"), (65535, b"x" * 300)]


def taken(frames):
    found = []
    while frames.take():
        found.append((frames.channel, frames.data[frames.begin : frames.end]))
    return found


@given(st.lists(st.integers(1, 50)))
def test_frames_in_pieces(sizes):
    data = b"".join(frame(channel, body) for channel, body in FRAMES)
    frames, found = FrameInput(1000), []
    for size in [*sizes, len(data)]:
        frames.add(data[:size])
        data = data[size:]
        found += taken(frames)
    assert found == FRAMES
    assert not frames.waiting_bytes


def test_a_body_may_begin_later():
    frames = FrameInput(1000)
    frames.add(b"\0\0\0\x10\x03\x00\0\x05more" + b"body")
    assert taken(frames) == [(5, b"body")]


def test_protocol_headers():
    frames = FrameInput(1000)
    frames.add(b"AMQP")
    assert frames.take_protocol_header() is None
    frames.add(b"\0\1\0\0" + frame(0, b"x"))
    assert frames.take_protocol_header() == b"AMQP\0\1\0\0"
    assert taken(frames) == [(0, b"x")]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            b"\0\0\x03\xe9\x02\0\0\0",
            r"frame size \(1001 bytes\) > maximum frame size \(1000 bytes\)",
        ),
        (b"\0\0\0\x07\x02\0\0\0", "a frame of 7 bytes cannot begin at 8"),
        (b"\0\0\0\x08\x01\0\0\0", "a frame of 8 bytes cannot begin at 4"),
        (b"\0\0\0\x08\x03\0\0\0", "a frame of 8 bytes cannot begin at 12"),
    ],
)
def test_other_bytes_are_refused_before_they_are_kept(data, problem):
    frames = FrameInput(1000)
    frames.add(data)
    with pytest.raises(FrameError, match=problem):
        frames.take()

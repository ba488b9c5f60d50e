"""Frames of the bytes that are read."""

import pytest

from leveret.broker.protocols.stream.frame_input import FrameInput, FrameTooLarge


def framed(body):
    return len(body).to_bytes(4, "big") + body


def all_of(frames):
    found = []
    while frames.take():
        found.append(frames.frame)
    return found


def taken(frames):
    return frames.frame if frames.take() else None


BODIES = [b"first", b"", b"the third one", b"x" * 100]
DATA = b"".join(map(framed, BODIES))


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 5, 7, 64, len(DATA)])
def test_frames_come_in_any_pieces(piece_bytes):
    frames, found = FrameInput(100), []
    for at in range(0, len(DATA), piece_bytes):
        frames.add(DATA[at : at + piece_bytes])
        found += all_of(frames)
    assert found == BODIES
    assert frames.waiting_bytes == 0


def test_a_frame_that_is_not_complete_waits():
    frames = FrameInput(100)
    frames.add(DATA[:6])
    assert taken(frames) is None
    assert frames.waiting_bytes == 6
    frames.add(DATA[6:])
    assert taken(frames) == BODIES[0]
    assert frames.waiting_bytes == len(DATA) - 9


def test_the_limit_is_that_of_the_time_when_a_frame_is_taken():
    frames = FrameInput(5)
    frames.add(DATA)
    assert [taken(frames), taken(frames)] == BODIES[:2]
    with pytest.raises(FrameTooLarge, match="13 bytes"):
        frames.take()
    frames.frame_bytes_max = 13
    assert taken(frames) == BODIES[2]


def test_a_size_above_the_limit_is_refused_before_its_bytes_come():
    frames = FrameInput(1000)
    frames.add(b"\xff\xff\xff\xff")
    with pytest.raises(FrameTooLarge, match="4294967295 bytes"):
        frames.take()


def test_nothing_is_left_after_clear():
    frames = FrameInput(100)
    frames.add(DATA[:30])
    frames.add(DATA[30:])
    frames.clear()
    assert taken(frames) is None
    frames.add(framed(b"new"))
    assert all_of(frames) == [b"new"]

"""Frames come out as they went in, however the bytes are cut, and damage is found."""

import random

import pytest

from leveret.cluster.links.frames import (
    FRAME_OCTETS_MAX,
    HEADER,
    FrameCutter,
    LinkFrameError,
    header_of,
)


def in_pieces(data, chance):
    """The data in pieces of random sizes: single bytes, and larger ones."""
    while data:
        size = chance.choice([1, 2, 3, 7, 100, 5000])
        yield data[:size]
        data = data[size:]


@pytest.mark.parametrize("seed", range(50))
def test_frames_are_cut_as_they_were_joined(seed):
    chance = random.Random(seed)
    frames = [
        (chance.randrange(256), chance.randbytes(chance.choice([0, 1, 4, 5, 300, 20_000])))
        for _ in range(20)
    ]
    stream = b"".join(header_of(service, len(payload)) + payload for service, payload in frames)
    cutter = FrameCutter()
    cut = [frame for piece in in_pieces(stream, chance) for frame in cutter.cut(piece)]
    assert cut == frames
    assert cutter.held_octets == 0


@pytest.mark.parametrize("length", [0, 101, 2**31, 2**32 - 1])
def test_a_damaged_length_is_found_as_soon_as_the_header_is_there(length):
    cutter = FrameCutter(100)
    header = HEADER.pack(length, 1)
    assert cutter.cut(header[:4]) == []
    with pytest.raises(LinkFrameError, match=f"length of a frame is {length}, at most 100"):
        cutter.cut(header[4:])


def test_a_frame_of_the_largest_size_is_valid():
    cutter = FrameCutter(100)
    assert cutter.cut(HEADER.pack(100, 7) + b"x" * 99) == [(7, b"x" * 99)]


def test_a_frame_that_is_cut_off_is_not_delivered():
    cutter = FrameCutter()
    assert cutter.cut(header_of(1, 10) + b"123456789") == []
    assert cutter.held_octets == 9


def test_a_large_frame_in_many_pieces_is_not_joined_again_and_again():
    """What has arrived is joined once, when the frame is complete."""
    cutter = FrameCutter()
    assert cutter.cut(header_of(1, 100_000)) == []
    for _ in range(999):
        assert cutter.cut(b"x" * 100) == []
    assert cutter.cut(b"x" * 100) == [(1, b"x" * 100_000)]


def test_random_bytes_are_frames_or_an_error():
    for seed in range(300):
        chance = random.Random(seed)
        cutter = FrameCutter(1000)
        try:
            for piece in in_pieces(chance.randbytes(2000), chance):
                assert all(len(payload) < 1000 for _, payload in cutter.cut(piece))
                assert cutter.held_octets <= 1005
        except LinkFrameError:
            continue


def test_a_payload_that_is_too_large_has_no_header():
    with pytest.raises(ValueError, match="send it in parts"):
        header_of(1, FRAME_OCTETS_MAX)

"""What nodes send each other about groups, as bytes; bytes that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.cluster.groups.group_frames import (
    Body,
    ClientCommands,
    Find,
    GroupFrameError,
    RaftItem,
    Told,
    encode_item,
    encode_raft,
    item_in_pieces,
    items_of,
)
from leveret.cluster.raft.messages import LARGE_BYTES

ITEMS = [Find(7), Told(7, 2, b"effects", {9: b"entry"}), Body(7, 1, 9, 2, 0, b"payload")]


def test_items_of_one_frame_come_in_their_order():
    frame = b"".join(
        [
            encode_item(ITEMS[0]),
            encode_raft("a@x", "b@x/2", b"message"),
            *map(encode_item, ITEMS[1:]),
        ]
    )
    found = list(items_of(frame))
    assert found == [ITEMS[0], RaftItem("a@x", "b@x/2", b"message"), *ITEMS[1:]]


@pytest.mark.parametrize(
    "item",
    [
        Body(7, 1, 9, 2, 0, bytes(LARGE_BYTES)),
        ClientCommands(7, 1, [b"ack", bytes(LARGE_BYTES), b"", bytes(70_000)]),
    ],
)
def test_large_payloads_are_sent_as_they_are(item):
    pieces = item_in_pieces(item)
    payloads = [item.payload] if isinstance(item, Body) else item.commands
    for payload in payloads:
        assert any(piece is payload for piece in pieces)
    assert list(items_of(b"".join(pieces))) == [item]


def test_a_frame_without_items_is_a_sign_of_life():
    assert list(items_of(b"")) == []


@given(st.binary(max_size=60))
def test_other_bytes_are_refused(data):
    try:
        list(items_of(data))
    except GroupFrameError:
        return


@pytest.mark.parametrize("end", range(1, 40))
def test_a_frame_that_is_cut_off_is_refused(end):
    frame = encode_raft("a@x", "b@x", b"message") + encode_item(ITEMS[1])
    whole = {len(encode_raft("a@x", "b@x", b"message")), len(frame)}
    if end in whole:
        return
    with pytest.raises(GroupFrameError):
        list(items_of(frame[:end]))

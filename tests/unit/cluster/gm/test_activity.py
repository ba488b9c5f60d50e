"""The messages of a ring: what is written is read, and other bytes are refused."""

import random

import pytest

from leveret.cluster.gm.activity import (
    ACTIVITY,
    CATCH_UP,
    COPIED_BYTES_MAX,
    JOIN,
    MessageHead,
    MessageWriter,
    read_head,
    read_join,
    read_progress,
    write_join,
)

HEAD = MessageHead(ACTIVITY, (1 << 62) + 1, 12, 3, 4)
LARGE = b"x" * (COPIED_BYTES_MAX + 1)


def written(*progress, head=HEAD):
    writer = MessageWriter(head)
    for place_id, acknowledged, delivered, payloads in progress:
        writer.add(place_id, acknowledged, delivered, payloads)
    return writer.end()


def read(message):
    return [
        (one.place_id, one.acknowledged, one.delivered, one.payloads)
        for one in read_progress(message)
    ]


def test_a_message_says_how_far_several_senders_are():
    progress = [(3, 10, 13, [b"a", b"", b"ccc"]), (5, 7, 7, []), (1, 0, 1, [LARGE]), (2, 0, 9, [])]
    assert read(b"".join(written(*progress))) == progress


def test_a_message_begins_with_its_kind_its_group_and_where_it_goes():
    head = read_head(b"".join(written(head=MessageHead(CATCH_UP, 7, 12, 3, 4))))
    assert (head.kind, head.identity, head.version, head.origin, head.target) == (
        CATCH_UP, 7, 12, 3, 4,
    )  # fmt: skip


def test_the_writer_knows_the_size_of_the_message():
    writer = MessageWriter(HEAD)
    writer.add(3, 10, 12, [b"ab", LARGE])
    assert writer.size == len(b"".join(writer.end()))


def test_a_large_payload_is_not_copied():
    pieces = written((3, 0, 2, [LARGE, b"small"]))
    assert any(piece is LARGE for piece in pieces)


def test_a_small_message_is_one_piece():
    assert len(written((3, 0, 2, [b"a", b"b"]), (4, 1, 1, []))) == 1


def test_a_request_names_the_new_member():
    message = b"".join(write_join(MessageHead(JOIN, 7, 12, 0, 4), 1_700_000_000_000_000, 3))
    assert read_head(message).kind == JOIN
    assert read_join(message) == (1_700_000_000_000_000, 3)


MESSAGE = b"".join(written((3, 10, 13, [b"a", b"bb", b"ccc"]), (5, 7, 7, [])))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "0 bytes are too few"),
        (b"\x00" * 40, "of the unknown kind 0"),
        (b"\x06" * 40, "of the unknown kind 6"),
    ],
)
def test_an_invalid_message_is_refused(message, reason):
    with pytest.raises(ValueError, match=reason):
        read_head(message)


END_OF_THE_FIRST = len(MESSAGE) - 28
"""Here the message has its first sender, and lacks the second one."""


@pytest.mark.parametrize("end", sorted({*range(34, len(MESSAGE))} - {END_OF_THE_FIRST}))
def test_a_message_that_ends_too_early_is_refused(end):
    with pytest.raises(ValueError, match="message of a ring"):
        read_progress(MESSAGE[:end])


def test_a_message_may_end_after_any_sender():
    assert read(MESSAGE[:END_OF_THE_FIRST]) == [(3, 10, 13, [b"a", b"bb", b"ccc"])]


@pytest.mark.parametrize("progress", [(3, 5, 4, []), (3, -1, 4, []), (3, 0, 1, [b"a", b"b"])])
def test_numbers_that_contradict_each_other_are_refused(progress):
    with pytest.raises(ValueError):
        read_progress(b"".join(written(progress)))


def test_a_request_of_another_size_is_refused():
    with pytest.raises(ValueError, match="a request to be added to a ring cannot have"):
        read_join(MESSAGE)


def test_damaged_messages_are_read_or_refused_and_nothing_else():
    chance = random.Random(1)
    for _ in range(2000):
        damaged = bytearray(MESSAGE)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            read_head(bytes(damaged))
            read_progress(bytes(damaged))
        except ValueError:
            continue

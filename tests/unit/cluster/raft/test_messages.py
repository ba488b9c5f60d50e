"""Messages as bytes: what is read is what was written, and damage is one error."""

from random import Random

import pytest

from leveret.cluster.raft.configuration import Configuration
from leveret.cluster.raft.entry_log import Stored, StoredRun
from leveret.cluster.raft.messages import (
    LARGE_BYTES,
    VERSION,
    Acknowledgement,
    AskVote,
    Entries,
    MessageError,
    Mismatch,
    NotLeading,
    Removed,
    TakeLead,
    Vote,
    VoteAnswer,
    decode_message,
    encode_fields,
    encode_message,
)
from leveret.cluster.raft.outputs import CONFIGURATION, DATA
from leveret.cluster.raft.raft_member import RaftMember

MESSAGES = [
    Entries(5, 2, 7, 1, 6, 2, 0, [b"one", b"", b"x" * 70_000]),
    Acknowledgement(5, 2, 9),
    Mismatch(5, 2, 7, 4, 1),
    AskVote(5, 3, True, 9, 2, 4),
    Vote(5, 3, False, VoteAnswer.REMOVED),
    TakeLead(5, 3),
    NotLeading(5, 3),
    Removed(5, 3, 8),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: type(one).__name__)
def test_a_message_is_read_as_it_was_written(message):
    assert decode_message(encode_message(message)) == message


def test_large_entries_are_sent_as_they_are():
    large, larger = bytes(LARGE_BYTES), bytes(70_000)
    for payloads in ([large], [b"one", large, b"", larger], [b"x"] * 20 + [large]):
        message = Entries(5, 2, 7, 1, 6, 2, 0, payloads)
        pieces = encode_fields(message)
        assert [piece for piece in pieces if piece is large] == [large] * payloads.count(large)
    message = Entries(5, 2, 7, 1, 6, 2, 0, [b"one", large, b"", larger])
    assert decode_message(VERSION + b"".join(encode_fields(message))) == message


@pytest.mark.parametrize("message", MESSAGES[1:], ids=lambda one: type(one).__name__)
def test_a_truncated_message_is_refused(message):
    data = encode_message(message)
    for end in range(len(data)):
        with pytest.raises(MessageError):
            decode_message(data[:end])


def test_another_version_is_refused_by_name():
    with pytest.raises(MessageError, match="begins with 02; this version reads 01"):
        decode_message(b"\x02" + encode_message(MESSAGES[1])[1:])


@pytest.mark.parametrize("index", [-1, 1 << 62, 1 << 63])
def test_numbers_out_of_range_are_refused(index):
    with pytest.raises(MessageError):
        decode_message(encode_message(Acknowledgement(5, 2, index)))


def test_a_kind_that_the_log_has_no_room_for_is_refused():
    assert decode_message(encode_message(Entries(5, 2, 7, 1, 6, 2, 255, []))).kind == 255
    with pytest.raises(MessageError):
        decode_message(encode_message(Entries(5, 2, 7, 1, 6, 2, 256, [])))


def test_any_bytes_are_a_message_or_an_error():
    random = Random(1)
    for _ in range(2_000):
        data = bytearray(encode_message(random.choice(MESSAGES[1:])))
        for _ in range(random.randint(1, 3)):
            data[random.randrange(len(data))] = random.randrange(256)
        try:
            decode_message(bytes(data))
        except MessageError:
            continue


@pytest.mark.parametrize(
    "entries",
    [
        Entries(5, 2, 0, 0, 0, 3, DATA, [b"of a term to come"]),
        Entries(5, 2, 0, 2, 0, 1, DATA, [b"of a term before the previous entry's"]),
        Entries(5, 2, 0, 0, 0, 2, CONFIGURATION, [b"no configuration"]),
    ],
    ids=["later", "earlier", "configuration"],
)
def test_entries_that_cannot_be_are_refused_and_change_nothing(entries):
    member = RaftMember(5, "b", Stored(Configuration(("a", "b"))), lambda: 0.5)
    member.link_up("a", 1)
    with pytest.raises(ValueError):
        member.received("a", entries, 2)
    assert (member.state.log.last_index, member.state.commit) == (0, 0)


def test_entries_of_an_earlier_term_than_the_committed_ones_before_them_are_refused():
    stored = Stored(Configuration(("a", "b")), 2, runs=(StoredRun(1, 3, 2, DATA, []),))
    member = RaftMember(5, "b", stored, lambda: 0.5)
    member.link_up("a", 1)
    member.received("a", Entries(5, 2, 3, 2, 3, 0, DATA, []), 2)
    with pytest.raises(MessageError, match="to follow one of term 2"):
        member.received("a", Entries(5, 2, 3, 0, 3, 1, DATA, [b"of term 1"]), 3)
    assert (member.state.log.last_index, member.state.commit) == (3, 3)

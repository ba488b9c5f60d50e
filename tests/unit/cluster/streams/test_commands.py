"""The commands of clients to a stream, and the tracking in chunks, as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.cluster.streams.machine.commands import (
    CommandError,
    Join,
    Publish,
    StoreOffset,
    decode_command,
    encode_command,
)
from leveret.cluster.streams.machine.entry_counts import check_publish, count_messages
from leveret.cluster.streams.machine.tracking import (
    OFFSET,
    SENDER,
    SEQUENCE,
    TrackingError,
    TrackingRecord,
    decode_records,
    encode_records,
    sender_id,
    sender_of,
)

ENTRIES = b"\0\0\0\1a\0\0\0\1b"
COMMANDS = [
    Join(7, 1, "leveret@one"),
    Publish(7, 2, b"", (), (), 2, 2, (ENTRIES,)),
    Publish(7, 3, b"name", (4, 9), (b"x", b""), 2, 2, (ENTRIES,)),
    StoreOffset(7, 4, b"consumer", 2**63),
]
RECORDS = [
    TrackingRecord(SEQUENCE, b"name", 9), TrackingRecord(OFFSET, b"", 0),
    TrackingRecord(SENDER, sender_id(7), 2**64 - 1),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_what_was_encoded(command):
    assert decode_command(encode_command(command)) == command


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_cut_is_refused(command):
    for size in range(25):
        try:
            decode_command(encode_command(command)[:size])
        except CommandError:
            continue
        assert size >= 17, "only names and entries have no end of their own"


@given(st.binary(max_size=80))
def test_any_bytes_are_a_command_or_refused(data):
    try:
        decode_command(data)
    except CommandError:
        return


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (Publish(1, 1, b"n", (1,), (), 2, 2, ()), "2 entries has 2 messages and 1 sequence"),
        (Publish(1, 1, b"", (), (), 2, 1, ()), "2 entries has 1 messages"),
        (StoreOffset(1, 1, b"x" * 256, 0), "a name of 256 bytes"),
    ],
)
def test_commands_that_cannot_be(command, problem):
    with pytest.raises(CommandError, match=problem):
        decode_command(encode_command(command))


def test_records_are_what_was_encoded():
    assert list(decode_records(encode_records(RECORDS))) == RECORDS
    assert sender_of(RECORDS[2].name) == 7


def test_records_that_are_cut_are_refused():
    data = encode_records(RECORDS)
    whole = {len(encode_records(RECORDS[:count])) for count in range(4)}
    for size in set(range(len(data))) - whole:
        with pytest.raises(TrackingError):
            list(decode_records(data[:size]))
    with pytest.raises(TrackingError, match="an id of 3 bytes"):
        sender_of(b"abc")


BATCH = b"\x80\0\3\0\0\0\x09\0\0\0\2zz"
"""Three messages, compressed."""


@pytest.mark.parametrize(
    ("entries", "count", "messages"),
    [
        (ENTRIES, 2, 2),
        (ENTRIES, 1, -1),
        (ENTRIES, 3, -1),
        (ENTRIES[:-1], 2, -1),
        (ENTRIES + b"\0", 2, -1),
        (ENTRIES + BATCH, 3, 5),
        (BATCH[:-1], 1, -1),
        (BATCH[:5], 1, -1),
        (b"\x80\0\3\0\0\0\x09\xff\xff\xff\xf5", 1, -1),
        (b"", 0, 0),
        (b"", 1, -1),
    ],
)
def test_the_messages_of_entries_are_counted(entries, count, messages):
    assert count_messages(entries, count) == messages


@pytest.mark.parametrize(
    "publish",
    [
        Publish(7, 2, b"", (), (), 2, 3, (ENTRIES,)),
        Publish(7, 2, b"", (), (), 3, 3, (ENTRIES,)),
        Publish(7, 2, b"name", (5, 5), (), 2, 2, (ENTRIES,)),
        Publish(7, 2, b"name", (5, 4), (), 2, 2, (ENTRIES,)),
    ],
)
def test_a_publish_that_its_counts_do_not_describe_is_refused(publish):
    with pytest.raises(CommandError):
        check_publish(publish)


@given(st.binary(max_size=60), st.integers(0, 4))
def test_any_bytes_can_be_counted(entries, count):
    assert count_messages(entries, count) >= -1

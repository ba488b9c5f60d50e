"""Entries as bytes: what is read is what was written, and damage is one error."""

from contextlib import suppress
from random import Random

import pytest

from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    Cancel,
    Checkout,
    CommandError,
    Configure,
    DeadLetterStrategy,
    DelayedRetry,
    Discard,
    Enqueue,
    EnqueuedRun,
    Expire,
    Get,
    Join,
    Leave,
    LettersDone,
    Modify,
    NodeConnected,
    NodeDisconnected,
    NodeDown,
    Options,
    Purge,
    Return,
    Settle,
    Tick,
    decode_command,
    decode_entry,
    encode_command,
    enqueued_runs,
    entry_of,
    intervals_of,
    is_publish,
    message_count,
    runs_of,
)

RUNS = [EnqueuedRun(3, 1000, NO_LIMIT, 0), EnqueuedRun(1, 0, 0, 9)]
COMMANDS = [
    Join(7, 1, 0, "rabbit@one", 3),
    Enqueue(7, 2, 0, runs_of(RUNS)),
    Settle(7, 3, 2, 4, [1, 1, 5, 8]),
    Return(7, 4, 2, 4, [2, 3], is_failed=True),
    Return(7, 4, 2, 4, [2, 3], is_failed=False, is_unseen=True),
    Discard(7, 5, 2, 4, [4, 4]),
    Checkout(7, 6, 2, "a tag", 2000, -5, False, NO_LIMIT, b"details"),
    Cancel(7, 7, 2, 6, returns=True),
    Get(7, 8, 2, no_ack=False),
    Purge(7, 9, 2),
    Leave(7, 10, 2),
    Modify(7, 11, 2, 4, [1, 2], True, False, {"x-opt-a": b"\x40"}, 1_700_000_000_000),
    Configure(
        Options(10, 1000, True, 20, 60_000, 1, DeadLetterStrategy.AT_LEAST_ONCE, True, True, 32,
                True, False, DelayedRetry.FAILED, 10, 100, 1_800_000)
    ),
    Tick(),
    Expire(),
    NodeDown("rabbit@two", 5),
    NodeDisconnected("rabbit@two"),
    NodeConnected("rabbit@two"),
    LettersDone([1, 9]),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: type(one).__name__)
def test_a_command_is_read_as_it_was_written(command):
    data = encode_command(command)
    assert decode_command(data) == command
    assert is_publish(data) == isinstance(command, Enqueue)
    entry = decode_entry(entry_of(data, 1_700_000_000_000))
    assert (entry.now_ms, entry.command) == (1_700_000_000_000, command)


def test_messages_follow_a_publish_as_they_are():
    command = Enqueue(7, 2, 0, runs_of(RUNS))
    entry = entry_of(encode_command(command, b"the messages"), 5)
    assert enqueued_runs(decode_entry(entry).command) == RUNS
    assert entry[decode_entry(entry).messages_at :] == b"the messages"


def test_positions_are_intervals():
    assert intervals_of([]) == []
    assert intervals_of([4]) == [4, 4]
    assert intervals_of([1, 2, 3, 7, 9, 10]) == [1, 3, 7, 7, 9, 10]


@pytest.mark.parametrize("positions", [[], [1], [2, 1], [1, 3, 3, 4], [5, 5, 1, 1]])
def test_positions_that_are_no_intervals_are_refused(positions):
    with pytest.raises(CommandError, match="no intervals"):
        decode_command(encode_command(Settle(7, 3, 2, 4, positions)))


@pytest.mark.parametrize("runs", [[], [1, 2, 3], [0, 1, 0, 0], [1, 1, 0, 0, 0, 1, 0, 0]])
def test_a_publish_has_messages(runs):
    with pytest.raises(CommandError, match="without messages"):
        decode_command(encode_command(Enqueue(7, 2, 0, runs)))


def test_only_a_publish_has_messages():
    with pytest.raises(CommandError, match="a Purge for a quorum queue has 4 bytes after it"):
        decode_command(encode_command(Purge(7, 2, 0), b"body"))


def test_the_messages_of_an_entry_are_counted():
    entries = [entry_of(encode_command(Enqueue(7, 2, 0, runs_of(RUNS))), 5)]
    entries += [entry_of(encode_command(Tick()), 5), b"damaged"]
    assert [message_count(entry) for entry in entries] == [4, 0, 0]


def test_a_sender_joins_with_its_first_command():
    with pytest.raises(CommandError, match="joins with its command 2"):
        decode_command(encode_command(Join(7, 2, 0, "rabbit@one", 1)))


def test_an_entry_of_another_version_says_what_to_do():
    entry = b"\x02" + entry_of(encode_command(Tick()), 5)[1:]
    with pytest.raises(CommandError, match="is of version 2; this node reads 1: update it"):
        decode_entry(entry)


def test_every_cut_of_an_entry_is_one_error():
    for command in COMMANDS:
        entry = entry_of(encode_command(command), 5)
        for length in range(len(entry)):
            with pytest.raises(CommandError):
                decode_entry(entry[:length])


def test_damaged_entries_are_read_or_refused():
    random = Random(5)
    for command in COMMANDS * 20:
        entry = bytearray(entry_of(encode_command(command, b""), 5))
        for _ in range(random.randint(1, 3)):
            entry[random.randrange(len(entry))] = random.randrange(256)
        with suppress(CommandError):
            decode_entry(bytes(entry))

"""Duplicates in a quorum queue: not added, confirmed, and known after a snapshot."""

import pytest

from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    CommandError,
    EnqueuedRun,
    EnqueueOnce,
    Options,
    encode_command,
    entry_of,
    runs_of,
)
from leveret.cluster.quorum.machine.effects import Applied
from leveret.cluster.quorum.machine.figures import figures
from leveret.cluster.quorum.machine.snapshots import restore, snapshot
from tests.unit.cluster.quorum.machine.queue_by_hand import QueueByHand

ONCE = Options(cache_size=100)


def publish(client, *keys, ttl_ms=NO_LIMIT):
    runs = runs_of([EnqueuedRun(len(keys), 10, ttl_ms, 0)])
    client.do(EnqueueOnce, runs, [key.encode() for key in keys])


def test_a_message_is_added_once_until_it_is_settled():
    queue = QueueByHand(ONCE)
    one = queue.client()
    publish(one, "a", "b", "a")
    publish(one, "b")
    assert queue.of(Applied) or queue.effects, "the publish is confirmed"
    assert queue.counts == (2, 0)
    assert figures(queue.machine).duplicates == 2
    consumer = one.consume()
    assert queue.positions == [1, 2]
    publish(one, "a")
    one.settle(consumer, 1)
    publish(one, "a", "b")
    assert queue.positions == [3]
    assert figures(queue.machine).identifiers.entries == 2


def test_messages_without_an_identifier_are_all_added():
    queue = QueueByHand(ONCE)
    publish(queue.client(), "", "", "")
    assert queue.counts == (3, 0)


@pytest.mark.parametrize("leaves", ["rejected", "expired", "purged", "over the limit"])
def test_a_message_that_has_left_is_not_known(leaves):
    queue = QueueByHand(Options(cache_size=100, max_length=1))
    one = queue.client()
    publish(one, "a", ttl_ms=50)
    if leaves == "rejected":
        one.discard(one.consume(), 1)
    elif leaves == "expired":
        queue.pass_time(60)
    elif leaves == "purged":
        one.purge()
    else:
        publish(one, "b")
    publish(one, "a")
    assert figures(queue.machine).duplicates == 0


def test_a_returned_message_is_still_known():
    queue = QueueByHand(ONCE)
    one = queue.client()
    publish(one, "a")
    one.give_back(one.consume(), 1)
    publish(one, "a")
    assert figures(queue.machine).duplicates == 1


def test_a_refused_message_may_be_published_again():
    queue = QueueByHand(Options(cache_size=100, max_length=1, rejects_publishes=True))
    one = queue.client()
    publish(one, "a", "b", "c", "a")
    assert queue.results == [("REFUSED", (2, 2))]
    consumer = one.consume()
    one.settle(consumer, 1, 2)
    publish(one, "c")
    assert queue.positions == [3]


def test_identifiers_are_known_for_a_time_after_their_messages():
    queue = QueueByHand(Options(cache_size=100, cache_ttl_ms=1_000))
    one = queue.client()
    consumer = one.consume()
    publish(one, "a")
    one.settle(consumer, 1)
    queue.pass_time(900)
    publish(one, "a")
    assert queue.positions == []
    queue.pass_time(100)
    publish(one, "a")
    assert queue.positions == [2]


def test_a_member_that_starts_from_a_snapshot_knows_them():
    queue = QueueByHand(Options(cache_size=5_000, cache_ttl_ms=1_000))
    one = queue.client()
    publish(one, *map(str, range(3_000)))
    state = snapshot(queue.machine)
    queue.machine = restore(state)
    assert snapshot(queue.machine) == state
    publish(one, "7", "new")
    assert queue.counts == (3_001, 0)


def test_a_queue_that_takes_duplicates_has_snapshots_that_older_nodes_read():
    queue = QueueByHand()
    publish(queue.client(), "a", "a")
    assert queue.counts == (2, 0)
    assert snapshot(queue.machine)[0] == 2


def test_a_publish_has_one_key_for_each_message():
    command = EnqueueOnce(1, 1, 0, runs_of([EnqueuedRun(2, 10, NO_LIMIT, 0)]), [b"a"])
    with pytest.raises(CommandError, match="not one key for each message"):
        QueueByHand(ONCE).machine.apply(1, entry_of(encode_command(command), 1))

"""Senders, nodes, single active consumers: who is known to the queue, and what each is told."""

import msgspec
import pytest

from leveret.cluster.quorum.machine.commands import (
    CommandError,
    Enqueue,
    EnqueuedRun,
    Get,
    Join,
    NodeConnected,
    NodeDisconnected,
    NodeDown,
    Options,
    runs_of,
)
from leveret.cluster.quorum.machine.effects import (
    ActiveChanged,
    Applied,
    Deliver,
    Result,
    SenderEnded,
    TimedOut,
    UnknownSender,
)
from leveret.cluster.quorum.machine.packed_runs import pack_runs
from leveret.cluster.quorum.machine.snapshots import SnapshotError, restore, snapshot
from tests.unit.cluster.quorum.machine.queue_by_hand import QueueByHand

NO_TTL = -1

# Senders


def test_commands_are_applied_once_and_in_order():
    queue = QueueByHand()
    one = queue.client()
    runs = runs_of([EnqueuedRun(1, 10, NO_TTL, 0)])
    queue.apply(Enqueue(one.sender, 3, 0, runs))
    assert (queue.effects, queue.counts) == ([], (0, 0))
    for expected in (1, 1, 2):
        number = 2 if expected == 1 else 3
        queue.apply(Enqueue(one.sender, number, 0, runs))
        assert queue.counts == (expected, 0)


def test_a_sender_that_did_not_join_is_unknown():
    queue = QueueByHand()
    queue.apply(Get(5, 2, 0, False))
    assert [one.sender for one in queue.of(UnknownSender)] == [5]


def test_a_client_that_attaches_gets_what_it_lacks():
    queue = QueueByHand()
    one = queue.client()
    one.publish(6)
    consumer = one.consume(credit=4)
    one.purge()
    deliver, result, applied = queue.machine.attach(one.sender, 0, {consumer: 1})
    assert isinstance(deliver, Deliver)
    assert [(run.position, run.count, run.delivery) for run in deliver.runs] == [(2, 3, 2)]
    assert isinstance(result, Result)
    assert (result.number, result.value) == (one.number, 2)
    assert isinstance(applied, Applied)
    assert applied.through == one.number
    (applied,) = queue.machine.attach(one.sender, one.number, {consumer: 4})
    assert isinstance(applied, Applied)


def test_results_are_forgotten_when_the_client_has_seen_them():
    queue = QueueByHand()
    one = queue.client()
    one.purge()
    seen = one.number
    one.publish()
    assert isinstance(queue.machine.attach(one.sender, 0, {})[0], Result)
    one.do(Enqueue, runs_of([EnqueuedRun(1, 10, NO_TTL, 0)]), seen=seen)
    assert isinstance(queue.machine.attach(one.sender, 0, {})[0], Applied)


def test_what_a_sender_held_is_returned_when_it_leaves():
    queue = QueueByHand()
    one, two = queue.client(), queue.client("two")
    one.publish()
    one.consume()
    two.consume()
    one.leave()
    assert queue.delivered == [(two, 1, 1)]
    assert isinstance(queue.machine.attach(one.sender, 0, {})[0], UnknownSender)


def test_a_get_that_has_timed_out_is_told_to_a_client_that_attaches():
    queue = QueueByHand(Options(consumer_timeout_ms=1_000))
    one = queue.client()
    one.publish()
    got = one.get()
    queue.pass_time(1_000)
    timed_out, result, _ = queue.machine.attach(one.sender, 0, {got: 0})
    assert isinstance(timed_out, TimedOut)
    assert (timed_out.consumer, timed_out.positions) == (got, [1, 1])
    assert isinstance(result, Result)
    one.cancel(got, returns=True)
    assert queue.machine.attach(one.sender, one.number, {})[0].through == one.number


# Nodes


def test_what_was_with_a_dead_node_comes_again_with_its_count():
    queue = QueueByHand()
    one, two = queue.client("one", 7), queue.client("two", 1)
    one.publish(2)
    one.consume(credit=1)
    two.consume(credit=1)
    queue.apply(NodeDown("one", 7))
    assert [one.sender for one in queue.of(UnknownSender)] == [one.sender]
    two.settle(2, 2)
    assert queue.delivered == [(two, 1, 1)]


def test_a_later_incarnation_of_a_node_lives_on():
    queue = QueueByHand()
    one = queue.client("one", 2)
    queue.apply(NodeDown("one", 1))
    one.publish()
    assert queue.counts == (1, 0)


def test_the_next_client_of_a_node_ends_the_last_one():
    queue = QueueByHand()
    last = queue.client("one", 1)
    last.publish(2)
    last.consume(credit=1)
    queue.apply(Join(last.sender + 2, 1, 0, "one", 1))
    assert queue.counts == (2, 0)
    last.publish()
    queue.apply(Join(last.sender + 1, 1, 0, "one", 1))
    assert [one.sender for one in queue.of(UnknownSender)] == [last.sender + 1]
    assert queue.counts == (2, 0)


def test_a_client_that_was_taken_for_gone_learns_what_was_applied():
    queue = QueueByHand()
    one = queue.client("one", 7)
    one.publish()
    queue.apply(NodeDown("one", 7))
    one.publish()
    assert isinstance(queue.effects[0], UnknownSender)
    applied, ended = queue.machine.attach(one.sender, 0, {})
    assert isinstance(applied, Applied)
    assert applied.through == 2
    assert isinstance(ended, SenderEnded)


def test_a_sender_that_has_ended_does_not_join_again():
    queue = QueueByHand()
    one = queue.client("one", 7)
    queue.apply(NodeDown("one", 7))
    queue.client("one", 7)
    queue.apply(Join(one.sender, 1, 0, "one", 7))
    assert [each.sender for each in queue.of(UnknownSender)] == [one.sender]


def test_consumers_of_a_node_that_cannot_be_reached_keep_what_they_hold_and_get_nothing():
    queue = QueueByHand()
    one = queue.client("one")
    one.publish(1)
    consumer = one.consume()
    queue.apply(NodeDisconnected("one"))
    one.publish(1)
    assert queue.counts == (1, 1)
    queue.apply(NodeConnected("one"))
    assert queue.positions == [2]
    one.settle(consumer, 1, 2)
    assert queue.counts == (0, 0)


# Single active consumers


def test_the_first_consumer_is_active_until_it_ends():
    queue = QueueByHand(Options(is_single_active=True))
    one, two = queue.client("one"), queue.client("two")
    first = one.consume(credit=1)
    assert queue.active == [(one.sender, first, True)]
    second = two.consume()
    one.publish(2)
    assert queue.delivered == [(one, 1, 0)]
    queue.apply(NodeDown("one", 1))
    assert queue.active == [(two.sender, second, True)]
    assert queue.delivered == [(two, 1, 1), (two, 2, 0)]
    two.get()
    assert queue.results == [("SINGLE_ACTIVE", 0)]


def test_a_consumer_of_higher_priority_takes_over_when_the_active_one_holds_nothing():
    queue = QueueByHand(Options(is_single_active=True, elects_by_priority=True))
    one, two = queue.client(), queue.client()
    first = one.consume(credit=2)
    one.publish(1)
    second = two.consume(priority=1)
    one.publish(1)
    assert queue.delivered == []
    one.settle(first, 1)
    assert queue.active == [(one.sender, first, False), (two.sender, second, True)]
    assert queue.delivered == [(two, 2, 0)]
    two.cancel(second)
    assert queue.active == [(two.sender, second, False), (one.sender, first, True)]


def test_in_3_x_priorities_do_not_choose_the_active_consumer():
    queue = QueueByHand(Options(is_single_active=True))
    one, two = queue.client(), queue.client()
    one.consume()
    two.consume(priority=5)
    one.publish()
    assert queue.delivered == [(one, 1, 0)]


def test_a_client_that_attaches_is_told_that_its_consumer_is_active():
    queue = QueueByHand(Options(is_single_active=True))
    one = queue.client()
    consumer = one.consume()
    active, _ = queue.machine.attach(one.sender, one.number, {})
    assert isinstance(active, ActiveChanged)
    assert (active.consumer, active.is_active) == (consumer, True)


# Snapshots and entries


def a_used_queue():
    """A queue with something of everything."""
    queue = QueueByHand(Options(is_single_active=True, priorities=32))
    one, two = queue.client("one", 3), queue.client("two", 1)
    one.publish(5, priority=3, ttl_ms=500)
    one.publish(2, priority=9)
    consumer = one.consume(credit=3)
    two.consume(credit=2, priority=1)
    one.give_back(consumer, 6)
    two.purge()
    one.publish(700)
    return queue


def test_a_snapshot_gives_the_queue_that_it_was_taken_of():
    queue = a_used_queue()
    state = snapshot(queue.machine)
    queue.machine = restore(state)
    assert snapshot(queue.machine) == state


def test_a_snapshot_has_the_many_messages_that_a_consumer_holds():
    queue = QueueByHand()
    one = queue.client()
    for _ in range(1_400):
        one.publish(1)
    one.consume(credit=1_300)
    state = snapshot(queue.machine)
    queue.machine = restore(state)
    assert queue.machine.messages.held_count == 1_300
    assert snapshot(queue.machine) == state


def test_a_snapshot_of_the_first_version_has_a_block_for_each_part():
    """They are delayed messages, the letters of each reason, and what each consumer holds."""
    queue = a_used_queue()
    state = snapshot(queue.machine)
    size = int.from_bytes(state[1:5], "little")
    *fields, counts, _identifiers = msgspec.msgpack.decode(state[5 : 5 + size])
    head = msgspec.msgpack.encode(fields)
    blocks = list(blocks_of(state[5 + size :]))
    blocks, others = blocks[: -sum(counts)], blocks[-sum(counts) :]
    parts = [others.pop(0) if count else sized(pack_runs([])) for count in counts]
    first = b"\x01" + sized(head) + b"".join(blocks + parts)
    assert snapshot(restore(first)) == state


def blocks_of(data):
    """The blocks of a snapshot, with their sizes."""
    while data:
        size = 4 + int.from_bytes(data[:4], "little")
        yield data[:size]
        data = data[size:]


def sized(data):
    return len(data).to_bytes(4, "little") + data


def test_every_cut_of_a_snapshot_is_one_error():
    state = snapshot(a_used_queue().machine)
    for length in range(len(state)):
        with pytest.raises(SnapshotError):
            restore(state[:length])


def test_a_snapshot_of_another_version_says_what_to_do():
    state = snapshot(a_used_queue().machine)
    with pytest.raises(SnapshotError, match="is of version 9; this node reads 3: update it"):
        restore(b"\x09" + state[1:])


def test_an_entry_that_is_damaged_changes_nothing():
    queue = a_used_queue()
    state = snapshot(queue.machine)
    with pytest.raises(CommandError):
        queue.machine.apply(queue.index + 1, b"damaged")
    assert snapshot(queue.machine) == state


def test_only_entries_whose_messages_are_there_are_needed():
    queue = QueueByHand()
    one = queue.client()
    for _ in range(300):
        one.publish(1)
        one.settle(one.get(), *queue.positions)
    one.publish(1)
    kept = queue.index
    assert queue.machine.live() == [kept, kept]


def test_a_long_queue_keeps_its_order_and_a_snapshot_of_it_is_small():
    queue = QueueByHand()
    one = queue.client()
    for _ in range(3_000):
        one.publish(1)
    state = snapshot(queue.machine)
    assert len(state) < 3_000 * 20
    queue.machine = restore(state)
    consumer = one.consume(credit=2_500)
    assert queue.positions == list(range(1, 2_501))
    one.settle(consumer, *range(1, 2_501))
    assert queue.positions == list(range(2_501, 3_001))

"""The rules of a quorum queue, as its users know them (docs/operate/quorum-queues.md)."""

import pytest

from leveret.cluster.quorum.machine import queue_messages
from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    Configure,
    DeadLetterStrategy,
    DelayedRetry,
    EndDelays,
    LettersDone,
    Options,
)
from leveret.cluster.quorum.machine.effects import (
    DelaysEnded,
    Deliver,
    Expired,
    LettersDropped,
    PublishDeadLetters,
    TimedOut,
)
from leveret.cluster.quorum.machine.figures import figures
from leveret.cluster.quorum.machine.peeking import peek
from leveret.cluster.quorum.machine.snapshots import restore, snapshot
from tests.unit.cluster.quorum.machine.queue_by_hand import QueueByHand

DEAD = DeadLetterStrategy.AT_MOST_ONCE
KEPT = DeadLetterStrategy.AT_LEAST_ONCE

# Delivering


def test_messages_are_delivered_in_the_order_of_publishing():
    queue = QueueByHand()
    one = queue.client()
    one.publish(3)
    one.publish(2)
    one.consume()
    assert queue.positions == [1, 2, 3, 4, 5]


def test_a_consumer_holds_at_most_its_credit():
    queue = QueueByHand()
    one = queue.client()
    one.publish(5)
    consumer = one.consume(credit=2)
    assert queue.positions == [1, 2]
    one.settle(consumer, 1)
    assert queue.positions == [3]
    assert queue.counts == (2, 2)


def test_consumers_take_turns():
    queue = QueueByHand()
    one, two = queue.client(), queue.client()
    one.consume()
    two.consume()
    one.publish(4)
    assert sorted(queue.delivered, key=lambda each: each[1]) == [
        (one, 1, 0), (two, 2, 0), (one, 3, 0), (two, 4, 0),
    ]  # fmt: skip


def test_a_consumer_of_higher_priority_comes_first_while_it_has_room():
    queue = QueueByHand()
    one, two = queue.client(), queue.client()
    one.consume()
    two.consume(credit=2, priority=1)
    one.publish(3)
    assert set(queue.delivered) == {(two, 1, 0), (two, 2, 0), (one, 3, 0)}


def test_a_cancelled_consumer_keeps_what_it_holds():
    queue = QueueByHand()
    one = queue.client()
    one.publish(2)
    consumer = one.consume(credit=1)
    one.cancel(consumer)
    assert queue.counts == (1, 1)
    one.settle(consumer, 1)
    assert queue.counts == (1, 0)


def test_a_get_takes_the_first_message():
    queue = QueueByHand()
    one = queue.client()
    one.get()
    assert queue.results == [("EMPTY", 0)]
    one.publish(3)
    got = one.get()
    assert (queue.positions, queue.results) == ([1], [("GOT", 2)])
    one.settle(got, 1)
    assert queue.counts == (2, 0)


# Returns


def test_returned_messages_go_to_the_front_behind_those_returned_before():
    queue = QueueByHand(Options(delivery_limit=5))
    one = queue.client()
    one.publish(4)
    consumer = one.consume(credit=3)
    other = queue.client()
    one.cancel(consumer)
    one.give_back(consumer, 2)
    one.give_back(consumer, 1, 3)
    other.consume()
    assert queue.delivered == [(other, 2, 1), (other, 1, 1), (other, 3, 1), (other, 4, 0)]


def test_without_a_limit_returned_messages_go_to_the_end():
    queue = QueueByHand(Options(returns_to_end=True))
    one = queue.client()
    one.publish(3)
    got = one.get()
    one.give_back(got, 1)
    one.consume()
    assert queue.delivered == [(one, 2, 0), (one, 3, 0), (one, 1, 1)]


def test_what_was_with_a_dead_channel_goes_to_the_front():
    queue = QueueByHand(Options(returns_to_end=True))
    one = queue.client()
    one.publish(3)
    consumer = one.consume(credit=2)
    one.cancel(consumer, returns=True)
    one.consume()
    assert queue.delivered == [(one, 1, 1), (one, 2, 1), (one, 3, 0)]


def test_a_message_dies_when_it_was_returned_more_often_than_the_limit():
    queue = QueueByHand(Options(delivery_limit=2, dead_letters=DEAD))
    one = queue.client()
    one.publish()
    consumer = one.consume()
    for count in (1, 2):
        one.give_back(consumer, 1)
        assert queue.delivered == [(one, 1, count)]
    one.give_back(consumer, 1)
    assert (queue.delivered, queue.died) == ([], [("DELIVERY_LIMIT", 1)])


def test_from_4_3_on_only_failures_count_for_the_limit():
    queue = QueueByHand(Options(delivery_limit=0, counts_returns=False, dead_letters=DEAD))
    one = queue.client()
    one.publish()
    consumer = one.consume()
    one.give_back(consumer, 1)
    assert queue.delivered == [(one, 1, 0)]
    one.give_back(consumer, 1, is_failed=True)
    assert queue.died == [("DELIVERY_LIMIT", 1)]


def test_returned_messages_are_delayed_for_longer_each_time():
    queue = QueueByHand(
        Options(delayed_retry=DelayedRetry.ALL, delayed_retry_min_ms=100, delayed_retry_max_ms=150)
    )
    one = queue.client()
    one.publish()
    consumer = one.consume()
    for delay_ms in (100, 150, 150):
        one.give_back(consumer, 1)
        assert figures(queue.machine).delayed == 1
        assert queue.machine.wake_at_ms() == queue.now_ms + delay_ms
        queue.pass_time(delay_ms - 1)
        assert queue.delivered == []
        queue.pass_time(1)
        assert queue.positions == [1]


@pytest.mark.parametrize(("delayed_expire", "died_ms"), [(True, 40), (False, 100)])
def test_a_delayed_message_expires_when_its_time_is_over(delayed_expire, died_ms):
    queue = QueueByHand(
        Options(delayed_retry=DelayedRetry.ALL, delayed_retry_min_ms=100, delayed_retry_max_ms=100,
                message_ttl_ms=40, dead_letters=DEAD, delayed_expire=delayed_expire)
    )  # fmt: skip
    one = queue.client()
    one.publish()
    consumer = one.consume()
    one.give_back(consumer, 1)
    assert queue.machine.wake_at_ms() == queue.now_ms + died_ms
    queue.pass_time(died_ms - 1)
    assert queue.died == []
    queue.pass_time(1)
    assert (queue.died, queue.positions) == ([("EXPIRED", 1)], [])


def test_delays_may_be_multiplied():
    queue = QueueByHand(
        Options(
            delayed_retry=DelayedRetry.ALL,
            delayed_retry_min_ms=100,
            delayed_retry_max_ms=1000,
            delayed_retry_multiplier=2500,
        )
    )
    one = queue.client()
    one.publish()
    consumer = one.consume()
    for delay_ms in (100, 250, 625, 1000, 1000):
        one.give_back(consumer, 1)
        assert queue.machine.wake_at_ms() == queue.now_ms + delay_ms
        queue.pass_time(delay_ms)


def delaying(count):
    """A queue with a consumer that has returned messages, each at another time, and its client."""
    queue = QueueByHand(
        Options(delayed_retry=DelayedRetry.ALL, delayed_retry_min_ms=1000,
                delayed_retry_max_ms=1000, cache_size=10)
    )  # fmt: skip
    one = queue.client()
    one.publish(count)
    consumer = one.consume()
    one.give_back(consumer, *range(1, count + 1))
    return queue, one


@pytest.mark.parametrize(
    ("positions", "ended"),
    [
        ([], [1, 2, 3, 4, 5]), ([1, 5], [1, 2, 3, 4, 5]), ([3, 3], [3]), ([1, 1, 5, 9], [1, 5]),
        ([6, 9], []), ([2, 3, 5, 5], [2, 3, 5]), ([1, 1, 2, 2, 4, 4], [1, 2, 4]),
    ],
)  # fmt: skip
def test_an_operator_ends_delays_of_some_messages(positions, ended):
    queue, _ = delaying(5)
    queue.apply(EndDelays(positions, is_discarded=False))
    assert queue.positions == ended
    assert [one.count for one in queue.of(DelaysEnded)] == [len(ended)]
    assert figures(queue.machine).delayed == 5 - len(ended)
    queue.pass_time(1000)
    assert sorted([*ended, *queue.positions]) == [1, 2, 3, 4, 5]


def test_an_operator_discards_delayed_messages_which_are_not_dead_lettered():
    queue, _ = delaying(3)
    queue.apply(EndDelays([2, 3], is_discarded=True))
    assert queue.died == []
    queue.pass_time(1000)
    assert queue.positions == [1]
    assert figures(queue.machine).delayed == 0


def annotations(effects):
    return [run.annotations for effect in effects for run in effect.runs]


def test_modified_messages_keep_all_of_their_annotations():
    queue = QueueByHand()
    one = queue.client()
    one.publish(3)
    consumer = one.consume()
    one.modify(consumer, 2, is_failed=True, a=b"1", b=b"2")
    assert queue.delivered == [(one, 2, 1)]
    assert annotations(queue.of(Deliver)) == [{"a": b"1", "b": b"2"}]
    one.modify(consumer, 1, 2, a=b"3")
    assert annotations(queue.of(Deliver)) == [{"a": b"3"}, {"a": b"3", "b": b"2"}]
    one.give_back(consumer, 1, 2, 3)
    assert annotations(queue.of(Deliver)) == [None, {"a": b"3"}, {"a": b"3", "b": b"2"}]


def test_annotations_are_those_of_a_restored_queue_and_of_dead_letters():
    queue = QueueByHand(Options(dead_letters=DEAD))
    one = queue.client()
    one.publish(2)
    consumer = one.consume()
    one.modify(consumer, 1, a=b"1")
    queue.machine = restore(snapshot(queue.machine))
    one.modify(consumer, 1, 2, is_rejected=True, b=b"2")
    assert queue.died == [("REJECTED", 2), ("REJECTED", 1)]
    assert annotations(queue.of(PublishDeadLetters)) == [{"b": b"2"}, {"a": b"1", "b": b"2"}]


def test_a_modified_message_waits_until_the_time_that_it_has():
    queue = QueueByHand()
    one = queue.client()
    one.publish()
    consumer = one.consume()
    one.modify(consumer, 1, ready_ms=queue.now_ms + 50)
    assert queue.positions == []
    assert queue.machine.wake_at_ms() == queue.now_ms + 50
    queue.pass_time(50)
    assert queue.positions == [1]
    one.modify(consumer, 1, ready_ms=queue.now_ms)
    assert queue.positions == [1]


def test_failures_alone_may_be_delayed():
    queue = QueueByHand(
        Options(
            delayed_retry=DelayedRetry.FAILED, delayed_retry_min_ms=100, delayed_retry_max_ms=100
        )
    )
    one = queue.client()
    one.publish()
    consumer = one.consume()
    one.give_back(consumer, 1)
    assert queue.positions == [1]
    one.give_back(consumer, 1, is_failed=True)
    assert queue.positions == []


# Limits


def test_a_full_queue_drops_what_would_be_delivered_next():
    queue = QueueByHand(Options(max_length=3, dead_letters=DEAD))
    one = queue.client()
    one.publish(5)
    assert queue.died == [("MAXLEN", 1), ("MAXLEN", 2)]
    one.publish(1, size=100)
    queue.apply(Configure(Options(max_length_bytes=100, dead_letters=DEAD)))
    assert queue.died == [("MAXLEN", 4), ("MAXLEN", 5)]


def test_a_queue_that_refuses_takes_one_more_and_then_none_until_a_fifth_is_free():
    queue = QueueByHand(Options(max_length=5, rejects_publishes=True))
    one = queue.client()
    one.publish(8)
    assert queue.results == [("REFUSED", (6, 7))]
    for left in (5, 4):
        got = one.get()
        one.settle(got, *queue.positions)
        one.publish()
        refused = [("REFUSED", (0, 0))] if left > 4 else []
        assert queue.results == refused
        assert queue.counts == (5, 0)


def test_what_is_delivered_at_once_does_not_fill_the_queue():
    queue = QueueByHand(Options(max_length=2, rejects_publishes=True))
    one = queue.client()
    one.consume(credit=10)
    one.publish(15)
    assert queue.results == [("REFUSED", (13, 14))]
    assert queue.counts == (3, 10)


# Time


def test_messages_expire_at_the_head_of_the_queue():
    queue = QueueByHand(Options(message_ttl_ms=1_000, dead_letters=DEAD))
    one = queue.client()
    one.publish(1, ttl_ms=100)
    one.publish(1)
    one.publish(1, ttl_ms=500)
    assert queue.machine.wake_at_ms() == queue.now_ms + 100
    queue.pass_time(600)
    assert queue.died == [("EXPIRED", 1)]
    queue.pass_time(400)
    assert queue.died == [("EXPIRED", 2), ("EXPIRED", 3)]


def test_messages_expire_wherever_they_are_in_the_order_of_their_times():
    queue = QueueByHand(Options(dead_letters=DEAD))
    one = queue.client()
    one.publish(1)
    one.publish(2, ttl_ms=500)
    one.publish(1, ttl_ms=100)
    one.publish(1, ttl_ms=1_000)
    assert queue.machine.expire_at_ms() == queue.now_ms + 100
    queue.pass_time(600)
    assert queue.died == []
    queue.pass_time(0, everywhere=True)
    assert queue.died == [("EXPIRED", 4), ("EXPIRED", 2), ("EXPIRED", 3)]
    assert queue.counts == (2, 0)
    assert queue.machine.expire_at_ms() == queue.now_ms + 400
    queue.pass_time(400, everywhere=True)
    assert (queue.died, queue.machine.expire_at_ms()) == ([("EXPIRED", 5)], 0)


def test_messages_expire_in_packed_blocks_of_a_long_queue():
    queue = QueueByHand(Options(dead_letters=DEAD))
    one = queue.client()
    for number in range(3_000):
        one.publish(1, ttl_ms=NO_LIMIT if number % 3 else 100 + number % 7)
    queue.pass_time(103, everywhere=True)
    wanted = [at + 1 for at in range(0, 3_000, 3) if at % 7 <= 3]
    assert sorted(position for _, position in queue.died) == wanted
    queue.machine = restore(snapshot(queue.machine))
    queue.pass_time(10, everywhere=True)
    assert queue.counts == (2_000, 0)
    one.consume(credit=3_000)
    assert queue.positions == [at + 1 for at in range(3_000) if at % 3]


def test_messages_that_consumers_hold_expire_when_they_come_back():
    queue = QueueByHand(Options(dead_letters=DEAD))
    one = queue.client()
    consumer = one.consume(credit=1)
    one.publish(2, ttl_ms=100)
    queue.pass_time(200, everywhere=True)
    assert (queue.died, queue.counts) == ([("EXPIRED", 2)], (0, 1))
    one.give_back(consumer, 1)
    assert queue.died == [("EXPIRED", 1)]


def test_of_very_many_messages_one_entry_drops_some(monkeypatch):
    monkeypatch.setattr(queue_messages, "EXPIRED_TOGETHER_MAX", 600)
    queue = QueueByHand()
    one = queue.client()
    one.publish(1)
    for _ in range(2_500):
        one.publish(1, ttl_ms=100)
    queue.pass_time(1_000, everywhere=True)
    left, _ = queue.counts
    assert 1 < left < 2_501 - 600
    assert queue.machine.expire_at_ms() <= queue.now_ms
    while queue.counts != (1, 0):
        queue.pass_time(0, everywhere=True)


def test_a_message_without_time_is_delivered_if_a_consumer_waits_and_is_gone_otherwise():
    queue = QueueByHand()
    one = queue.client()
    one.consume(credit=1)
    one.publish(2, ttl_ms=0)
    assert (queue.positions, queue.counts) == ([1], (0, 1))


def test_the_clock_of_another_leader_does_not_take_time_back():
    queue = QueueByHand(Options(message_ttl_ms=100))
    one = queue.client()
    queue.now_ms -= 500
    one.publish()
    queue.now_ms += 500
    queue.pass_time(99)
    assert queue.counts == (1, 0)


def test_a_queue_expires_when_nobody_consumes_or_gets():
    queue = QueueByHand(Options(expires_ms=1_000))
    one = queue.client()
    queue.pass_time(600)
    consumer = one.consume()
    queue.pass_time(2_000)
    assert queue.of(Expired) == []
    one.cancel(consumer)
    assert queue.machine.wake_at_ms() == queue.now_ms + 1_000
    queue.pass_time(1_000)
    assert len(queue.of(Expired)) == 1
    assert queue.machine.wake_at_ms() == queue.now_ms + 1_000


def test_a_consumer_that_holds_a_message_for_too_long_gets_no_more():
    queue = QueueByHand(Options(consumer_timeout_ms=1_000))
    one, two = queue.client(), queue.client()
    one.publish(2)
    consumer = one.consume(credit=1)
    queue.pass_time(1_000)
    (timed_out,) = queue.of(TimedOut)
    assert (timed_out.sender, timed_out.positions) == (one.sender, [1, 1])
    assert queue.counts == (2, 0)
    one.settle(consumer, 1)
    assert queue.positions == [1]
    two.consume()
    assert queue.positions == [2]


def test_what_a_consumer_holds_is_looked_at_again_when_some_of_it_may_be_held_for_too_long():
    queue = QueueByHand(Options(consumer_timeout_ms=1_000))
    one = queue.client()
    number = one.consume()
    consumer = queue.machine.senders.known[one.sender].consumers[number]
    one.publish()
    delivered_ms = queue.now_ms
    queue.pass_time(600)
    assert consumer.held_since_ms == delivered_ms
    one.publish()
    one.settle(number, 1)
    queue.pass_time(300)
    assert consumer.held_since_ms == delivered_ms, "nothing could be due"
    queue.pass_time(100)
    assert consumer.held_since_ms == delivered_ms + 600
    queue.pass_time(600)
    (timed_out,) = queue.of(TimedOut)
    assert timed_out.positions == [2, 2]
    assert consumer.held_since_ms == queue.now_ms


# Priorities


def test_two_of_high_priority_go_before_each_other_message():
    queue = QueueByHand(Options(priorities=2))
    one = queue.client()
    one.publish(7, priority=4)
    one.publish(6, priority=5)
    one.consume()
    high = [8, 9, 1, 10, 11, 2, 12, 13, 3, 4, 5, 6, 7]
    assert queue.positions == high


def test_of_32_priorities_each_goes_before_all_lower_ones():
    queue = QueueByHand(Options(priorities=32))
    one = queue.client()
    for priority in (4, 31, 0, 255, 4):
        one.publish(1, priority=priority)
    assert figures(queue.machine).by_priority == ((31, 2), (4, 2), (0, 1))
    one.consume()
    assert queue.positions == [2, 4, 1, 5, 3]


def test_other_priorities_sort_the_messages_that_are_there():
    queue = QueueByHand(Options(priorities=1))
    one = queue.client()
    one.publish(1, priority=0)
    one.publish(1, priority=9)
    queue.apply(Configure(Options(priorities=32)))
    one.consume()
    assert queue.positions == [2, 1]


@pytest.mark.parametrize("priorities", [1, 2, 32])
def test_a_successor_has_the_order_of_publishing_and_keeps_all_until_it_gets_its_name(priorities):
    queue = QueueByHand(Options(priorities=priorities, is_successor=True))
    one = queue.client()
    for priority in (4, 9, 0, 5, 9):
        one.publish(1, priority=priority, ttl_ms=100)
    queue.pass_time(1000)
    assert queue.machine.wake_at_ms() == 0
    copying = one.consume(credit=3)
    assert queue.positions == [1, 2, 3]
    one.cancel(copying)
    assert queue.counts == (2, 3)
    queue.apply(Configure(Options(priorities=priorities)))
    assert queue.counts == (0, 3)


def test_the_message_at_a_place_is_that_which_is_delivered_then():
    queue = QueueByHand(Options(priorities=2))
    one = queue.client()
    one.publish(3, priority=4)
    one.publish(3, priority=5)
    places = [peek(queue.machine, place) for place in range(8)]
    assert (places[0], places[7]) == (None, None)
    one.consume()
    assert [run.position for run in places[1:7]] == queue.positions


# Dead letters


def test_rejected_messages_are_dropped_or_become_dead_letters():
    for strategy, died in ((DeadLetterStrategy.DROP, []), (DEAD, [("REJECTED", 1)])):
        queue = QueueByHand(Options(dead_letters=strategy))
        one = queue.client()
        one.publish()
        got = one.get()
        one.discard(got, 1)
        assert (queue.died, queue.counts) == (died, (0, 0))


def test_letters_are_kept_until_they_have_arrived_and_count_for_the_limit():
    queue = QueueByHand(Options(max_length=1, rejects_publishes=True, dead_letters=KEPT))
    one = queue.client()
    one.publish(2)
    consumer = one.consume()
    one.discard(consumer, 1, 2)
    assert queue.died == [("REJECTED", 1), ("REJECTED", 2)]
    assert figures(queue.machine).letters == 2
    one.purge()
    assert figures(queue.machine).letters == 2
    queue.effects = queue.machine.kept_letters()
    assert queue.died == [("REJECTED", 1), ("REJECTED", 2)]
    one.cancel(consumer)
    one.publish()
    assert queue.results == [("REFUSED", (0, 0))]
    queue.apply(LettersDone([1, 2]))
    one.publish()
    assert (queue.results, queue.counts) == ([], (1, 0))


def test_a_policy_that_ends_the_strategy_drops_the_letters():
    queue = QueueByHand(Options(rejects_publishes=True, dead_letters=KEPT))
    one = queue.client()
    one.publish()
    one.discard(one.get(), 1)
    queue.apply(Configure(Options()))
    assert [one.count for one in queue.of(LettersDropped)] == [1]


def test_a_purge_drops_what_no_consumer_holds():
    queue = QueueByHand()
    one = queue.client()
    one.publish(5)
    one.consume(credit=2)
    one.purge()
    assert (queue.results, queue.counts) == ([("PURGED", 3)], (0, 2))

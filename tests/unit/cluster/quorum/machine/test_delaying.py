"""The rules of a queue of a delayed message exchange (docs/design/delayed-messages.md)."""

from leveret.cluster.quorum.machine import queue_messages
from leveret.cluster.quorum.machine.commands import (
    DeadLetterStrategy,
    EndDelays,
    LettersDone,
    Options,
)
from leveret.cluster.quorum.machine.effects import DelaysEnded
from leveret.cluster.quorum.machine.figures import figures
from leveret.cluster.quorum.machine.snapshots import restore, snapshot
from tests.unit.cluster.quorum.machine.queue_by_hand import QueueByHand


def only_delaying():
    """The queue of a delayed message exchange, and its client."""
    options = Options(dead_letters=DeadLetterStrategy.AT_LEAST_ONCE, is_delaying=True)
    queue = QueueByHand(options)
    return queue, queue.client()


def test_a_delaying_queue_gives_messages_to_no_consumer_and_keeps_them_when_they_are_due():
    queue, one = only_delaying()
    one.consume()
    one.publish(2, ttl_ms=200)
    one.publish(ttl_ms=100)
    assert figures(queue.machine).delayed == 3
    assert queue.machine.wake_at_ms() == queue.now_ms + 100
    queue.pass_time(99)
    assert queue.died == []
    queue.pass_time(1)
    assert queue.died == [("EXPIRED", 3)]
    queue.pass_time(500)
    assert queue.died == [("EXPIRED", 1), ("EXPIRED", 2)]
    assert queue.counts == (0, 0)
    assert figures(queue.machine).letters == 3
    queue.apply(LettersDone([1, 3]))
    assert figures(queue.machine).letters == 0
    assert queue.machine.live() == []


def test_messages_of_one_time_are_released_in_the_order_of_their_publishing():
    queue, one = only_delaying()
    one.publish(ttl_ms=100)
    queue.now_ms += 50
    one.publish(2, ttl_ms=50)
    one.publish(ttl_ms=49)
    queue.pass_time(50)
    assert [position for _, position in queue.died] == [4, 1, 2, 3]


def test_messages_of_a_delaying_queue_are_released_early_or_cancelled():
    queue, one = only_delaying()
    one.publish(4, ttl_ms=1000)
    queue.apply(EndDelays([2, 2], is_discarded=False))
    assert queue.died == [("EXPIRED", 2)]
    queue.apply(EndDelays([1, 3], is_discarded=True))
    assert [one.count for one in queue.of(DelaysEnded)] == [2]
    assert queue.died == []
    queue.pass_time(1000)
    assert queue.died == [("EXPIRED", 4)]


def test_of_very_many_due_messages_some_are_released_and_others_when_these_are_done(monkeypatch):
    monkeypatch.setattr(queue_messages, "RELEASED_MAX", 6)
    queue, one = only_delaying()
    for _ in range(9):
        one.publish(ttl_ms=10)
    queue.pass_time(10)
    assert [position for _, position in queue.died] == [1, 2, 3, 4, 5, 6]
    assert (figures(queue.machine).delayed, queue.machine.wake_at_ms()) == (3, 0)
    queue.apply(LettersDone([2, 3]))
    assert [position for _, position in queue.died] == [7, 8]
    queue.apply(LettersDone([1, 1]))
    assert [position for _, position in queue.died] == [9]


def test_messages_that_are_released_early_wait_for_room_too(monkeypatch):
    monkeypatch.setattr(queue_messages, "RELEASED_MAX", 2)
    queue, one = only_delaying()
    one.publish(ttl_ms=5000)
    for ttl_ms in (4000, 3000, 2000):
        one.publish(ttl_ms=ttl_ms)
    queue.apply(EndDelays([1, 4], is_discarded=False, first_ms=queue.now_ms + 2000,
                          last_ms=queue.now_ms + 5000))  # fmt: skip
    assert [position for _, position in queue.died] == [4, 3]
    assert [one.count for one in queue.of(DelaysEnded)] == [4]
    assert figures(queue.machine).delayed == 2
    queue.apply(LettersDone([3, 4]))
    assert [position for _, position in queue.died] == [1, 2]


def test_a_snapshot_has_the_messages_that_wait_and_those_that_were_released():
    queue, one = only_delaying()
    one.publish(3, ttl_ms=100)
    one.publish(ttl_ms=10)
    queue.pass_time(10)
    machine = restore(snapshot(queue.machine))
    assert (machine.messages.delayed.count, machine.messages.letters.count) == (3, 1)
    assert snapshot(machine) == snapshot(queue.machine)

"""When publishers wait for the consumers of a queue, and for how long."""

import pytest

from leveret.broker.queues.delivery.counting import QueueCounts
from leveret.broker.queues.delivery.publisher_hold import (
    BACKLOG_BYTES_MIN,
    BACKLOG_COUNT_MIN,
    HOLD_MS_MAX,
    PAUSE_MS,
    SERVED_COUNT_MAX,
    PublisherHold,
)
from leveret.broker.runtime.virtual_clock import VirtualClock


class Queue:
    """What a hold sees of a queue: its backlog, and its consumers."""

    def __init__(self):
        self.ready_count, self.ready_bytes = 0, 0
        self.has_candidates, self.consumers = False, ["a consumer"]
        self.counts = QueueCounts(0)

    def deliver(self, count):
        self.ready_count -= count
        self.counts.delivered += count


class Timers:
    """Real time, which passes when the test says so."""

    def __init__(self):
        self._clock = VirtualClock()
        self.pass_ms = lambda ms: self._clock.advance(ms / 1000)
        self.call_later = self._clock.call_later_ms


class Rig:
    def __init__(self):
        self.queue, timers = Queue(), Timers()
        self.hold = PublisherHold(self.queue, self.queue, self.queue.counts, timers)
        self.resumed = []
        self.pass_ms = timers.pass_ms

    def begin(self, publisher="first"):
        if self.hold.is_wanted:
            self.hold.begin(lambda: self.resumed.append(publisher))
        return self.hold.is_wanted


@pytest.fixture
def rig():
    rig = Rig()
    rig.queue.ready_count = BACKLOG_COUNT_MIN
    return rig


def test_a_publisher_waits_until_the_backlog_is_half_as_long(rig):
    assert rig.begin()
    rig.queue.deliver(BACKLOG_COUNT_MIN // 2 - 1)
    rig.hold.look()
    assert not rig.resumed
    rig.queue.deliver(1)
    rig.hold.look()
    assert rig.resumed == ["first"]


def test_a_backlog_of_few_large_messages(rig):
    rig.queue.ready_count, rig.queue.ready_bytes = 10, BACKLOG_BYTES_MIN
    assert rig.begin()


@pytest.mark.parametrize(
    "changes",
    [
        {"ready_count": BACKLOG_COUNT_MIN - 1},
        {"has_candidates": True},
        {"consumers": []},
    ],
)
def test_no_publisher_waits(rig, changes):
    for name, value in changes.items():
        setattr(rig.queue, name, value)
    assert not rig.begin()


def test_more_than_a_turns_worth_is_a_backlog_though_consumers_have_room(rig):
    rig.queue.has_candidates, rig.queue.ready_count = True, SERVED_COUNT_MAX
    assert rig.begin()


def test_all_publishers_go_on_together(rig):
    assert rig.begin("first")
    assert rig.begin("second")
    rig.hold.release()
    assert rig.resumed == ["first", "second"]


def test_no_publisher_waits_when_the_last_consumer_has_left(rig):
    rig.begin()
    rig.queue.consumers.clear()
    rig.hold.look()
    assert rig.resumed == ["first"]


def test_no_publisher_waits_for_long(rig):
    rig.begin()
    rig.pass_ms(HOLD_MS_MAX)
    assert rig.resumed == ["first"]


def test_slow_consumers_hold_back_no_publisher_for_a_while(rig):
    rig.begin()
    rig.queue.deliver(10)
    rig.pass_ms(HOLD_MS_MAX)
    rig.queue.ready_count = 100_000
    assert not rig.begin()
    rig.pass_ms(PAUSE_MS)
    assert rig.begin()


def test_consumers_that_are_nearly_quick_enough_are_waited_for_again(rig):
    rig.begin()
    rig.queue.deliver(BACKLOG_COUNT_MIN // 3)
    rig.pass_ms(HOLD_MS_MAX)
    assert rig.resumed == ["first"]
    rig.queue.ready_count = BACKLOG_COUNT_MIN
    assert rig.begin()

"""When a queue wants messages of other brokers."""

import pytest

from leveret.broker.queues.classic.classic_queue import TURN_MESSAGES_MAX, ClassicQueue
from leveret.broker.queues.contract.demand import Demand
from tests.unit.broker.queues.fakes import (
    FakeConsumer,
    FakeVhost,
    declared,
    publish,
    purged,
    specified,
    subscribed,
)


@pytest.fixture
def vhost():
    return FakeVhost()


class Watch:
    """Watches a queue, and records what it has said."""

    def __init__(self, queue):
        self.told = []
        self.demand = Demand()
        self.demand.listeners.append(lambda: self.told.append(self.demand.is_there))
        queue.watch(self.demand)

    @property
    def is_wanted(self):
        return self.demand.is_there


def consumer_of(queue, credit=1000, priority=0, tag="c"):
    consumer = FakeConsumer(tag, credit=credit)
    consumer.priority = priority
    return subscribed(queue, consumer)


def test_an_empty_queue_with_a_consumer_wants_messages(vhost):
    queue = declared(vhost)
    watch = Watch(queue)
    assert not watch.is_wanted
    consumer = consumer_of(queue)
    assert watch.is_wanted
    queue.cancel(consumer)
    assert watch.told == [True, False]


def test_a_later_watcher_starts_with_the_current_demand(vhost):
    queue = declared(vhost)
    consumer_of(queue)
    assert Watch(queue).is_wanted


def test_it_wants_nothing_while_it_has_messages_itself(vhost):
    queue = declared(vhost)
    publish(queue, b"1", b"2")
    watch = Watch(queue)
    consumer_of(queue)
    assert not watch.is_wanted
    vhost.turns.run_round()
    assert watch.told == [True]


def test_a_busy_consumer_wants_nothing_until_it_has_room_again(vhost):
    queue = declared(vhost)
    watch, consumer = Watch(queue), consumer_of(queue, credit=1)
    publish(queue, b"1")
    vhost.turns.run_round()
    assert watch.told == [True, False]
    queue.ack(consumer.entries)
    consumer.credit = 1
    assert consumer.is_waiting
    queue.credit(consumer)
    assert watch.told == [True, False, True]


def test_it_wants_nothing_when_a_message_waits_behind_a_busy_consumer(vhost):
    queue = declared(vhost)
    watch, consumer = Watch(queue), consumer_of(queue, credit=1)
    publish(queue, b"1", b"2")
    vhost.turns.run_round()
    consumer.credit = 1
    queue.credit(consumer)
    vhost.turns.run_round()
    assert consumer.bodies == [b"1", b"2"]
    assert watch.told == [True, False]
    consumer.credit = 1
    queue.credit(consumer)
    assert watch.is_wanted


def test_a_fast_consumer_wants_messages_all_the_time(vhost):
    queue = declared(vhost)
    watch = Watch(queue)
    consumer_of(queue, credit=10**6)
    for _ in range(10):
        publish(queue, *[b"x"] * 100)
        vhost.turns.run_round()
    assert watch.told == [True]


def test_more_than_one_turn_delivers_is_enough_for_now(vhost):
    queue = declared(vhost)
    watch = Watch(queue)
    consumer_of(queue, credit=10**6)
    publish(queue, *[b"x"] * (TURN_MESSAGES_MAX + 1))
    vhost.turns.run_round()
    assert not watch.is_wanted
    vhost.turns.run_round()
    assert watch.is_wanted


def test_one_of_several_consumers_with_room_is_enough(vhost):
    queue = declared(vhost)
    watch = Watch(queue)
    consumer_of(queue, credit=1, tag="a")
    other = consumer_of(queue, credit=2, tag="b")
    publish(queue, b"1", b"2")
    vhost.turns.run_round()
    assert watch.is_wanted
    queue.cancel(other)
    assert not watch.is_wanted


def test_links_of_other_brokers_want_nothing(vhost):
    queue = declared(vhost)
    watch = Watch(queue)
    consumer_of(queue, priority=-1)
    assert not watch.is_wanted
    busy = consumer_of(queue, credit=0, tag="b")
    assert not watch.is_wanted
    busy.credit = 1
    queue.credit(busy)
    assert watch.is_wanted


def test_a_consumer_of_a_high_priority_counts_like_any_other(vhost):
    queue = declared(vhost)
    watch = Watch(queue)
    consumer_of(queue, credit=1, priority=7)
    assert watch.is_wanted


def test_of_a_single_active_consumer_only_the_active_one_counts(vhost):
    queue = declared(vhost, x_single_active_consumer=True)
    watch = Watch(queue)
    active, standby = consumer_of(queue, credit=1, tag="a"), consumer_of(queue, tag="b")
    publish(queue, b"1")
    vhost.turns.run_round()
    assert active.bodies == [b"1"]
    assert not watch.is_wanted
    queue.cancel(active)
    assert watch.is_wanted
    queue.cancel(standby)
    assert not watch.is_wanted


def test_a_purge_does_not_make_room(vhost):
    queue = declared(vhost)
    watch = Watch(queue)
    consumer_of(queue, credit=1)
    publish(queue, b"1", b"2", b"3")
    assert purged(queue) == 2
    assert not watch.is_wanted


def test_a_message_without_any_time_to_live_fills_a_consumer_too(vhost):
    queue = declared(vhost)
    watch = Watch(queue)
    consumer_of(queue, credit=1)
    publish(queue, b"1", ttl_ms=0)
    assert not watch.is_wanted


def test_an_auto_delete_queue_wants_nothing_when_its_last_consumer_has_left(vhost):
    queue = ClassicQueue(vhost, specified({}, auto_delete=True))
    watch = Watch(queue)
    consumer = consumer_of(queue)
    queue.cancel(consumer)
    assert watch.told == [True, False]


def test_a_queue_that_has_left_wants_nothing(vhost):
    watch = Watch(declared(vhost))
    watch.demand.end()
    assert watch.told == []
    watch.demand.is_there = True
    watch.demand.end()
    assert watch.told == [False]


def test_a_watcher_that_has_left_is_not_told(vhost):
    queue = declared(vhost)
    watch = Watch(queue)
    queue.watch(None)
    consumer_of(queue)
    assert watch.told == []

"""Time in a queue: messages that expire, queues that do, and how queues end."""

import pytest

from tests.unit.broker.queues.fakes import (
    FakeConsumer,
    FakeVhost,
    declared,
    got,
    length,
    publish,
    ready,
    subscribed,
)


@pytest.fixture
def vhost():
    return FakeVhost()


# Messages that expire


def test_messages_expire_when_their_time_is_over(vhost):
    queue = declared(vhost, x_message_ttl=1000, x_dead_letter_exchange="dlx")
    publish(queue, b"1")
    vhost.clock.advance(0.5)
    publish(queue, b"2")
    vhost.clock.advance(0.5)
    assert ready(queue) == [b"2"]
    vhost.clock.advance(0.5)
    assert ready(queue) == []
    assert vhost.dead == [(b"1", "expired"), (b"2", "expired")]


def test_a_message_expires_only_at_the_head(vhost):
    queue = declared(vhost, x_dead_letter_exchange="dlx")
    publish(queue, b"slow", ttl_ms=1000)
    publish(queue, b"fast", ttl_ms=10)
    vhost.clock.advance(0.5)
    assert ready(queue) == [b"slow", b"fast"]
    vhost.clock.advance(0.5)
    assert vhost.dead == [(b"slow", "expired"), (b"fast", "expired")]


@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 5}, {"x_message_ttl": 60_000}])
def test_messages_that_live_long_are_delivered_together_in_the_turn(vhost, arguments):
    queue, consumer = declared(vhost, **arguments), FakeConsumer()
    deliveries = []
    consumer.deliver = lambda entries: deliveries.append([e.message.body for e in entries])
    subscribed(queue, consumer)
    for ttl_ms in (60_000, 50_000, 40_000):
        publish(queue, b"%d" % ttl_ms, ttl_ms=ttl_ms)
    vhost.turns.run_round()
    assert deliveries == [[b"60000", b"50000", b"40000"]]


def test_a_message_that_lives_for_a_moment_is_delivered_at_once(vhost):
    queue, consumer = declared(vhost), FakeConsumer()
    subscribed(queue, consumer)
    publish(queue, b"short", ttl_ms=1)
    assert consumer.bodies == [b"short"]


def test_deliveries_stop_before_the_first_message_that_expired(vhost):
    queue, consumer = declared(vhost), FakeConsumer()
    for body, ttl_ms in ((b"1", 5000), (b"2", 5000), (b"3", 1000), (b"4", 5000)):
        publish(queue, body, ttl_ms=ttl_ms)
    vhost.clock.advance(2)
    subscribed(queue, consumer)
    vhost.turns.run_round()
    assert consumer.bodies == [b"1", b"2", b"4"]
    assert vhost.discarded == ["expired"]


def test_the_first_of_messages_that_waited_for_a_consumer_expires_by_the_timer(vhost):
    queue = declared(vhost)
    publish(queue, b"1", ttl_ms=2000)
    publish(queue, b"2", ttl_ms=3000)
    vhost.clock.advance(2)
    assert ready(queue) == [b"2"]
    vhost.clock.advance(1)
    assert ready(queue) == []


def test_a_message_that_expired_behind_the_head_is_not_delivered(vhost):
    queue, consumer = declared(vhost, x_dead_letter_exchange="dlx"), FakeConsumer()
    publish(queue, b"stays")
    publish(queue, b"goes", ttl_ms=10)
    publish(queue, b"stays too")
    vhost.clock.advance(1)
    subscribed(queue, consumer)
    vhost.turns.run_round()
    assert consumer.bodies == [b"stays", b"stays too"]
    assert vhost.dead == [(b"goes", "expired")]


def test_the_shorter_time_to_live_counts(vhost):
    queue = declared(vhost, x_message_ttl=1000)
    publish(queue, b"own", ttl_ms=100)
    vhost.clock.advance(0.1)
    assert ready(queue) == []
    publish(queue, b"the queue's", ttl_ms=5000)
    vhost.clock.advance(1)
    assert ready(queue) == []


def test_a_time_to_live_of_0_is_for_consumers_that_wait(vhost):
    queue, consumer = declared(vhost, x_dead_letter_exchange="dlx"), FakeConsumer(credit=1)
    publish(queue, b"1", ttl_ms=0)
    subscribed(queue, consumer)
    publish(queue, b"2", b"3", ttl_ms=0)
    assert consumer.bodies == [b"2"]
    assert ready(queue) == []
    assert vhost.dead == [(b"1", "expired"), (b"3", "expired")]


def test_a_delivered_message_does_not_expire_until_it_is_requeued(vhost):
    queue = declared(vhost, x_message_ttl=100, x_dead_letter_exchange="dlx")
    publish(queue, b"1")
    entry = got(queue, True)
    vhost.clock.advance(1)
    assert vhost.dead == []
    queue.requeue([entry])
    assert ready(queue) == []
    assert vhost.dead == [(b"1", "expired")]


def test_get_finds_nothing_that_has_expired(vhost):
    queue = declared(vhost)
    publish(queue, b"head")
    publish(queue, b"1", ttl_ms=10)
    publish(queue, b"2")
    vhost.clock.advance(1)
    assert got(queue, False).message.body == b"head"
    assert got(queue, False).message.body == b"2"


def test_what_get_brings_to_the_head_expires_in_time(vhost):
    queue = declared(vhost)
    publish(queue, b"head")
    publish(queue, b"1", ttl_ms=10)
    got(queue, True)
    vhost.clock.advance(0.01)
    assert ready(queue) == []


def test_what_a_consumer_brings_to_the_head_expires_in_time(vhost):
    queue, consumer = declared(vhost, x_dead_letter_exchange="dlx"), FakeConsumer(credit=1)
    publish(queue, b"head")
    publish(queue, b"1", ttl_ms=10)
    subscribed(queue, consumer)
    vhost.turns.run_round()
    assert consumer.bodies == [b"head"]
    vhost.clock.advance(1)
    assert vhost.dead == [(b"1", "expired")]


def test_a_head_that_expires_sooner_than_the_last_one_expires_in_time(vhost):
    queue = declared(vhost, x_dead_letter_exchange="dlx")
    publish(queue, b"slow", ttl_ms=3_600_000)
    publish(queue, b"fast", ttl_ms=10)
    got(queue, True)
    vhost.clock.advance(1)
    assert vhost.dead == [(b"fast", "expired")]


def test_a_message_that_expires_sooner_than_one_consumed_before_expires_in_time(vhost):
    queue = declared(vhost, x_dead_letter_exchange="dlx")
    publish(queue, b"slow", ttl_ms=3_600_000)
    got(queue, False)
    publish(queue, b"fast", ttl_ms=10)
    vhost.clock.advance(1)
    assert vhost.dead == [(b"fast", "expired")]


# Queues that expire, and that go with their last consumer


def test_a_queue_that_is_not_used_expires(vhost):
    queue = declared(vhost, x_expires=1000)
    vhost.clock.advance(0.999)
    assert not vhost.deleted
    vhost.clock.advance(0.001)
    assert vhost.deleted == [queue]


def test_use_is_a_declaration_or_a_get_but_no_publish(vhost):
    queue = declared(vhost, x_expires=1000)
    vhost.clock.advance(0.6)
    length(queue)
    vhost.clock.advance(0.6)
    got(queue, True)
    vhost.clock.advance(0.6)
    publish(queue, b"1")
    assert not vhost.deleted
    vhost.clock.advance(0.4)
    assert vhost.deleted == [queue]


def test_a_queue_with_a_consumer_does_not_expire(vhost):
    queue, consumer = declared(vhost, x_expires=1000), FakeConsumer()
    subscribed(queue, consumer)
    vhost.clock.advance(10)
    queue.cancel(consumer)
    vhost.clock.advance(0.999)
    assert not vhost.deleted
    vhost.clock.advance(0.001)
    assert vhost.deleted == [queue]


def test_an_auto_delete_queue_goes_with_its_last_consumer(vhost):
    queue, one, two = declared(vhost, auto_delete=True), FakeConsumer("1"), FakeConsumer("2")
    vhost.clock.advance(3600)
    subscribed(queue, one)
    subscribed(queue, two)
    queue.cancel(one)
    assert not vhost.deleted
    queue.cancel(two)
    assert vhost.deleted == [queue]


def test_another_queue_stays(vhost):
    queue, consumer = declared(vhost), FakeConsumer()
    subscribed(queue, consumer)
    queue.cancel(consumer)
    assert not vhost.deleted


def test_messages_go_to_the_remaining_consumers(vhost):
    queue = declared(vhost, x_single_active_consumer=True)
    one, two = FakeConsumer("1", credit=1), FakeConsumer("2")
    subscribed(queue, one)
    subscribed(queue, two)
    publish(queue, b"1", b"2")
    vhost.turns.run_round()
    assert (one.bodies, two.bodies) == ([b"1"], [])
    queue.cancel(one)
    vhost.turns.run_round()
    assert two.bodies == [b"2"]


def test_a_deleted_queue_lets_go_of_its_consumers_and_forgets_its_timers(vhost):
    queue = declared(vhost, x_expires=1000, x_message_ttl=500, x_dead_letter_exchange="dlx")
    consumer = FakeConsumer(credit=0)
    subscribed(queue, consumer)
    publish(queue, b"1", b"2")
    assert queue.delete_now() == [consumer]
    assert queue.is_deleted
    assert consumer.is_without_queue
    vhost.clock.advance(10)
    assert (vhost.dead, vhost.deleted) == ([], [])
    vhost.turns.run_round()


def test_a_message_that_may_not_wait_is_gone_when_it_is_requeued_in_the_same_millisecond(vhost):
    queue, consumer = declared(vhost, x_dead_letter_exchange="dlx"), FakeConsumer(credit=5)
    subscribed(queue, consumer)
    publish(queue, b"x", ttl_ms=0)
    queue.requeue(consumer.entries)
    vhost.turns.run_round()
    assert consumer.bodies == [b"x"]
    assert vhost.dead == [(b"x", "expired")]


def test_a_message_that_may_not_wait_is_delivered_though_the_clock_goes_on(vhost, monkeypatch):
    queue, consumer = declared(vhost), FakeConsumer()
    subscribed(queue, consumer)
    times_ms = iter(range(1, 100))
    monkeypatch.setattr(vhost.clock, "now_ms", lambda: next(times_ms))
    publish(queue, b"x", ttl_ms=0)
    assert consumer.bodies == [b"x"]


# Messages that expire at their times, wherever they are


@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 5}, {"x_max_length": 100}])
def test_a_message_expires_on_time_behind_others(vhost, arguments):
    queue = declared(vhost, x_expire_on_time=True, x_dead_letter_exchange="dlx", **arguments)
    publish(queue, b"stays")
    publish(queue, b"slow", ttl_ms=1000)
    publish(queue, b"fast", ttl_ms=10)
    vhost.clock.advance(0.6)
    vhost.turns.run()
    assert ready(queue) == [b"stays", b"slow"]
    assert vhost.dead == [(b"fast", "expired")]
    vhost.clock.advance(0.6)
    vhost.turns.run()
    assert ready(queue) == [b"stays"]
    assert vhost.dead == [(b"fast", "expired"), (b"slow", "expired")]


def test_the_node_decides_where_the_queue_does_not_say_when_messages_expire(vhost):
    vhost.expires_on_time = True
    queues = [declared(vhost), declared(vhost, x_expire_on_time=False)]
    for queue in queues:
        publish(queue, b"stays")
        publish(queue, b"goes", ttl_ms=10)
    vhost.clock.advance(0.6)
    vhost.turns.run()
    assert [len(ready(queue)) for queue in queues] == [1, 2]


def test_a_policy_decides_later_whether_messages_expire_on_time(vhost):
    queue = declared(vhost)
    publish(queue, b"stays")
    publish(queue, b"goes", ttl_ms=10)
    vhost.clock.advance(0.6)
    vhost.turns.run()
    assert len(ready(queue)) == 2
    queue.apply(queue.options._replace(expires_on_time=True))
    vhost.turns.run()
    assert ready(queue) == [b"stays"]
    queue.apply(queue.options._replace(expires_on_time=False))
    publish(queue, b"goes later", ttl_ms=10)
    vhost.clock.advance(0.6)
    vhost.turns.run()
    assert len(ready(queue)) == 2

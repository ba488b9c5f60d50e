"""A queue, in a vhost that only writes down what it is asked for."""

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.queues.classic.classic_queue import TURN_MESSAGES_MAX
from tests.storage.reading import ready_entries
from tests.unit.broker.queues.fakes import (
    FakeConsumer,
    FakePublisher,
    FakeVhost,
    declared,
    got,
    publish,
    purged,
    ready,
    subscribed,
)


@pytest.fixture
def vhost():
    return FakeVhost()


# Delivering


def test_messages_wait_for_a_consumer_and_come_in_order(vhost):
    queue, consumer = declared(vhost), FakeConsumer()
    publish(queue, b"1", b"2", b"3")
    assert not vhost.turns.woken
    subscribed(queue, consumer)
    vhost.turns.run_round()
    assert consumer.bodies == [b"1", b"2", b"3"]
    assert (queue.counts.published, queue.counts.delivered) == (3, 3)


def test_publishing_wakes_a_queue_that_has_a_consumer(vhost):
    queue, consumer = declared(vhost), FakeConsumer()
    subscribed(queue, consumer)
    publish(queue, b"1", b"2")
    assert consumer.bodies == []
    assert vhost.turns.woken == [queue]
    vhost.turns.run_round()
    assert consumer.bodies == [b"1", b"2"]


def test_consumers_take_turns(vhost):
    queue, one, two = declared(vhost), FakeConsumer("1"), FakeConsumer("2")
    subscribed(queue, one)
    subscribed(queue, two)
    publish(queue, b"1", b"2", b"3")
    vhost.turns.run_round()
    assert (one.bodies, two.bodies) == ([b"1", b"3"], [b"2"])


def test_a_consumer_gets_no_more_than_it_has_room_for(vhost):
    queue, consumer = declared(vhost), FakeConsumer(credit=2)
    subscribed(queue, consumer)
    publish(queue, b"1", b"2", b"3")
    vhost.turns.run_round()
    assert consumer.bodies == [b"1", b"2"]
    assert consumer.is_waiting
    queue.ack([consumer.entries[0]])
    consumer.credit += 1
    queue.credit(consumer)
    vhost.turns.run_round()
    assert consumer.bodies == [b"1", b"2", b"3"]
    assert (queue.backing.unacked_count, queue.counts.acked) == (2, 1)


def test_a_turn_has_an_end(vhost):
    queue, consumer = declared(vhost), FakeConsumer(credit=10**9, no_ack=True)
    publish(queue, *[b"x"] * (TURN_MESSAGES_MAX + 1))
    subscribed(queue, consumer)
    vhost.turns.run_round()
    assert len(consumer.entries) == TURN_MESSAGES_MAX
    vhost.turns.run_round()
    assert len(consumer.entries) == TURN_MESSAGES_MAX + 1
    assert not vhost.turns.woken


def test_without_acks_a_delivered_message_is_gone(vhost):
    queue, consumer = declared(vhost), FakeConsumer(no_ack=True)
    subscribed(queue, consumer)
    publish(queue, b"1")
    vhost.turns.run_round()
    assert queue.backing.unacked_count == 0


def test_get_takes_the_first_message(vhost):
    queue = declared(vhost)
    assert got(queue, True) is None
    publish(queue, b"1", b"2")
    assert got(queue, True).message.body == b"1"
    assert got(queue, False).message.body == b"2"
    assert (queue.backing.unacked_count, queue.counts.got, queue.counts.got_no_ack) == (1, 1, 1)


def test_get_takes_nothing_that_a_consumer_was_to_have(vhost):
    queue, consumer = declared(vhost), FakeConsumer(credit=1)
    subscribed(queue, consumer)
    publish(queue, b"1", b"2")
    assert got(queue, True).message.body == b"2"
    assert consumer.bodies == [b"1"]


def test_purge_leaves_what_a_consumer_was_to_have(vhost):
    queue, consumer = declared(vhost), FakeConsumer(credit=1)
    subscribed(queue, consumer)
    publish(queue, b"1", b"2", b"3")
    assert purged(queue) == 2
    assert consumer.bodies == [b"1"]


def test_priorities_of_messages(vhost):
    queue = declared(vhost, x_max_priority=5)
    for priority in (1, 3, 2):
        header = read_header(encode_properties({"priority": priority}))
        publish(queue, str(priority).encode(), header=header)
    assert ready(queue) == [b"3", b"2", b"1"]


# Settling


def test_requeued_messages_go_back_to_their_places(vhost):
    queue = declared(vhost)
    publish(queue, b"1", b"2", b"3", b"4")
    entries = [got(queue, True) for _ in range(3)]
    queue.requeue([entries[2], entries[0]])
    assert ready(queue) == [b"1", b"3", b"4"]
    assert [entry.redelivered for entry in ready_entries(queue.backing)] == [True, True, False]
    queue.requeue([entries[1]])
    assert ready(queue) == [b"1", b"2", b"3", b"4"]


def test_requeued_messages_go_to_consumers(vhost):
    queue, consumer = declared(vhost), FakeConsumer()
    publish(queue, b"1")
    entry = got(queue, True)
    subscribed(queue, consumer)
    queue.requeue([entry])
    vhost.turns.run_round()
    assert consumer.bodies == [b"1"]


def test_a_rejected_message_is_a_dead_letter_if_the_queue_has_an_exchange_for_it(vhost):
    plain, queue = declared(vhost), declared(vhost, x_dead_letter_exchange="dlx")
    for one in (plain, queue):
        publish(one, b"1")
        one.discard([got(one)])
        assert one.backing.unacked_count == 0
    assert vhost.dead == [(b"1", "rejected")]


def test_messages_settled_after_the_deletion_of_the_queue_are_gone(vhost):
    queue = declared(vhost, x_dead_letter_exchange="dlx")
    publish(queue, b"1", b"2", b"3")
    entries = [got(queue, True) for _ in range(3)]
    queue.close()
    queue.discard([entries[0]])
    queue.requeue([entries[1]])
    queue.ack([entries[2]])
    assert vhost.dead == []
    assert ready(queue) == []


# Limits


def test_max_length_drops_from_the_head(vhost):
    queue = declared(vhost, x_max_length=2, x_dead_letter_exchange="dlx")
    publish(queue, b"1", b"2", b"3", b"4")
    assert ready(queue) == [b"3", b"4"]
    assert vhost.dead == [(b"1", "maxlen"), (b"2", "maxlen")]


def test_max_length_bytes_counts_bodies(vhost):
    queue = declared(vhost, x_max_length_bytes=5)
    publish(queue, b"aaa", b"bb", b"c")
    assert ready(queue) == [b"bb", b"c"]
    publish(queue, b"too large")
    assert ready(queue) == []


def test_max_length_0_keeps_nothing_but_what_can_be_delivered_at_once(vhost):
    queue, consumer = declared(vhost, x_max_length=0), FakeConsumer(credit=1)
    publish(queue, b"1")
    subscribed(queue, consumer)
    publish(queue, b"2", b"3")
    vhost.turns.run_round()
    assert consumer.bodies == [b"2"]
    assert ready(queue) == []


def test_max_length_does_not_count_unacked_messages(vhost):
    queue = declared(vhost, x_max_length=1)
    publish(queue, b"1")
    got(queue, True)
    publish(queue, b"2")
    assert ready(queue) == [b"2"]


def test_max_length_holds_for_requeued_messages(vhost):
    queue = declared(vhost, x_max_length=1, x_dead_letter_exchange="dlx")
    publish(queue, b"1")
    entry = got(queue, True)
    publish(queue, b"2")
    queue.requeue([entry])
    assert ready(queue) == [b"2"]
    assert vhost.dead == [(b"1", "maxlen")]


@pytest.mark.parametrize("limit", [{"x_max_length": 2}, {"x_max_length_bytes": 2}])
def test_reject_publish_refuses_the_new_ones(vhost, limit):
    queue = declared(vhost, x_overflow="reject-publish", x_dead_letter_exchange="dlx", **limit)
    publisher = FakePublisher()
    publish(queue, b"1", b"2", b"3", b"4", publisher=publisher)
    assert ready(queue) == [b"1", b"2"]
    assert publisher.refused == [3, 4]
    assert vhost.dead == []
    got(queue, False)
    publish(queue, b"5", publisher=publisher, first=5)
    assert ready(queue) == [b"2", b"5"]


def test_reject_publish_dlx_dead_letters_the_new_ones(vhost):
    queue = declared(
        vhost, x_max_length=1, x_overflow="reject-publish-dlx", x_dead_letter_exchange="dlx"
    )
    publisher = FakePublisher()
    publish(queue, b"1", b"2", publisher=publisher)
    publish(queue, b"3")
    assert ready(queue) == [b"1"]
    assert publisher.refused == [2]
    assert vhost.dead == [(b"2", "maxlen"), (b"3", "maxlen")]

"""The figures of a queue of this process, read off its parts."""

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.queues.classic.figures import MESSAGE_BYTES, QUEUE_BYTES
from leveret.broker.queues.contract.status import SINGLE_ACTIVE, UP, WAITING, CoarseCounts
from tests.unit.broker.queues.fakes import (
    FakeConsumer,
    FakeVhost,
    declared,
    got,
    publish,
    subscribed,
)


@pytest.fixture
def vhost():
    return FakeVhost()


def test_counts_of_messages_and_consumers(vhost):
    queue = declared(vhost)
    publish(queue, b"a", b"b", b"c", b"d")
    got(queue, ack_required=True)
    got(queue, ack_required=False)
    subscribed(queue, FakeConsumer(credit=1))
    vhost.turns.run_round()
    assert queue.figures.counts() == CoarseCounts(
        ready=1, unacked=2, consumers=1, published=4, delivered=1, got=1, got_no_ack=1
    )


def test_messages_are_those_that_are_ready_and_those_that_are_unacked():
    counts = CoarseCounts(ready=3, unacked=2, delivered=5, delivered_no_ack=6, got=7, got_no_ack=8)
    assert counts.messages == 5
    assert counts.deliver_get == 26


def test_an_empty_queue_has_no_oldest_message(vhost):
    assert declared(vhost).figures.ages().oldest_ready_ms is None


def test_the_age_of_the_oldest_message_and_the_times_of_those_that_left(vhost):
    queue = declared(vhost)
    publish(queue, b"a", b"b")
    vhost.clock.advance(5)
    vhost.turns.now_ms += 5000
    got(queue, ack_required=False)
    ages = queue.figures.ages()
    assert ages.oldest_ready_ms == pytest.approx(5000, abs=2)
    assert sum(ages.waited_counts) == 1
    assert ages.waited_ms == pytest.approx(5000, abs=2)


def test_the_memory_of_a_queue_grows_with_its_messages_and_their_bodies(vhost):
    queue = declared(vhost)
    assert queue.figures.status().memory_bytes == QUEUE_BYTES
    publish(queue, b"12345")
    assert queue.figures.status().memory_bytes == QUEUE_BYTES + MESSAGE_BYTES + 5


def test_the_timestamp_of_the_first_message(vhost):
    queue = declared(vhost)
    publish(queue, b"x", header=read_header(encode_properties({"timestamp": 1_700_000_000})))
    publish(queue, b"y")
    assert queue.figures.status().head_timestamp_s == 1_700_000_000
    got(queue, ack_required=False)
    assert queue.figures.status().head_timestamp_s is None


def test_the_capacity_is_the_share_of_consumers_with_room(vhost):
    queue = declared(vhost)
    assert queue.figures.status().consumer_capacity == 0
    subscribed(queue, FakeConsumer(credit=0))
    subscribed(queue, FakeConsumer(credit=10))
    assert queue.figures.status().consumer_capacity == 0.5


def test_every_consumer_is_up(vhost):
    queue = declared(vhost)
    subscribed(queue, FakeConsumer("first"))
    subscribed(queue, FakeConsumer("second", no_ack=True))
    first, second = queue.figures.consumers()
    assert (first.tag, first.ack_required, first.activity) == ("first", True, UP)
    assert (second.tag, second.ack_required, second.activity) == ("second", False, UP)


def test_with_a_single_active_consumer_the_others_wait(vhost):
    queue = declared(vhost, x_single_active_consumer=True)
    subscribed(queue, FakeConsumer("first"))
    subscribed(queue, FakeConsumer("second"))
    first, second = queue.figures.consumers()
    assert (first.activity, first.is_active) == (SINGLE_ACTIVE, True)
    assert (second.activity, second.is_active) == (WAITING, False)
    assert queue.figures.status().single_active_consumer_tag == "first"


def test_a_tag_that_is_not_utf8_is_shown_with_replacement_characters(vhost):
    queue = declared(vhost)
    consumer = FakeConsumer(b"\xff".decode("utf-8", "surrogateescape"))
    consumer.is_exclusive = True
    subscribed(queue, consumer)
    assert queue.figures.status().exclusive_consumer_tag == "\N{REPLACEMENT CHARACTER}"

"""Quorum queues: what is kept with a returned message, and rules that a client cannot see."""

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.queues.classic.priority import PriorityQueue
from leveret.broker.queues.quorum.quorum_queue import RETURN_WORK, QuorumQueue
from leveret.broker.queues.quorum.returned import RETURNS
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import WORK_MAX
from leveret.storage.queue.transient_queue import TransientQueue
from tests.unit.broker.queues.fakes import (
    FakeConsumer,
    FakePublisher,
    FakeVhost,
    got,
    publish,
    ready,
    specified,
    subscribed,
)


@pytest.fixture
def vhost():
    return FakeVhost()


def declared(vhost, **arguments):
    """Declare a quorum queue; x_max_length=5 is its argument x-max-length."""
    letters = {int: "I", str: "S", bool: "t"}
    table = {
        name.replace("_", "-"): (letters[type(value)], value) for name, value in arguments.items()
    }
    return QuorumQueue(vhost, specified(table, durable=True))


def headers_of(entry):
    return entry.message.header.headers


def with_headers(**headers):
    table = {name.replace("_", "-"): field for name, field in headers.items()}
    return read_header(encode_properties({"headers": table}))


class TestReturns:
    def test_a_returned_message_is_kept_with_its_count_and_shown_without_the_mark(self, vhost):
        queue = declared(vhost)
        publish(queue, b"a", header=with_headers(own=("I", 1)))
        queue.requeue([got(queue)])
        (kept,) = queue.backing.cursor().read(1000)
        assert RETURNS in headers_of(kept)
        shown = got(queue)
        assert headers_of(shown) == {"own": ("I", 1), "x-delivery-count": ("l", 1)}
        assert shown.redelivered

    def test_a_header_that_only_the_broker_sets_is_taken_from_publishers(self, vhost):
        queue = declared(vhost, x_delivery_limit=3)
        mark = ("A", [("l", 99), ("t", True)])
        publish(queue, b"a", b"b", header=with_headers(x_leveret_returns=mark))
        assert headers_of(got(queue)) == {"x-delivery-count": ("l", 0)}
        assert headers_of(got(queue)) == {"x-delivery-count": ("l", 0)}

    def test_messages_delivered_before_the_node_stopped_were_returned_once(self, vhost):
        queue = declared(vhost)
        publish(queue, b"a", b"b")
        queue.requeue([got(queue)])
        restored = queue.backing.fetch(2, ack_required=True)
        queue.backing.requeue(restored, redelivered=True)
        counts = {entry.message.body: headers_of(entry)["x-delivery-count"][1]
                  for entry in (got(queue), got(queue))}  # fmt: skip
        assert counts == {b"a": 2, b"b": 1}

    def test_nothing_stays_unacknowledged_when_messages_are_returned(self, vhost):
        queue = declared(vhost, x_delivery_limit=1)
        publish(queue, *[b"x"] * 5)
        queue.requeue([got(queue) for _ in range(5)])
        queue.requeue([got(queue) for _ in range(2)], is_failed=True)
        counts = queue.figures.counts()
        assert (counts.ready, counts.unacked) == (3, 0)
        assert vhost.discarded == ["delivery_limit"] * 2

    def test_very_many_are_returned_in_several_turns_and_in_order(self, vhost):
        queue = declared(vhost)
        bodies = [b"%d" % number for number in range(2 * WORK_MAX // RETURN_WORK + 10)]
        publish(queue, *bodies)
        queue.requeue([got(queue) for _ in bodies])
        counts = queue.figures.counts()
        assert counts.ready == WORK_MAX // RETURN_WORK
        assert counts.messages == len(bodies)
        while vhost.turns.woken:
            vhost.turns.run_round()
        assert ready(queue) == bodies

    def test_an_expired_message_is_dead_lettered_as_it_was_published(self, vhost):
        queue = declared(vhost, x_dead_letter_exchange="")
        letters = []
        vhost.dead_letter = lambda queue, messages, reason: letters.append((messages, reason))
        publish(queue, b"a", ttl_ms=50, header=with_headers(own=("I", 1)))
        queue.requeue([got(queue)])
        vhost.clock.advance(0.051)
        (((message,), reason),) = letters
        assert reason == "expired"
        assert message.header.headers == {"own": ("I", 1)}

    def test_a_deleted_queue_takes_nothing_back(self, vhost):
        queue = declared(vhost)
        publish(queue, b"a")
        entry = got(queue)
        queue.delete_now()
        queue.requeue([entry])
        vhost.turns.run_round()
        assert not queue.figures.counts().ready


class AskedQueue(PriorityQueue):
    """Counts the waits until all is on disk, each of which has the log written at once."""

    __slots__ = ("asked",)

    def when_safe(self, waiter, first, holder):
        self.asked += 1
        super().when_safe(waiter, first, holder)


class AskedVhost(FakeVhost):
    def make_backing(self, queue, levels):
        backing = AskedQueue(levels, lambda level: TransientQueue())
        backing.asked = 0
        return backing


class TestCountingDeliveries:
    def test_with_a_limit_deliveries_are_written_in_their_round(self):
        vhost = AskedVhost()
        queue = declared(vhost, x_delivery_limit=3)
        publish(queue, b"a", b"b", b"c")
        got(queue)
        assert queue.backing.asked == 1
        subscribed(queue, FakeConsumer())
        vhost.turns.run_round()
        assert queue.backing.asked == 2

    def test_what_needs_no_ack_is_not_counted(self):
        vhost = AskedVhost()
        queue = declared(vhost, x_delivery_limit=3)
        publish(queue, b"a", b"b")
        got(queue, ack_required=False)
        subscribed(queue, FakeConsumer(no_ack=True))
        vhost.turns.run_round()
        assert queue.backing.asked == 0

    def test_without_a_limit_they_cost_nothing(self):
        vhost = AskedVhost()
        queue = declared(vhost)
        publish(queue, b"a", b"b")
        got(queue)
        subscribed(queue, FakeConsumer())
        vhost.turns.run_round()
        assert queue.backing.asked == 0


class TestKeeping:
    def test_every_message_is_persistent(self, vhost):
        queue = declared(vhost)
        publish(queue, b"a", b"b")
        first, second = queue.backing.cursor().read(1000)
        assert first.message.header.is_persistent
        assert first.message.header is second.message.header, "messages of a run share it"


class TestRefusing:
    def test_it_takes_one_more_than_the_limit_and_then_waits_for_room(self, vhost):
        queue = declared(vhost, x_max_length=10, x_overflow="reject-publish")
        publisher = FakePublisher()
        publish(queue, *[b"x"] * 12, publisher=publisher)
        assert publisher.refused == [12]
        for number in (13, 14):
            got(queue, ack_required=False)
            publish(queue, b"x", publisher=publisher, first=number)
        assert publisher.refused == [12, 13, 14], "nine messages are still there"
        got(queue, ack_required=False)
        publish(queue, b"x", publisher=publisher, first=15)
        assert publisher.refused == [12, 13, 14]

    def test_bytes_count_likewise(self, vhost):
        queue = declared(vhost, x_max_length_bytes=10, x_overflow="reject-publish")
        publisher = FakePublisher()
        publish(queue, b"123456", b"123456", b"1", publisher=publisher)
        assert publisher.refused == [3]

    def test_dead_lettering_of_refused_messages_is_not_supported(self, vhost):
        queue = declared(vhost, x_max_length=1, x_overflow="reject-publish-dlx")
        publish(queue, b"a", b"b")
        assert ready(queue) == [b"b"]


class TestConsumers:
    def test_the_first_consumer_is_the_active_one(self, vhost):
        queue = declared(vhost, x_single_active_consumer=True)
        first, second = FakeConsumer("first"), FakeConsumer("second")
        second.priority = 5
        subscribed(queue, first)
        subscribed(queue, second)
        publish(queue, b"a")
        vhost.turns.run_round()
        assert (first.bodies, second.bodies) == ([b"a"], [])

    def test_it_is_no_use_to_look_at_the_length(self, vhost):
        queue = declared(vhost, x_expires=1000)
        vhost.clock.advance(0.6)
        queue.length(Answer())
        vhost.clock.advance(0.6)
        assert vhost.deleted == [queue]

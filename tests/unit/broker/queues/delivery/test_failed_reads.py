"""A queue whose messages cannot be read waits for them, and after ten seconds it has crashed."""

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.queues.classic.priority import PriorityQueue
from leveret.broker.queues.contract.priority_levels import priority_levels
from leveret.broker.runtime.pending import Answer
from leveret.storage.contract.backing_queue import BeingRead, Unreadable
from leveret.storage.messages.message import Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.queue.transient_queue import TransientQueue
from tests.unit.broker.queues.fakes import (
    ADDRESS,
    FakeConsumer,
    FakePublisher,
    FakeVhost,
    declared,
    deleted,
    got,
    length,
    publish,
    purged,
    ready,
    subscribed,
)

CRASHED_TEXT = "queue 'q' in vhost '/' has crashed and failed to restart"


class UnreadableQueue(TransientQueue):
    """A backing queue on a disk that fails while `error` is set. reads: how many failed."""

    error = ""
    reads = 0

    def _read(self):
        if self.error and self.ready_count:
            self.reads += 1
            raise Unreadable(self.error)

    def peek(self):
        self._read()
        return super().peek()

    def fetchable(self, count):
        self._read()
        return super().fetchable(count)

    def fetch(self, count, ack_required):
        self._read()
        return super().fetch(count, ack_required)


class QueueBeingRead(UnreadableQueue):
    """A backing queue whose messages are being read while `done` has who waits."""

    def __init__(self):
        super().__init__()
        self.done = []

    def _read(self):
        if self.done is not None and self.ready_count:
            raise BeingRead("FILE", self.done.append)
        super()._read()

    def is_read(self):
        """What was being read was read."""
        done, self.done = self.done, None
        for callback in done:
            callback()


@pytest.fixture
def vhost():
    vhost = FakeVhost()
    vhost.make_backing = lambda queue, levels: UnreadableQueue()
    return vhost


def failing(vhost, *bodies, ttl_ms=None, **arguments):
    """A queue with these messages, which cannot be read."""
    queue = declared(vhost, **arguments)
    publish(queue, *bodies, ttl_ms=ttl_ms)
    queue.backing.error = "cannot open FILE: Too many open files"
    return queue


def asked(queue, ack_required=True):
    answer = Answer()
    queue.get(ack_required, answer)
    return answer


def test_a_get_waits_until_the_message_can_be_read(vhost, caplog):
    queue = failing(vhost, b"1", b"2")
    first, second = asked(queue), asked(queue)
    vhost.clock.advance(5)
    assert not first.is_given
    assert caplog.text.count("Too many open files") == 1
    queue.backing.error = ""
    vhost.clock.advance(0.1)
    assert first.result().entry.message.body == b"1"
    assert second.result().entry.message.body == b"2"
    assert "can be read again" in caplog.text


def test_an_abandoned_get_takes_nothing(vhost):
    queue = failing(vhost, b"1")
    asked(queue, ack_required=False).abandon()
    queue.backing.error = ""
    vhost.clock.advance(0.1)
    assert ready(queue) == [b"1"]


def test_consumers_get_their_messages_when_they_can_be_read(vhost):
    queue, consumer = failing(vhost, b"1", b"2"), FakeConsumer()
    subscribed(queue, consumer)
    vhost.turns.run_round()
    publish(queue, b"3")
    vhost.turns.run_round()
    assert queue.backing.reads == 1, "the disk is asked again by the timer only"
    queue.backing.error = ""
    vhost.clock.advance(0.1)
    vhost.turns.run_round()
    assert consumer.bodies == [b"1", b"2", b"3"]


def test_a_publisher_does_not_notice_that_older_messages_cannot_be_read(vhost):
    queue = failing(vhost, b"1", x_max_length=1, x_message_ttl=1000)
    publish(queue, b"2")
    queue.backing.error = ""
    vhost.clock.advance(0.1)
    assert ready(queue) == [b"2"], "the limit is enforced later"


def test_a_get_that_waits_gets_none_that_is_over_the_limit_by_then(vhost):
    queue = failing(vhost, b"1", x_max_length=1)
    answer = asked(queue)
    publish(queue, b"2")
    queue.backing.error = ""
    vhost.clock.advance(0.1)
    assert answer.result().entry.message.body == b"2"


def test_messages_expire_when_they_can_be_read(vhost):
    queue = failing(vhost, b"1", ttl_ms=1000)
    vhost.clock.advance(2)
    assert vhost.discarded == []
    queue.backing.error = ""
    vhost.clock.advance(0.1)
    assert vhost.discarded == ["expired"]


def crashed(vhost, *bodies):
    queue = failing(vhost, *bodies)
    answer = asked(queue)
    vhost.clock.advance(11)
    with pytest.raises(ChannelFault, match=CRASHED_TEXT) as caught:
        answer.result()
    assert caught.value.reply_code == 404
    return queue


def test_a_queue_that_cannot_be_read_for_ten_seconds_has_crashed(vhost, caplog):
    queue = failing(vhost, b"1")
    consumer = subscribed(queue, FakeConsumer())
    vhost.turns.run_round()
    vhost.clock.advance(9)
    assert queue.figures.status().state == "running"
    assert not consumer.was_told
    vhost.clock.advance(2)
    assert queue.figures.status().state == "crashed"
    assert consumer.was_told
    assert queue.figures.consumers() == []
    assert f"{CRASHED_TEXT[:22]} has crashed: cannot open FILE" in caplog.text


@pytest.mark.parametrize("ask", [got, length, purged, lambda it: subscribed(it, FakeConsumer())])
def test_a_crashed_queue_answers_as_in_rabbitmq(vhost, ask):
    queue = crashed(vhost, b"1")
    with pytest.raises(ChannelFault, match=CRASHED_TEXT):
        ask(queue)
    assert queue.backing.ready_count == 1


def test_a_crashed_queue_refuses_messages_and_keeps_dead_letters(vhost):
    queue, publisher = crashed(vhost, b"1"), FakePublisher()
    publish(queue, b"2", b"3", publisher=publisher, first=7)
    assert publisher.refused == [7, 8]
    publish(queue, b"a dead letter")
    assert ready(queue) == [b"1", b"a dead letter"]


def test_a_crashed_queue_can_be_deleted_even_if_it_is_not_empty(vhost):
    queue = crashed(vhost, b"1")
    assert deleted(queue, if_unused=True, if_empty=True) == 1
    vhost.clock.advance(60)
    assert queue.is_deleted


def test_a_crashed_queue_works_again_when_its_messages_can_be_read(vhost):
    queue, publisher = crashed(vhost, b"1"), FakePublisher()
    queue.backing.error = ""
    vhost.clock.advance(5)
    assert queue.figures.status().state == "running"
    publish(queue, b"2", publisher=publisher)
    assert publisher.refused == []
    consumer = subscribed(queue, FakeConsumer())
    vhost.turns.run_round()
    assert consumer.bodies == [b"1", b"2"]


def test_a_get_that_waits_is_answered_when_the_queue_is_deleted(vhost):
    queue = failing(vhost, b"1")
    answer = asked(queue)
    deleted(queue)
    with pytest.raises(ChannelFault, match="no queue 'q' in vhost '/'"):
        answer.result()


def test_messages_behind_a_priority_that_cannot_be_read_wait():
    queue = PriorityQueue(priority_levels(2), lambda level: UnreadableQueue())
    for priority, body in ((0, b"low"), (1, b"middle"), (2, b"high")):
        header = read_header(encode_properties({"priority": priority}))
        queue.publish(run_of([Message(ADDRESS, header, body)]), 0)
    middle = queue.levels_from(1)[0][1]
    middle.error = "an input error"
    assert queue.fetchable(3) == 1
    assert [entry.message.body for entry in queue.fetch(3, True)] == [b"high"]
    for read in (queue.peek, queue.drop, lambda: queue.fetchable(3), lambda: queue.fetch(3, True)):
        with pytest.raises(Unreadable):
            read()
    middle.error = ""
    assert [entry.message.body for entry in queue.fetch(3, True)] == [b"middle", b"low"]


class TestALargeMessageThatIsBeingRead:
    @pytest.fixture
    def queue(self, vhost):
        vhost.make_backing = lambda queue, levels: QueueBeingRead()
        queue = declared(vhost)
        publish(queue, b"1", b"2")
        return queue

    def test_a_get_waits_for_it(self, queue, caplog):
        answer = asked(queue)
        assert not answer.is_given
        queue.backing.is_read()
        assert answer.result().entry.message.body == b"1"
        assert not caplog.records

    def test_consumers_wait_for_it(self, vhost, queue):
        consumer = FakeConsumer()
        subscribed(queue, consumer)
        vhost.turns.run()
        assert consumer.bodies == []
        queue.backing.is_read()
        vhost.turns.run()
        assert consumer.bodies == [b"1", b"2"]

    def test_gets_are_answered_in_their_order(self, queue):
        first = asked(queue)
        (call_back,), queue.backing.done = queue.backing.done, None
        second = asked(queue)
        assert not second.is_given
        call_back()
        assert [one.result().entry.message.body for one in (first, second)] == [b"1", b"2"]

    def test_it_is_no_failure_however_long_it_takes(self, vhost, queue):
        answer = asked(queue)
        vhost.clock.advance(60)
        assert not queue.reads.has_crashed
        queue.backing.is_read()
        assert answer.is_given

    def test_reading_it_may_fail(self, vhost, queue, caplog):
        answer = asked(queue)
        queue.backing.error = "cannot read FILE: Input/output error"
        queue.backing.is_read()
        assert "reading is retried" in caplog.text
        queue.backing.error = ""
        vhost.clock.advance(0.1)
        assert answer.result().entry.message.body == b"1"

    def test_a_queue_that_was_deleted_meanwhile_asks_for_nothing(self, queue):
        answer = asked(queue)
        queue.close()
        queue.backing.is_read()
        with pytest.raises(ChannelFault):
            answer.result()

"""What clients ask of a queue while it is converted, and of the object afterwards."""

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.declarations.requester import THE_NODE
from leveret.cluster.quorum.conversion.held_queue import HeldQueue
from tests.unit.broker.queues.fakes import FakeConsumer, FakeVhost, declared, publish, subscribed
from tests.unit.cluster.mirrors.fakes import asked
from tests.unit.cluster.remote_queues.fakes import Publisher


@pytest.fixture
def vhost():
    return FakeVhost()


@pytest.fixture
def queue(vhost):
    return declared(vhost)


@pytest.fixture
def successor(vhost):
    return declared(vhost)


@pytest.fixture
def held(queue):
    return HeldQueue("/", queue, lambda: None)


def test_what_is_asked_is_done_in_order_by_the_queue_that_it_is_released_to(held, successor):
    publish(held, b"1", b"2")
    first = asked(held.get, True)
    publish(held, b"3")
    length = asked(held.length)
    purged = asked(held.purge)
    publish(held, b"4")
    assert not first.is_given
    held.release(successor)
    assert first.result().entry.message.body == b"1"
    assert (length.result().ready_count, purged.result()) == (2, 2)
    assert asked(held.get, False).result().entry.message.body == b"4"


def test_settlements_are_passed_on(held, queue, successor):
    publish(successor, b"1", b"2", b"3")
    first, second, third = (asked(successor.get, True).result().entry for _ in range(3))
    held.ack([first])
    held.discard([second])
    assert successor.backing.unacked_count == 3
    held.release(successor)
    held.requeue([third])
    assert (successor.backing.unacked_count, successor.backing.ready_count) == (0, 1)
    assert not queue.backing.ready_count


def test_a_run_is_held_until_the_queue_has_it(held, successor):
    publisher = Publisher()
    publish(held, b"1", b"2", publisher=publisher)
    assert (publisher.owed, publisher.confirmed) == ({1: 1, 2: 1}, [])
    held.release(successor)
    assert (publisher.confirmed, successor.backing.ready_count) == ([1, 2], 2)


def test_publishers_of_many_messages_wait(held, successor):
    resumed = []
    assert held.publisher_hold.is_wanted
    held.publisher_hold.begin(lambda: resumed.append(True))
    assert not resumed
    held.release(successor)
    assert resumed == [True]


def test_consumers_are_subscribed_again(held, vhost, successor):
    stays, ends, comes = FakeConsumer("stays"), FakeConsumer("ends"), FakeConsumer("comes")
    held.consumers.update({stays: None, ends: None})
    assert asked(lambda answer: held.cancel(ends, answer=answer)).is_given
    subscription = asked(held.subscribe, comes)
    publish(successor, b"1", b"2")
    held.release(successor)
    vhost.turns.run()
    assert subscription.is_given
    assert [one.bodies for one in (stays, ends, comes)] == [[b"1"], [], [b"2"]]
    assert stays.queue is comes.queue is successor


def test_a_consumer_that_cannot_be_subscribed_again_is_told(held, successor):
    alone = FakeConsumer("alone")
    alone.is_exclusive = True
    subscribed(successor, alone)
    loses = FakeConsumer("loses")
    held.consumers[loses] = None
    held.release(successor)
    assert loses.is_without_queue
    assert loses.was_told


def test_a_queue_that_is_deleted_meanwhile(held, queue):
    publisher, consumer = Publisher(), FakeConsumer()
    held.consumers[consumer] = None
    publish(held, b"1", publisher=publisher)
    got = asked(held.get, True)
    deleted = asked(held.delete, False, False, THE_NODE)
    cancelled = asked(lambda answer: held.cancel(FakeConsumer(), answer=answer))
    assert held.delete_now() == [consumer]
    assert (queue.is_deleted, consumer.is_without_queue, publisher.died) == (True, True, [False])
    assert cancelled.is_given
    for answer in (got, deleted, asked(held.length)):
        with pytest.raises(ChannelFault, match="no queue 'q'"):
            answer.result()
    publish(held, b"2", publisher=publisher)
    assert not publisher.owed


def test_its_successor_gets_what_was_kept_when_it_has_the_name(queue, successor):
    held = HeldQueue("/", queue, lambda: successor)
    publish(held, b"1")
    assert held.delete_now() == ()
    assert successor.backing.ready_count == 1

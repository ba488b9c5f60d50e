"""The client of a mirrored queue: one queue through all changes of the leader."""

import pytest

from leveret.broker.amqp.errors import ChannelFault, access_refused
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.runtime.pending import Answer
from leveret.cluster.mirrors.leader_session import STALE
from leveret.cluster.remote_queues.queue_frames import REMOTE_TAGS
from leveret.storage.messages.message import Entry, Message
from tests.unit.broker.queues.fakes import ADDRESS, HEADER, FakeConsumer, publish
from tests.unit.cluster.mirrors.fakes import B, asked, led, lose, mirrored
from tests.unit.cluster.remote_queues.fakes import Publisher


def entry(position):
    return Entry(Message(ADDRESS, HEADER, b"x"), position)


def consuming(queue, leader, consumer):
    """The consumer, which the leader has added."""
    subscribed = asked(queue.subscribe, consumer)
    leader.answer(None)
    subscribed.result()
    return consumer


class TestQuestions:
    def test_the_leader_answers(self):
        queue = mirrored()
        leader = led(queue)
        purged = asked(queue.purge)
        leader.answer(5)
        assert purged.result() == 5

    def test_a_leader_of_this_node_is_asked_directly(self):
        queue = mirrored()
        leader = led(queue, is_here=True)
        answer = Answer()
        queue.get(True, answer)
        assert leader.asked == [("get", answer)]

    def test_a_refusal_is_passed_on(self):
        queue = mirrored()
        leader = led(queue)
        deleted = asked(queue.delete, True, False, THE_NODE)
        leader.refuse(access_refused("no"))
        with pytest.raises(ChannelFault, match="no"):
            deleted.result()

    def test_what_a_lost_leader_has_not_answered_is_asked_of_the_next(self):
        queue = mirrored()
        first = led(queue)
        got, length = asked(queue.get, True), asked(queue.length)
        lose(queue, first)
        assert not got.is_given
        second = led(queue, home=B)
        assert second.questions == ["get", "length"]
        second.answer(None)
        second.answer("length")
        assert (got.result(), length.result()) == (None, "length")

    def test_requests_wait_while_there_is_no_leader(self):
        queue = mirrored()
        purged = asked(queue.purge)
        led(queue).answer(3)
        assert purged.result() == 3

    def test_a_queue_that_waits_for_its_node_refuses(self):
        queue = mirrored()
        lose(queue, led(queue))
        waiting = asked(queue.get, True)
        queue.awaits()
        for answer in (waiting, asked(queue.length)):
            with pytest.raises(ChannelFault, match="home node 'a@host' of durable queue 'q'"):
                answer.result()
        assert queue.is_down
        led(queue)
        assert not queue.is_down

    def test_a_late_answer_of_an_earlier_leader_does_not_count(self):
        queue = mirrored()
        first = led(queue)
        purged = asked(queue.purge)
        queue.leader_lost([])
        second = led(queue, home=B)
        first.answer(1)
        assert not purged.is_given
        second.answer(2)
        assert purged.result() == 2


class TestConsumers:
    def test_they_are_with_the_next_leader(self):
        queue = mirrored()
        first = led(queue)
        one = consuming(queue, first, FakeConsumer("1"))
        other = consuming(queue, first, FakeConsumer("2"))
        lose(queue, first)
        second = led(queue, home=B)
        assert list(second.consumers) == [one, other]
        assert not one.is_without_queue

    def test_one_that_is_being_added_is_added_once(self):
        queue = mirrored()
        first = led(queue)
        subscribed = asked(queue.subscribe, FakeConsumer())
        lose(queue, first)
        second = led(queue, home=B)
        assert second.questions == ["subscribe"]
        second.answer(None)
        assert subscribed.is_given

    def test_one_that_is_being_removed_is_not_added(self):
        queue = mirrored()
        first = led(queue)
        consumer = consuming(queue, first, FakeConsumer())
        cancelled = Answer()
        queue.cancel(consumer, answer=cancelled)
        lose(queue, first)
        assert cancelled.is_given
        assert not led(queue, home=B).consumers

    def test_a_consumer_whose_channel_ends_without_a_leader_is_not_added(self):
        queue = mirrored()
        first = led(queue)
        consumer = consuming(queue, first, FakeConsumer())
        asked(queue.subscribe, late := FakeConsumer("late"))
        lose(queue, first)
        for one in (consumer, late):
            queue.cancel(one, channel_ended=True)
        assert not led(queue, home=B).consumers

    def test_one_that_the_next_leader_refuses_is_told(self):
        queue = mirrored()
        first = led(queue)
        consumer = consuming(queue, first, FakeConsumer())
        lose(queue, first)
        led(queue, home=B).refuse(access_refused("in exclusive use"))
        assert consumer.is_without_queue
        assert consumer.was_told

    def test_those_of_a_queue_that_waits_for_its_node_are_told(self):
        queue = mirrored()
        first = led(queue)
        consumer = consuming(queue, first, FakeConsumer())
        lose(queue, first)
        queue.awaits()
        assert consumer.is_without_queue
        assert consumer.was_told

    def test_one_that_wants_no_other_leader_is_told(self):
        queue = mirrored()
        first = led(queue)
        consumer = consuming(queue, first, FakeConsumer())
        consumer.cancels_on_failover = True
        lose(queue, first)
        assert not led(queue, home=B).consumers
        assert consumer.was_told

    def test_room_is_the_leaders_to_know(self):
        queue = mirrored()
        leader = led(queue)
        consumer = consuming(queue, leader, FakeConsumer())
        queue.credit(consumer)
        assert leader.credited == [consumer]
        lose(queue, leader)
        queue.credit(consumer)


class TestDemand:
    def test_the_leader_keeps_it(self):
        queue, demand = mirrored(), Demand()
        queue.watch(demand)
        first = led(queue, is_here=True)
        assert first.demand is demand
        queue.watch(None)
        assert first.demand is None

    def test_it_ends_while_there_is_no_leader(self):
        told = []
        queue, demand = mirrored(), Demand()
        demand.listeners.append(lambda: told.append("changed"))
        first = led(queue, is_here=True)
        queue.watch(demand)
        demand.is_there = True
        lose(queue, first)
        assert told == ["changed"]
        assert not demand.is_there
        assert led(queue, is_here=True).demand is demand


class TestSettling:
    def test_the_leader_settles(self):
        queue = mirrored()
        leader = led(queue)
        tag = REMOTE_TAGS + 5
        queue.ack([entry(tag)])
        queue.requeue([entry(tag + 1)])
        queue.discard([entry(tag + 2)])
        assert leader.settled == [("ack", tag), ("requeue", tag + 1), ("discard", tag + 2)]

    def test_what_an_earlier_leader_has_delivered_is_stale(self):
        queue = mirrored()
        lose(queue, led(queue))
        queue.ack([entry(REMOTE_TAGS + 1)])
        here = led(queue, is_here=True, home=B)
        queue.ack([entry(REMOTE_TAGS + 1), entry(1)])
        assert here.settled == [("ack", 1)]
        queue.leader_lost([])
        remote = led(queue)
        queue.ack([entry(1), entry(STALE), entry(REMOTE_TAGS + 2)])
        assert remote.settled == [("ack", REMOTE_TAGS + 2)]

    def test_after_a_change_of_the_leader_messages_may_come_again(self):
        queue = mirrored()
        first = led(queue)
        assert not queue.may_redeliver
        lose(queue, first)
        led(queue, home=B)
        assert queue.may_redeliver


def test_publishing_does_not_depend_on_the_leader():
    queue, publisher = mirrored(), Publisher()
    publish(queue, b"1", publisher=publisher, first=1)
    leader = led(queue)
    publish(queue, b"2", publisher=publisher, first=2)
    lose(queue, leader)
    publish(queue, b"3", publisher=publisher, first=3)
    assert publisher.owed == {1: 1, 2: 1, 3: 1}


def test_the_next_leader_has_the_queues_options():
    queue = mirrored()
    first = led(queue)
    queue.policy = "policy"
    options = QueueOptions(max_length=3)
    queue.apply(options)
    assert (first.options, first.policy) == (options, "policy")
    lose(queue, first)
    second = led(queue, home=B)
    assert (second.options, second.policy) == (options, "policy")


class TestDeletion:
    def test_requests_are_answered_before_consumers_are_told(self):
        queue, publisher = mirrored(), Publisher()
        leader = led(queue)
        publish(queue, b"1", publisher=publisher)
        consumer = consuming(queue, leader, FakeConsumer())
        purged, deleted = asked(queue.purge), asked(queue.delete, False, False, THE_NODE)
        assert queue.delete_now() == [consumer]
        assert purged.is_given
        assert not deleted.is_given
        leader.answer(4)
        assert deleted.result() == 4
        assert publisher.died == [True]

    def test_without_a_leader_all_that_waits_is_refused(self):
        queue = mirrored()
        first = led(queue)
        consumer = consuming(queue, first, FakeConsumer())
        waiting = asked(queue.length)
        lose(queue, first)
        assert queue.delete_now() == [consumer]
        assert consumer.is_without_queue
        with pytest.raises(ChannelFault, match="no queue 'q'"):
            waiting.result()


def test_the_figures_are_the_leaders():
    queue = mirrored()
    assert queue.figures.status().state == "down"
    leader = led(queue)
    leader.figures = "figures"
    assert queue.figures == "figures"

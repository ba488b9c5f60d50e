"""Clients of a quorum queue without a leader, with another one, or whose node is taken for gone."""

import pytest

from leveret.broker.amqp.errors import ConnectionFault
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.client.length_requests import LENGTH_MS
from leveret.cluster.replicated_queues.client.unapplied_hold import WINDOW_BYTES
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.quorum.group_of_one import ANSWER_MS, LimitedConsumer, Use, run_of
from tests.unit.cluster.remote_queues.fakes import Publisher


@pytest.fixture
def use():
    return Use()


@pytest.fixture
def queue(use):
    return use.queue


# Changes of the leader


def test_publishes_are_sent_again_to_the_next_leader(use, queue):
    publisher = Publisher()
    use.group.loses = True
    queue.publish(run_of(b"1", publisher=publisher))
    use.settle()
    use.group.stop_leading()
    queue.publish(run_of(b"2", publisher=publisher, first=2))
    use.settle()
    assert publisher.confirmed == []
    use.group.loses = False
    use.group.lead()
    use.settle()
    assert publisher.confirmed == [1, 2]
    assert use.figures.ready == 2


def test_what_was_applied_is_not_doubled(use, queue):
    """The leader applies a publish, and is lost before it says so."""
    publisher = Publisher()
    queue.publish(run_of(b"1", publisher=publisher))
    use.settle()
    use.group.sessions = {}
    queue.publish(run_of(b"2", publisher=publisher, first=2))
    use.settle()
    assert (use.figures.ready, publisher.confirmed) == (2, [1])
    use.group.stop_leading()
    use.group.lead()
    use.settle()
    assert (use.figures.ready, publisher.confirmed) == (2, [1, 2])


def test_deliveries_that_were_lost_with_a_leader_come_from_the_next_one(use, queue):
    consumer = use.consuming(LimitedConsumer())
    publish(queue, b"1")
    use.settle()
    use.group.sessions = {}
    publish(queue, b"2")
    use.settle()
    assert consumer.bodies == [b"1"]
    use.group.stop_leading()
    use.group.lead()
    use.settle()
    assert consumer.bodies == [b"1", b"2"]


def test_a_consumer_settles_with_the_next_leader_what_it_got_from_the_last(use, queue):
    consumer = use.consuming(LimitedConsumer())
    publish(queue, b"1")
    use.settle()
    use.group.stop_leading()
    queue.ack(consumer.entries)
    use.settle()
    use.group.lead()
    use.settle()
    assert use.figures.unacked == use.figures.ready == 0


def test_a_get_whose_message_was_lost_on_the_way_gets_it(use, queue):
    publish(queue, b"1")
    use.settle()
    use.group.sessions = {}
    answer = Answer()
    queue.get(True, answer)
    use.settle()
    assert not answer.is_given
    use.group.stop_leading()
    use.group.lead()
    use.settle()
    assert answer.result().entry.message.body == b"1"


# A node that the group took for gone


def test_consumers_subscribe_again_when_the_node_was_taken_for_gone(use, queue):
    consumer = use.consuming(LimitedConsumer())
    publish(queue, b"1")
    use.settle()
    use.group.take_node_for_gone()
    use.settle()
    assert consumer.bodies == [b"1", b"1"]
    assert consumer.entries[1].redelivered
    queue.ack(consumer.entries[:1])
    use.settle()
    assert use.figures.unacked == 1, "the first delivery is void"
    queue.ack(consumer.entries[1:])
    use.settle()
    assert use.figures.unacked == 0


def test_what_waited_here_when_the_node_was_taken_for_gone_comes_once(use, queue):
    consumer = use.consuming(LimitedConsumer())
    consumer.credit = 0
    publish(queue, b"1")
    use.settle()
    use.group.take_node_for_gone()
    use.settle()
    consumer.credit = 5
    queue.credit(consumer)
    use.settle()
    assert consumer.bodies == [b"1"]


def test_publishes_of_a_node_taken_for_gone_are_neither_lost_nor_doubled(use, queue):
    publisher = Publisher()
    use.group.sessions = {}
    queue.publish(run_of(b"0", publisher=publisher, first=1))
    use.settle()
    use.group.sessions = {}
    queue.publish(run_of(b"1", publisher=publisher, first=2))
    use.settle()
    use.group.loses = True
    queue.publish(run_of(b"2", publisher=publisher, first=3))
    use.settle()
    use.group.stop_leading()
    use.group.take_node_for_gone()
    use.group.loses = False
    use.group.lead()
    use.settle()
    assert publisher.confirmed == [1, 2, 3]
    assert use.figures.ready == 3


def test_refusals_survive_the_end_of_a_sender():
    use = Use(x_max_length=1, x_overflow="reject-publish")
    publisher = Publisher()
    publish(use.queue, b"0")
    use.settle()
    use.group.sessions = {}
    use.queue.publish(run_of(b"1", b"2", publisher=publisher))
    use.settle()
    use.group.take_node_for_gone()
    use.group.stop_leading()
    use.group.lead()
    use.settle()
    assert (publisher.refused, publisher.confirmed) == ([2], [1])


def test_a_group_that_has_forgotten_the_sender_leaves_publishes_refused(use, queue):
    publisher = Publisher()
    publish(queue, b"0")
    use.settle()
    use.group.loses = True
    queue.publish(run_of(b"1", publisher=publisher))
    use.settle()
    use.group.stop_leading()
    use.group.machine.queue.senders.known.clear()
    use.group.loses = False
    use.group.lead()
    use.settle()
    assert publisher.died == [False], "nobody knows whether they were applied"
    publish(queue, b"2")
    use.settle()
    assert use.figures.ready == 2


def test_a_client_that_is_made_again_is_another_sender(use, queue):
    """Its commands are not taken for those of the client before it."""
    use.consuming(LimitedConsumer(prefetch=1))
    publish(queue, b"1", b"2")
    use.settle()
    queue.close()
    again = use.client()
    use.group.lead()
    publish(again, b"3")
    use.settle()
    assert (use.figures.ready, use.figures.unacked) == (3, 0), "the last one holds nothing"


# Without a leader


def test_questions_have_an_error_in_time(use, queue):
    use.group.stop_leading()
    for ask, text in (
        (lambda answer: queue.get(True, answer), "Cannot get a message from queue 'queue 'q' in"),
        (lambda answer: queue.subscribe(LimitedConsumer(), answer), "Cannot consume from queue"),
        (queue.purge, "Cannot purge queue"),
        (queue.begin, "Cannot declare quorum queue 'q' in .*: cluster_not_formed"),
    ):
        answer = Answer()
        ask(answer)
        use.settle()
        assert not answer.is_given
        use.vhost.clock.advance(ANSWER_MS / 1000)
        with pytest.raises(ConnectionFault, match=text) as fault:
            answer.result()
        assert fault.value.reply_code == 541


def test_a_message_that_comes_too_late_is_given_back(use, queue):
    publish(queue, b"1")
    use.settle()
    use.group.stop_leading()
    answer = Answer(give_back=lambda got: queue.requeue([got.entry], is_failed=True))
    queue.get(True, answer)
    use.settle()
    use.vhost.clock.advance(ANSWER_MS / 1000)
    use.group.lead()
    use.settle()
    assert (use.figures.ready, use.figures.unacked) == (1, 0)


def test_a_passive_declare_tells_what_is_known(use, queue):
    publish(queue, b"1")
    assert tuple(use.asked(queue.length)) == (1, 0)
    use.group.loses = True
    publish(queue, b"2")
    answer = Answer()
    queue.length(answer)
    use.settle()
    assert not answer.is_given, "the leader may still do what was asked for before"
    use.vhost.clock.advance(LENGTH_MS / 1000)
    assert tuple(answer.result()) == (1, 0)
    use.group.stop_leading()
    assert tuple(use.asked(queue.length)) == (1, 0)


def test_publishers_are_held_while_much_is_not_applied(use, queue):
    use.group.stop_leading()
    hold = queue.publisher_hold
    body = b"x" * 100_000
    while not hold.is_wanted:
        queue.publish(run_of(body))
    use.settle()
    resumed = []
    hold.begin(lambda: resumed.append(True))
    assert not resumed
    use.group.lead()
    use.settle()
    assert resumed
    assert not hold.is_wanted
    assert use.figures.ready_bytes > WINDOW_BYTES


def test_all_publishers_of_the_node_are_held_while_very_much_is_not_applied(use, queue):
    use.group.stop_leading()
    body = b"x" * 1_000_000
    while not use.behind:
        queue.publish(run_of(body))
    use.group.lead()
    use.settle()
    assert use.behind == [True, False]

"""A link goes down at every frame of a program: what publishers, consumers and askers learn.

The program publishes with confirms, consumes in several ways, settles, asks and cancels. It runs
once for each frame that it takes; the link goes down before that frame arrives.
"""

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.runtime.pending import Answer
from leveret.broker.vhost.routing import queues_by_key
from leveret.storage.messages.message import Message
from tests.linked_nodes import Nodes
from tests.storage.reading import ready_entries
from tests.unit.broker.queues.fakes import HEADER, FakeConsumer
from tests.unit.cluster.remote_queues.fakes import ADDRESS, Publisher

A, B = "a@host", "b@host"
DOWN = "home node 'b@host' of durable queue 'q' in vhost '/' is down or inaccessible"


class Program:
    """What clients of node a do with a durable queue that lives on b.

    taken: the bodies of messages that have finally left the queue, to the clients' knowledge.
    """

    def __init__(self):
        self.nodes = Nodes(A, B)
        self.nodes.declare(B, durable=True)
        self.remote = self.nodes.by_name[A].queue()
        self.real = self.nodes.by_name[B].queue()
        self.publishers = []
        self.answers = []
        self.consumers = [FakeConsumer("limited", 4), FakeConsumer("unlimited", 1 << 62)]
        self.taken = set()
        self._number = 0

    def publish(self, count):
        publisher = Publisher()
        publisher.bodies = [b"%d" % (self._number + place) for place in range(count)]
        self._number += count
        messages = [Message(ADDRESS, HEADER, body) for body in publisher.bodies]
        self.publishers.append(publisher)
        self.remote.publish(publication_of(messages, None, publisher, 1))

    def ask(self, ask, *arguments):
        self.answers.append(Answer())
        ask(*arguments, self.answers[-1])

    def settle_some(self):
        """The client with a limit acknowledges what it has, and has one message requeued."""
        consumer = self.consumers[0]
        entries, consumer.entries = consumer.entries, []
        if entries:
            self.remote.ack(entries[1:])
            self.taken |= {entry.message.body for entry in entries[1:]}
            self.remote.requeue(entries[:1])
        consumer.credit += len(entries)
        self.remote.credit(consumer)

    def run(self):
        """Everything, a few frames at a time."""
        limited, unlimited = self.consumers
        self.publish(3)
        self.ask(self.remote.get, True)
        self.nodes.step()
        self.ask(self.remote.subscribe, limited)
        self.publish(2)
        self.publish(1)
        for _ in range(4):
            self.nodes.step()
            self.settle_some()
        self.ask(self.remote.subscribe, unlimited)
        self.publish(5)
        self.nodes.step()
        self.ask(self.remote.length)
        self.remote.cancel(limited, answer=self.answers[-1])
        self.publish(2)
        for _ in range(4):
            self.nodes.step()
            self.settle_some()
        self.remote.cancel(unlimited, channel_ended=True)
        self.publish(1)
        self.nodes.settle()


def frame_count():
    program = Program()
    program.run()
    return program.nodes.arrived


@pytest.mark.parametrize("frame", range(frame_count()))
def test_the_link_goes_down_before_a_frame(frame):
    program = Program()
    nodes, real = program.nodes, program.real
    nodes.before_frame[frame] = lambda: nodes.unlink(A, B)
    program.run()
    for publisher in program.publishers:
        assert not publisher.owed, "every run is confirmed or refused"
    for answer in program.answers:
        assert answer.is_given
    for consumer in program.consumers:
        was_cancelled = consumer.is_without_queue
        assert consumer.was_told == was_cancelled
    assert real.backing.unacked_count == 0
    assert not real.ring.consumers
    kept = {entry.message.body for entry in ready_entries(real.backing)}
    for publisher in program.publishers:
        if publisher.confirmed:
            assert set(publisher.bodies) <= kept | program.taken, "what is confirmed is not lost"


@pytest.mark.parametrize("frame", range(0, frame_count(), 5))
def test_frames_of_the_link_before_have_no_effect_on_the_next(frame):
    program = Program()
    nodes, remote, real = program.nodes, program.remote, program.real
    nodes.before_frame[frame] = lambda: nodes.unlink(A, B)
    program.run()
    ready_count = real.backing.ready_count
    nodes.link(A, B)
    for consumer in program.consumers:
        remote.ack(consumer.entries)
        remote.credit(consumer)
        remote.cancel(consumer, channel_ended=True)
    nodes.settle()
    assert real.backing.ready_count == ready_count
    program.publish(1)
    program.ask(remote.length)
    nodes.settle()
    assert program.answers[-1].result().ready_count == ready_count + 1
    assert program.publishers[-1].confirmed


def test_questions_without_a_link_are_refused_as_by_rabbitmq():
    program = Program()
    program.nodes.unlink(A, B)
    for ask in (program.remote.length, program.remote.purge):
        program.ask(ask)
        with pytest.raises(ChannelFault) as refused:
            program.answers[-1].result()
        assert (refused.value.reply_code, refused.value.explanation) == (404, DOWN)


def test_nothing_is_routed_to_a_queue_whose_node_is_down():
    program = Program()
    vhost = program.nodes.by_name[A].vhost
    generation = vhost.generation
    assert queues_by_key(vhost, vhost.exchanges[""], "q") == [program.remote]
    program.nodes.unlink(A, B)
    assert vhost.generation > generation
    assert queues_by_key(vhost, vhost.exchanges[""], "q") == []
    program.publish(2)
    assert program.publishers[-1].refused == [1, 2]
    program.nodes.link(A, B)
    assert queues_by_key(vhost, vhost.exchanges[""], "q") == [program.remote]


def test_exclusive_queues_of_a_node_that_is_gone_are_deleted():
    nodes = Nodes(A, B)
    nodes.declare(B, owner="127.0.0.1:1 -> 127.0.0.1:2", owner_node=A)
    nodes.declare(B, "other", owner="127.0.0.1:1 -> 127.0.0.1:2", owner_node=B)
    nodes.settle()
    nodes.unlink(A, B)
    nodes.settle()
    assert not nodes.by_name[B].vhost.queues


def look(nodes, times, *apart):
    """A number of quarters of a net_ticktime pass on b."""
    for _ in range(times):
        nodes.by_name[B].queues.look(frozenset(apart))
        nodes.settle()


def test_a_queue_that_only_the_other_side_of_a_partition_has_is_lost():
    nodes = Nodes(A, B)
    nodes.late[B] = []
    nodes.declare(B, durable=True)
    remote, publisher, length = nodes.by_name[A].queue(), Publisher(), Answer()
    remote.publish(publication_of([Message(ADDRESS, HEADER, b"1")], None, publisher, 1))
    remote.length(length)
    look(nodes, 4)
    assert not publisher.died, "it may be declared yet"
    look(nodes, 1, A)
    assert not publisher.died
    look(nodes, 1, A)
    assert publisher.died == [False]
    with pytest.raises(ChannelFault, match=DOWN):
        length.result()
    # The nodes meet again.
    nodes.catch_up(B)
    remote.publish(publication_of([Message(ADDRESS, HEADER, b"2")], None, publisher, 2))
    nodes.settle()
    assert publisher.confirmed == [2]

"""A queue on another node: the promises of every queue, over a link that the test steps."""

import pytest

from leveret.broker.pending import Answer
from leveret.cluster.queues.remote_queue import RemoteQueue
from tests.linked_nodes import Nodes
from tests.unit.broker.queues.fakes import FakeConsumer, publish

A, B = "a@host", "b@host"


@pytest.fixture
def nodes():
    """Nodes a and b, and a queue that lives on b."""
    nodes = Nodes(A, B)
    nodes.declare(B)
    return nodes


@pytest.fixture
def remote(nodes):
    """The queue as a's clients use it."""
    return nodes.by_name[A].queue()


@pytest.fixture
def real(nodes):
    """The queue on its node."""
    return nodes.by_name[B].queue()


class Publisher:
    """Records what becomes of runs."""

    def __init__(self):
        self.held, self.confirmed, self.refused, self.died = [], [], [], []

    def hold(self, first, count, holder):
        self.held.append((first, count))

    def confirm(self, first, holder):
        self.confirmed.append(first)

    def refuse(self, number):
        self.refused.append(number)

    def holder_died(self, holder, is_settled):
        self.died.append(is_settled)


def asked(nodes, ask, *arguments):
    """The answer to a question. Raises what it is refused with."""
    answer = Answer()
    ask(*arguments, answer)
    nodes.settle()
    return answer.result()


def consuming(nodes, queue, consumer):
    asked(nodes, queue.subscribe, consumer)
    return consumer


def ready(queue):
    return queue.figures.counts().ready


def test_it_lives_on_the_other_node(remote, real):
    assert isinstance(remote, RemoteQueue)
    assert not isinstance(real, RemoteQueue)
    assert remote.home == real.home


def test_what_is_published_is_there_for_a_get_that_follows(nodes, remote):
    publish(remote, b"1", b"2")
    got = asked(nodes, remote.get, True)
    assert (got.entry.message.body, got.ready_count) == (b"1", 1)
    assert asked(nodes, remote.get, False).entry.message.body == b"2"
    assert asked(nodes, remote.get, False) is None


def test_consuming_and_settling(nodes, remote, real):
    consumer = consuming(nodes, remote, FakeConsumer())
    publish(remote, b"1", b"2", b"3")
    nodes.settle()
    assert consumer.bodies == [b"1", b"2", b"3"]
    remote.ack(consumer.entries[:1])
    remote.requeue(consumer.entries[1:2])
    nodes.settle()
    assert real.counts.acked == 1
    assert consumer.bodies == [b"1", b"2", b"3", b"2"]
    assert consumer.entries[-1].redelivered
    remote.discard(consumer.entries[2:])
    nodes.settle()
    assert real.backing.unacked_count == 0

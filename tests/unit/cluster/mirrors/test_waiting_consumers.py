"""Consumers of other nodes at the next leader, before that one opens."""

import pytest

from leveret.broker.runtime.pending import Answer
from leveret.cluster.mirrors import mirror_record as records
from tests.unit.broker.queues.fakes import FakeConsumer, publish
from tests.unit.cluster.mirrors.mirrored_nodes import MirroredNodes

A, B, C = "a@host", "b@host", "c@host"


@pytest.fixture
def nodes():
    """The queue is handed over to b, which waits: a has not applied it."""
    nodes = MirroredNodes(A, B, C)
    nodes.mirror(B)
    nodes.settle()
    nodes.lagging = {A: []}
    nodes.apply(records.promoted(nodes.record, nodes.record.on(B).id))
    nodes.settle()
    assert nodes.queue(B).leader is None
    return nodes


def waiting(nodes, consumer):
    """The consumer, which is asked for on c, and waits for b to open."""
    nodes.queue(C).subscribe(consumer, Answer())
    nodes.settle()
    return consumer


def led(nodes):
    """The messages of the queue, which b leads now, with new ones."""
    nodes.catch_up_records(A)
    nodes.settle()
    publish(nodes.queue(A), b"1", b"2")
    nodes.settle()
    return nodes.replica(B).leading.backing


def test_one_that_waits_is_added_when_it_opens(nodes):
    consumer = waiting(nodes, FakeConsumer(credit=5))
    led(nodes)
    assert consumer.bodies == [b"1", b"2"]


@pytest.mark.parametrize("channel_ended", [False, True])
def test_one_that_goes_before_that_gets_nothing(nodes, channel_ended):
    consumer = waiting(nodes, FakeConsumer(credit=5))
    cancelled = Answer()
    nodes.queue(C).cancel(consumer, channel_ended, cancelled)
    nodes.settle()
    cancelled.result()
    messages = led(nodes)
    assert (messages.ready_count, messages.unacked_count, consumer.bodies) == (2, 0, [])


def test_one_whose_node_goes_before_that_gets_nothing(nodes):
    waiting(nodes, FakeConsumer(credit=5))
    nodes.unlink(B, C)
    messages = led(nodes)
    assert (messages.ready_count, messages.unacked_count) == (2, 0)


def test_one_that_waits_may_get_more_room(nodes):
    consumer = waiting(nodes, FakeConsumer(credit=0))
    consumer.credit = 5
    nodes.queue(C).credit(consumer)
    nodes.settle()
    led(nodes)
    assert consumer.bodies == [b"1", b"2"]

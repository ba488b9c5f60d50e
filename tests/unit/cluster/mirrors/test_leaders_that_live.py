"""A leader that the record no longer names, although it lives; and one that it named for a
moment only.
"""

import pytest

from leveret.broker.runtime.pending import Answer
from leveret.cluster.gm.group import Died
from tests.unit.broker.queues.fakes import FakeConsumer, publish
from tests.unit.cluster.mirrors.mirrored_nodes import three_nodes
from tests.unit.cluster.remote_queues.fakes import Publisher, consuming

A, B, C = "a@host", "b@host", "c@host"


def suspect(nodes):
    """The leader, which lives, is declared dead by b."""
    nodes.change(Died((nodes.record.leader,), nodes.record.on(B).id))


def publishes(nodes, name, publisher):
    """Three messages go from a node to the queue, one in each step."""
    for number in range(1, 4):
        publish(nodes.queue(name), b"%d" % number, publisher=publisher, first=number)
        nodes.step()
    nodes.settle()
    nodes.make_stable()


@pytest.mark.parametrize("publishing", [A, B, C])
def test_the_next_leader_confirms_what_a_leader_that_was_declared_dead_has_published(publishing):
    frames = three_nodes().frames_of(lambda nodes: publishes(nodes, publishing, Publisher()))
    assert frames
    for frame in range(frames):
        nodes, publisher = three_nodes(), Publisher()
        nodes.before_frame[nodes.arrived + frame] = lambda nodes=nodes: suspect(nodes)
        publishes(nodes, publishing, publisher)
        assert nodes.record.leader.node == B, frame
        assert nodes.bodies(B) == nodes.bodies(C) == [b"1", b"2", b"3"], frame
        assert not publisher.owed, frame
        assert not publisher.refused, frame


@pytest.mark.parametrize("consuming_on", [A, B, C])
def test_consumers_of_a_leader_that_was_declared_dead_are_the_next_leaders(consuming_on):
    nodes = three_nodes()
    there = nodes.queue(consuming_on)
    consumer = consuming(nodes, there, FakeConsumer())
    publish(nodes.queue(C), b"1", b"2")
    nodes.settle()
    there.ack(consumer.entries[:1])
    nodes.settle()
    suspect(nodes)
    nodes.settle()
    publish(nodes.queue(A), b"3")
    nodes.settle()
    leading = nodes.replica(B).leading
    assert len(leading.queue.ring.consumers) == 1
    assert consumer.bodies == [b"1", b"2", b"2", b"3"]
    there.ack(consumer.entries)
    nodes.settle()
    assert (leading.backing.ready_count, leading.backing.unacked_count) == (0, 0)


def test_it_may_lead_again():
    nodes, publisher, remote = three_nodes(), Publisher(), Publisher()
    publish(nodes.queue(C), b"1", publisher=remote)
    publish(nodes.queue(A), b"2", publisher=publisher)
    suspect(nodes)
    nodes.settle()
    nodes.join(A)
    nodes.synchronise(B)
    nodes.settle()
    nodes.hand_over(A)
    nodes.settle()
    nodes.make_stable()
    assert nodes.replica(A).leading
    assert nodes.bodies(A) == nodes.bodies(B) == nodes.bodies(C)
    assert (publisher.confirmed, remote.confirmed) == ([1], [1])


def test_a_member_that_is_named_for_a_moment_only_does_not_lead():
    """It applies the next record when its mark has gone round, in a message of that record."""
    nodes = three_nodes()
    nodes.lagging[B] = []
    nodes.hand_over(B)
    nodes.hand_over(C)
    nodes._apply_on(nodes.by_name[B], nodes.lagging[B].pop(0))
    publish(nodes.queue(A), b"1")
    nodes.settle()
    nodes.catch_up_records(B)
    assert [name for name in (A, B, C) if nodes.replica(name).leading] == [C]
    assert nodes.bodies(A) == nodes.bodies(B) == nodes.bodies(C) == [b"1"]


def test_the_next_leader_answers_requests_that_the_last_one_did_not():
    """The record names another leader while a node waits for the one before, which is linked."""
    nodes, consumer, subscribed, length = three_nodes(), FakeConsumer(), Answer(), Answer()
    nodes.lagging[A] = []
    nodes.queue(C).subscribe(consumer, subscribed)
    nodes.queue(C).length(length)
    suspect(nodes)
    nodes.settle()
    nodes.catch_up_records(A)
    subscribed.result()
    assert length.result().consumer_count == 1
    publish(nodes.queue(B), b"1")
    nodes.settle()
    assert consumer.bodies == [b"1"]


def test_a_leader_that_is_late_to_end_its_first_lead_is_asked_again_in_its_second():
    """Another node has turned to the second lead by then, and been answered in the first."""
    nodes, consumer, length = three_nodes(), FakeConsumer(), Answer()
    nodes.lagging[A] = []
    nodes.hand_over(B)
    nodes.settle()
    nodes.hand_over(A)
    nodes.settle()
    consuming(nodes, nodes.queue(C), consumer)
    nodes._apply_on(nodes.by_name[A], nodes.lagging[A].pop(0))
    nodes.queue(C).length(length)
    nodes.settle()
    assert not length.is_given, "nobody leads"
    nodes.catch_up_records(A)
    assert length.result().consumer_count == 1
    publish(nodes.queue(B), b"1")
    nodes.settle()
    assert consumer.bodies == [b"1"]

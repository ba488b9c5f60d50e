"""What follows a fault of a mirrored queue: a second one, and clients that do not acknowledge."""

import pytest

from tests.unit.broker.queues.fakes import FakeConsumer, publish
from tests.unit.cluster.mirrors.mirrored_nodes import MirroredNodes
from tests.unit.cluster.queues.fakes import Publisher, consuming

A, B, C = "a@host", "b@host", "c@host"


def started():
    """The queue is led by a; b is the older mirror, c the younger one."""
    nodes = MirroredNodes(A, B, C)
    nodes.mirror(B, C)
    nodes.settle()
    return nodes


def publishes(nodes, publisher):
    """Messages go from c to the queue, one in each step."""
    for number in range(1, 4):
        publish(nodes.queue(C), b"%d" % number, publisher=publisher, first=number)
        nodes.step()
    nodes.settle()
    nodes.make_stable()


@pytest.mark.parametrize("later", [1, 2, 3, 5, 8])
def test_the_next_leader_dies_soon_after_the_first(later):
    frames = started().frames_of(lambda nodes: publishes(nodes, Publisher()))
    assert frames
    for frame in range(frames):
        nodes, publisher = started(), Publisher()
        first = nodes.arrived + frame
        nodes.before_frame[first] = lambda nodes=nodes: nodes.kill(A)
        nodes.before_frame[first + later] = lambda nodes=nodes: nodes.kill(B)
        publishes(nodes, publisher)
        last = C if B not in nodes.by_name else B
        assert nodes.record.leader.node == last, frame
        assert nodes.bodies(C) == [b"1", b"2", b"3"], frame
        # What is published while c leads alone is safe at once, without a confirm to wait for.
        assert not publisher.owed, frame
        assert not publisher.refused, frame


def test_a_message_that_needs_no_acknowledgement_does_not_come_again():
    nodes = started()
    consumer = consuming(nodes, nodes.queue(C), FakeConsumer(no_ack=True))
    publish(nodes.queue(B), b"1")
    nodes.settle()
    nodes.kill(A)
    publish(nodes.queue(B), b"2")
    nodes.settle()
    assert consumer.bodies == [b"1", b"2"]
    assert nodes.bodies(B) == nodes.bodies(C) == []


def test_a_mirror_that_lost_its_link_to_the_leader_only_stays_as_it_is():
    nodes = started()
    nodes.unlink(A, C)
    publish(nodes.queue(B), b"1")
    nodes.link(A, C)
    nodes.settle()
    assert nodes.record.on(C).is_synchronised
    assert nodes.bodies(C) == [b"1"]

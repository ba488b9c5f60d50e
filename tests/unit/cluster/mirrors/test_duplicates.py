"""A mirrored queue refuses duplicates, and so does its next leader."""

import pytest

from leveret.broker.amqp.content_header import header_with
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.mirrors.mirrored_nodes import three_nodes
from tests.unit.cluster.remote_queues.fakes import Publisher

A, B, C = "a@host", "b@host", "c@host"


def once(nodes, publisher, number, name=C):
    """A node publishes the message with an identifier."""
    header = header_with(delivery_mode=2, headers={"x-deduplication-header": ("I", number)})
    publish(
        nodes.queue(name), b"%d" % number, publisher=publisher, first=publisher.next, header=header
    )
    publisher.next += 1


class Repeating(Publisher):
    """next: the number of its next message."""

    def __init__(self):
        super().__init__()
        self.next = 1


def deduplicating():
    nodes = three_nodes()
    for node in nodes:
        queue = node.queue()
        queue.apply(queue.options._replace(deduplicates=True))
    return nodes


@pytest.mark.parametrize("publishing", [A, B, C])
def test_a_duplicate_is_confirmed_and_not_added(publishing):
    nodes, publisher = deduplicating(), Repeating()
    for number in (1, 2, 1, 1, 2, 3):
        once(nodes, publisher, number, publishing)
        nodes.settle()
    nodes.make_stable()
    nodes.settle()
    assert nodes.bodies(A) == nodes.bodies(B) == nodes.bodies(C) == [b"1", b"2", b"3"]
    assert not publisher.owed
    assert not publisher.refused


@pytest.mark.parametrize("publishing", [B, C])
def test_the_next_leader_knows_them_whenever_the_leader_dies(publishing):
    def program(nodes):
        for number in (1, 2, 1, 2):
            once(nodes, publisher, number, publishing)
            nodes.step()

    publisher = Repeating()
    frames = deduplicating().frames_of(program)
    assert frames
    for frame in range(frames):
        nodes, publisher = deduplicating(), Repeating()
        nodes.before_frame[nodes.arrived + frame] = lambda nodes=nodes: nodes.kill(A)
        program(nodes)
        nodes.settle()
        nodes.make_stable()
        assert nodes.bodies(B) == nodes.bodies(C) == [b"1", b"2"], frame
        assert not publisher.owed, frame
        assert set(publisher.confirmed) | set(publisher.refused) == {1, 2, 3, 4}, frame

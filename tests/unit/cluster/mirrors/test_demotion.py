"""A leader hands over while it lives: nothing is lost, confirmed twice or refused for it."""

import pytest

from tests.unit.broker.queues.fakes import FakeConsumer, publish
from tests.unit.cluster.mirrors.mirrored_nodes import MirroredNodes, three_nodes
from tests.unit.cluster.remote_queues.fakes import Publisher, asked, consuming

A, B, C = "a@host", "b@host", "c@host"


@pytest.fixture
def nodes():
    return three_nodes()


def handed_over(nodes, name=B):
    nodes.hand_over(name)
    nodes.settle()
    assert [one.name for one in nodes if nodes.replica(one.name).leading] == [name]


def test_the_leader_mirrors_what_it_has_led(nodes):
    publish(nodes.queue(A), b"1", b"2")
    nodes.settle()
    handed_over(nodes)
    publish(nodes.queue(A), b"3")
    publish(nodes.queue(C), b"4")
    nodes.settle()
    assert sorted(nodes.bodies(B)) == [b"1", b"2", b"3", b"4"]
    assert nodes.bodies(A) == nodes.bodies(C) == nodes.bodies(B)


def test_it_leads_again_when_the_next_one_dies(nodes):
    publish(nodes.queue(A), b"1")
    handed_over(nodes)
    publish(nodes.queue(C), b"2")
    nodes.settle()
    nodes.kill(B)
    assert nodes.replica(A).leading
    assert nodes.bodies(A) == nodes.bodies(C) == [b"1", b"2"]


def test_the_lead_comes_back(nodes):
    publisher = Publisher()
    for first, name in enumerate((B, C, A, B, A), 1):
        publish(nodes.queue(A), b"%d" % first, publisher=publisher, first=first)
        handed_over(nodes, name)
    assert not publisher.confirmed
    nodes.make_stable()
    assert publisher.confirmed == [1, 2, 3, 4, 5]
    assert not publisher.refused
    assert [nodes.bodies(name) for name in (A, B, C)] == [[b"1", b"2", b"3", b"4", b"5"]] * 3


@pytest.mark.parametrize("consuming_on", [A, B, C])
def test_consumers_stay_and_get_what_they_held_again(nodes, consuming_on):
    there = nodes.queue(consuming_on)
    consumer = consuming(nodes, there, FakeConsumer())
    publish(nodes.queue(C), b"1", b"2")
    nodes.settle()
    there.ack(consumer.entries[:1])
    nodes.settle()
    handed_over(nodes)
    publish(nodes.queue(A), b"3")
    nodes.settle()
    assert consumer.bodies == [b"1", b"2", b"2", b"3"]
    assert [entry.redelivered for entry in consumer.entries] == [False, False, True, False]
    there.ack(consumer.entries)
    nodes.settle()
    backing = nodes.replica(B).leading.backing
    assert (backing.ready_count, backing.unacked_count) == (0, 0)
    assert nodes.bodies(A) == nodes.bodies(C) == []


def test_the_next_leader_gets_deliveries_to_clients_of_other_nodes(nodes):
    got = asked(nodes, nodes.queue(C).get, True)
    assert got is None
    publish(nodes.queue(A), b"1")
    nodes.settle()
    got = asked(nodes, nodes.queue(C).get, True)
    handed_over(nodes)
    nodes.queue(C).ack([got.entry])
    nodes.settle()
    again = asked(nodes, nodes.queue(C).get, False)
    assert (again.entry.message.body, again.entry.redelivered) == (b"1", True)


def test_a_mirror_that_joins_afterwards_is_brought_what_it_lacks():
    nodes = MirroredNodes(A, B, C)
    nodes.mirror(B)
    nodes.settle()
    publish(nodes.queue(C), b"1", b"2")
    nodes.settle()
    handed_over(nodes)
    nodes.join(C)
    nodes.synchronise(B)
    nodes.settle()
    assert nodes.record.on(C).is_synchronised
    handed_over(nodes, C)
    assert nodes.bodies(C) == nodes.bodies(A) == nodes.bodies(B) == [b"1", b"2"]


class Program:
    """Publishes and consumes on one node, four messages, with the settlements under way."""

    def __init__(self, name, is_consuming):
        self.name = name
        self.is_consuming = is_consuming
        self.publisher = Publisher()
        self.consumer = FakeConsumer(credit=100)

    def __call__(self, nodes):
        there = nodes.queue(self.name)
        if self.is_consuming:
            consuming(nodes, nodes.queue(A), self.consumer)
        for number in range(1, 5):
            publish(there, b"%d" % number, publisher=self.publisher, first=number)
            nodes.step()


@pytest.mark.parametrize("is_consuming", [False, True])
@pytest.mark.parametrize(
    ("publishing", "after"),
    [
        *((name, after) for name in (A, B, C) for after in (None, "hands back")),
        *((name, "dies") for name in (A, C)),
    ],
)
def test_the_leader_hands_over_before_any_frame(publishing, is_consuming, after):
    """after: what becomes of the next leader some frames later."""

    def then(nodes):
        if after == "hands back":
            nodes.hand_over(A)
        elif after == "dies":
            nodes.kill(B)

    frames = three_nodes().frames_of(Program(publishing, is_consuming))
    assert frames
    for frame in range(frames):
        nodes, program = three_nodes(), Program(publishing, is_consuming)
        nodes.before_frame[nodes.arrived + frame] = lambda nodes=nodes: nodes.hand_over(B)
        nodes.before_frame[nodes.arrived + frame + 3] = lambda nodes=nodes: then(nodes)
        program(nodes)
        nodes.settle()
        nodes.make_stable()
        there = [name for name in nodes.by_name if name != nodes.record.leader.node]
        expected = [] if is_consuming else [b"1", b"2", b"3", b"4"]
        assert nodes.bodies(nodes.record.leader.node) == expected, frame
        assert [nodes.bodies(name) for name in there] == [expected] * len(there), frame
        assert sorted(program.publisher.confirmed) == [1, 2, 3, 4], frame
        assert not program.publisher.refused, frame
        if is_consuming:
            assert set(program.consumer.bodies) == {b"1", b"2", b"3", b"4"}, frame

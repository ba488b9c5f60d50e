"""Frames of an earlier member of a node, or for one, that come when the node has another one."""

import pytest

from leveret.cluster.gm.group import Died
from leveret.cluster.mirrors import frames
from leveret.cluster.mirrors import mirror_record as records
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.mirrors.mirrored_nodes import MirroredNodes
from tests.unit.cluster.remote_queues.fakes import Publisher, asked

A, B = "a@host", "b@host"


def sent(nodes, source, target, kind):
    """The last frame of a kind that one node has sent another."""
    return [frame for frame in nodes.ends[source, target].log if frame[0] == kind][-1]


def arrives(nodes, source, target, frame):
    """A frame comes late."""
    nodes.by_name[target].replicas.received(nodes.ends[target, source], frame)
    nodes.settle()


def joins_again(nodes):
    """The mirror of b dies, and its node gets another one."""
    nodes.change(Died((nodes.record.on(B).id,), nodes.record.leader))
    nodes.settle()
    nodes.make_stable()
    nodes.join(B)


@pytest.fixture
def nodes():
    nodes = MirroredNodes(A, B)
    nodes.mirror(B)
    nodes.settle()
    return nodes


def publishes(nodes, *bodies):
    for body in bodies:
        publish(nodes.queue(A), body)
        nodes.settle()


def test_a_report_of_an_earlier_member_confirms_nothing(nodes):
    """The leader returns in between: turns begin at 1 again."""
    publishes(nodes, b"1", b"2", b"3", b"4", b"5")
    late = sent(nodes, B, A, frames.KEPT)
    members = [one.id for one in nodes.record.members]
    nodes.apply(records.vanished(nodes.record, members, [A]))
    nodes.settle()
    nodes.apply(records.returned(nodes.record, nodes.member(A)))
    nodes.settle()
    nodes.make_stable()
    nodes.join(B)
    publisher = Publisher()
    publish(nodes.queue(A), b"6", publisher=publisher)
    nodes.ends[A, B].send = lambda service, *pieces: None
    arrives(nodes, B, A, late)
    assert not publisher.confirmed


def test_what_an_earlier_member_lacked_is_not_what_this_one_lacks(nodes):
    late = sent(nodes, B, A, frames.LACKS)
    publishes(nodes, b"1", b"2")
    joins_again(nodes)
    arrives(nodes, B, A, late)
    publishes(nodes, b"3")
    assert not nodes.record.on(B).is_synchronised
    assert nodes.bodies(B) == [b"3"]


def test_a_batch_for_an_earlier_member_is_dropped(nodes):
    publishes(nodes, b"1", b"2")
    joins_again(nodes)
    nodes.synchronise(A)
    nodes.settle()
    late = sent(nodes, A, B, frames.BATCH)
    asked(nodes, nodes.queue(A).get, False)
    joins_again(nodes)
    arrives(nodes, A, B, late)
    assert nodes.bodies(B) == []
    nodes.synchronise(A)
    nodes.settle()
    assert nodes.record.on(B).is_synchronised
    assert nodes.bodies(B) == nodes.bodies(A) == [b"2"]


def test_so_are_messages_that_an_earlier_member_has_asked_for(nodes):
    publishes(nodes, b"1", b"2")
    identity, place_id = nodes.replica(B).identity, nodes.replica(B).mirror.place_id
    wanted = frames.wanted(identity, place_id, 0, 1)
    joins_again(nodes)
    before = len(nodes.ends[A, B].log)
    arrives(nodes, B, A, wanted)
    assert len(nodes.ends[A, B].log) == before

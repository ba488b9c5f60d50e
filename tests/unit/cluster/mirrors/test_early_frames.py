"""Frames for a member that its node does not have yet: other nodes have applied a newer record."""

import logging

import pytest
from msgspec.structs import replace

from leveret.cluster.gm.group import Died
from leveret.cluster.mirrors import frames, replica_host
from leveret.cluster.remote_queues.queue_frames import QueueFrameError
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.mirrors.mirrored_nodes import RING, MirroredNodes

A, B, C = "a@host", "b@host", "c@host"


@pytest.fixture
def nodes():
    """A queue that c is about to mirror: a and b know it already."""
    nodes = MirroredNodes(A, B, C)
    nodes.mirror(B)
    nodes.lagging[C] = []
    nodes.join(C)
    for number in range(5):
        publish(nodes.by_name[B].queue(), b"%d" % number)
        nodes.settle()
    return nodes


def test_they_wait_for_the_record(nodes):
    nodes.catch_up_records(C)
    publish(nodes.by_name[C].queue(), b"5")
    nodes.settle()
    assert nodes.bodies(A) == nodes.bodies(C) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_they_wait_while_the_member_before_lives_here(nodes):
    nodes.catch_up_records(C)
    nodes.lagging[C] = []
    nodes.change(Died((nodes.record.on(C).id,), nodes.record.leader))
    nodes.join(C)
    for number in range(5, 10):
        publish(nodes.by_name[B].queue(), b"%d" % number)
        nodes.settle()
    nodes.catch_up_records(C)
    publish(nodes.by_name[C].queue(), b"10")
    nodes.settle()
    assert nodes.bodies(C) == [b"5", b"6", b"7", b"8", b"9", b"10"]


def test_they_wait_while_the_record_here_is_of_another_side(nodes):
    replicas = nodes.by_name[C].replicas
    nodes.catch_up_records(C)
    replicas.view_changed(is_in_view=False)
    nodes.change(Died((nodes.record.on(C).id,), nodes.record.leader))
    nodes.settle()
    nodes.lagging[C] = []
    nodes.join(C)
    its_own = replicas.by_identity[RING].record
    ahead = replace(its_own, group=replace(its_own.group, version=1000))
    replicas.by_identity[RING].record = ahead
    publish(nodes.by_name[B].queue(), b"5")
    nodes.settle()
    nodes.catch_up_records(C)
    replicas.view_changed(is_in_view=True)
    publish(nodes.by_name[B].queue(), b"6")
    nodes.settle()
    assert nodes.bodies(C) == [b"5", b"6"]


def test_what_a_link_has_brought_goes_with_it(nodes):
    nodes.unlink(A, C)
    nodes.unlink(B, C)
    nodes.link(A, C)
    nodes.link(B, C)
    nodes.catch_up_records(C)
    publish(nodes.by_name[A].queue(), b"5")
    nodes.settle()
    assert nodes.bodies(C) == nodes.bodies(A)


def test_a_link_that_brings_too_many_is_closed(nodes, monkeypatch):
    monkeypatch.setattr(replica_host, "EARLY_BYTES_MAX", 1000)
    publish(nodes.by_name[B].queue(), bytes(1000))
    with pytest.raises(
        QueueFrameError, match="bytes for mirrored queues that are not declared here"
    ):
        nodes.settle()


def test_one_that_is_damaged_ends_its_link_and_not_the_node(nodes, caplog):
    at_c = nodes.by_name[C].replicas
    at_c.received(nodes.ends[C, B], frames.taken(RING, 0)[:-1])
    at_c.received(nodes.ends[C, B], frames.taken(RING, 0)[:-1])
    nodes.catch_up_records(C)
    assert nodes.ends[C, B].dropped is None
    nodes.by_name[C].clock.advance(0)
    dropped = "it sends damaged data to service 4 (mirrored queues): a frame of kind 13"
    assert dropped in nodes.ends[C, B].dropped
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert nodes.ends[C, A].dropped is None


def test_early_decisions_that_cannot_be_read_end_the_mirror_and_not_the_node(nodes, caplog):
    ring = nodes.replica(A).own_ring
    ring.broadcast(b"damaged")
    ring.flush()
    nodes.settle()
    nodes.catch_up_records(C)
    nodes.settle()
    assert "the mirror of" in caplog.text
    assert "is given up: 7 bytes are no turn's decisions" in caplog.text
    assert nodes.record.on(C) is None
    nodes.join(C)
    publish(nodes.by_name[C].queue(), b"6")
    nodes.settle()
    assert nodes.bodies(C) == [b"6"]


def test_a_member_whose_node_comes_from_another_side_asks_for_what_was_sent_before():
    """Its record there had another version, so what came early was not known to be early."""
    nodes = MirroredNodes(A, B, C)
    nodes.mirror(B)
    nodes.settle()
    nodes.lagging[C] = []
    on_the_other_side = replace(nodes.record.group, version=nodes.record.group.version + 10)
    nodes._apply_on(nodes.by_name[C], replace(nodes.record, group=on_the_other_side))
    nodes.join(C)
    publish(nodes.by_name[B].queue(), b"1")
    nodes.settle()
    nodes.catch_up_records(C)
    publish(nodes.by_name[A].queue(), b"2")
    nodes.settle()
    assert nodes.bodies(C) == nodes.bodies(A) == [b"1", b"2"]

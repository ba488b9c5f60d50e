"""The messages of a node without a member: they go when that can no longer be undone."""

import pytest
from msgspec.structs import replace

from leveret.cluster.gm.group import Died, Member
from leveret.cluster.mirrors import mirror_record as records
from leveret.cluster.mirrors.mirror_record import MessageCopy
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.mirrors.mirrored_nodes import RING, MirroredNodes

A, B = "a@host", "b@host"


@pytest.fixture
def nodes():
    """A queue with one message, and a mirror on b."""
    nodes = MirroredNodes(A, B)
    nodes.mirror(B)
    nodes.settle()
    publish(nodes.queue(A), b"1")
    nodes.settle()
    nodes.make_stable()
    return nodes


def dropped(nodes):
    """The leader has no use for the mirror; the copy that is left."""
    nodes.apply(records.dropped(nodes.record, nodes.record.on(B).id))
    nodes.settle()
    return nodes.replica(B).copy


def test_what_a_dropped_mirror_had_goes_when_that_is_stable(nodes):
    messages = dropped(nodes)
    assert messages.ready_count == 1
    nodes.make_stable()
    assert nodes.replica(B).copy is None
    assert messages.ready_count == 0


def test_it_stays_if_the_record_has_it_by_then(nodes):
    """The node has restarted since, and the drop was undone."""
    messages = dropped(nodes)
    nodes.apply(replace(nodes.record, has_copy=(MessageCopy(B, True),)))
    nodes.settle()
    nodes.make_stable()
    assert nodes.replica(B).copy is messages
    assert messages.ready_count == 1


def test_what_a_mirror_had_before_it_joined_again_goes_when_that_is_stable(nodes):
    nodes.change(Died((nodes.record.on(B).id,), nodes.record.leader))
    nodes.settle()
    messages = nodes.replica(B).copy
    nodes.join(B)
    publish(nodes.queue(A), b"2")
    nodes.settle()
    assert messages.ready_count == 1
    nodes.make_stable()
    assert messages.ready_count == 0
    assert nodes.bodies(B) == [b"2"]


def test_so_does_the_copy_of_a_queue_that_is_no_longer_mirrored(nodes):
    replica, node = nodes.replica(B), nodes.by_name[B]
    messages = replica.mirror.queue
    node.replicas.record_changed("/", node.queue(), None, 0)
    nodes.settle()
    assert replica.is_over
    assert messages.ready_count == 1
    nodes.make_stable()
    assert messages.ready_count == 0


def test_the_storage_of_a_chosen_leader_leads_when_the_node_returns():
    """Its node stopped before it had applied the record by which it was to lead."""
    nodes = MirroredNodes(A)
    nodes.home = nodes.declare(A)
    publish(nodes.queue(A), b"1")
    earlier = Member(A, 0, 1)
    nodes.apply(records.first("q", RING, earlier))
    nodes.settle()
    assert nodes.replica(A).copy.ready_count == 1
    nodes.apply(records.vanished(nodes.record, [earlier], [A]))
    nodes.apply(records.returned(nodes.record, nodes.member(A)))
    nodes.settle()
    assert nodes.bodies(A) == [b"1"]


def test_it_goes_with_a_queue_that_is_deleted(nodes):
    messages = nodes.replica(B).mirror.queue
    nodes.delete()
    nodes.settle()
    assert messages.ready_count == 0

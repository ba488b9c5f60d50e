"""What management shows of a mirrored queue's members, with nodes in one process."""

import pytest

from leveret.cluster.mirrors import mirror_record as records
from leveret.cluster.mirrors.member_views import members_of, mirroring
from leveret.cluster.mirrors.planning import Mirroring
from leveret.mgmt.ctl.mirrors import progress_line
from leveret.mgmt.views.mirrors import add_part, mirror_fields
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.mirrors.mirrored_nodes import MirroredNodes

A, B, C = "a@host", "b@host", "c@host"


@pytest.fixture
def nodes():
    """A queue of two messages that was mirrored to b before them, and to c after them."""
    nodes = MirroredNodes(A, B, C)
    nodes.mirror(B)
    nodes.settle()
    publish(nodes.by_name[A].queue(), b"1", b"2")
    nodes.settle()
    nodes.join(C)
    nodes.settle()
    return nodes


def shown(nodes, name):
    """`mirroring`, as a node knows it."""
    return mirroring(nodes.record, nodes.replica(name), name)


def of(ring, node):
    return next(one for one in ring["members"] if one["node"] == node)


def syncing(nodes, name):
    return members_of(nodes.record, nodes.replica(name)).syncing


def fields(nodes, *, durable=True):
    """What every node shows of the mirrors."""
    return mirror_fields(members_of(nodes.record, None), durable)


def test_mirrors_are_named_as_by_rabbitmq(nodes):
    assert fields(nodes) == {
        "slave_nodes": [B, C], "synchronised_slave_nodes": [B], "recoverable_slaves": [B, C],
    }  # fmt: skip
    assert fields(nodes, durable=False)["recoverable_slaves"] is None


def test_nodes_that_are_down_can_be_recovered(nodes):
    nodes.kill(B)
    shown = fields(nodes)
    assert (shown["slave_nodes"], shown["recoverable_slaves"]) == ([C], [C, B])


def test_a_queue_that_waits_for_a_node_has_no_members(nodes):
    members = [one.id for one in nodes.record.members]
    nodes.record = records.vanished(nodes.record, members, ())
    ring = shown(nodes, C)
    assert (ring["leader"], ring["awaited"], ring["members"]) == (None, A, [])
    assert sorted(copy["node"] for copy in ring["copies"]) == [A, B, C]
    assert fields(nodes)["recoverable_slaves"] == [B, C]


def test_a_node_knows_its_own_place_in_the_ring_and_the_others_are_added(nodes):
    ring = shown(nodes, B)
    assert [one["node"] for one in ring["members"]] == [A, C, B]
    assert [one["pending"] for one in ring["members"]] == [None, None, 0]
    assert (of(ring, B)["left"], of(ring, B)["right"]) == (C, A)
    assert of(ring, C)["sync"] is None
    for name in (A, C):
        add_part(ring, shown(nodes, name), name)
    assert [(one["left"], one["right"], one["pending"]) for one in ring["members"]] == [
        (B, C, 0), (A, B, 0), (C, A, 0),
    ]  # fmt: skip
    assert of(ring, C)["sync"] == {"messages": 0, "expected": 2, "running": False}


def test_messages_on_their_way_are_counted(nodes):
    publish(nodes.by_name[A].queue(), b"3")
    nodes.by_name[A].loop.run()
    assert of(shown(nodes, A), A)["pending"] == 1
    nodes.settle()
    assert of(shown(nodes, A), A)["pending"] == 0


def test_a_queue_is_syncing_until_the_record_says_that_the_mirror_is_synchronised(nodes):
    assert syncing(nodes, A) is None
    nodes.set_policy(Mirroring("all", batch_size=1))
    nodes.synchronise(A)
    assert syncing(nodes, A) == 0
    nodes.replica(A).flush()
    assert syncing(nodes, A) == 1
    assert syncing(nodes, B) is None
    nodes.settle()
    assert syncing(nodes, A) is None
    assert of(shown(nodes, A), C)["sync"] is None


def test_the_command_line_draws_a_bar(nodes):
    nodes.set_policy(Mirroring("all", batch_size=1))
    nodes.synchronise(A)
    nodes.replica(A).flush()
    line = progress_line(shown(nodes, A))
    assert line == "[###############...............] 50% of 2 messages to 1 mirror"

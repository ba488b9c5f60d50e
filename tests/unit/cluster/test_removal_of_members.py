"""A node that runs stays a member of its cluster, also if its removal was asked for before."""

import pytest

from leveret.broker.declarations.values import PutQueue
from leveret.cluster.membership.members import check_removal
from leveret.cluster.metadata.member_records import delete_member, members_of, put_member
from leveret.storage.metadata.metadata import MetadataError
from tests.unit.cluster.test_long_declarations import ClusterInTurns

MANY_QUEUES = [PutQueue("/", f"q{number}", True) for number in range(200)]
"""Declarations that a node does not apply in one turn."""


@pytest.fixture
def cluster(tmp_path):
    """Nodes a and b run; c is a member as well, and does not run."""
    made = ClusterInTurns(tmp_path)
    made.formed("a", "b")
    made.declare("a", *(put_member(name, True) for name in "abc"))
    a = made.nodes["a"]
    a.listener.check_removal = lambda name, running: check_removal(name, running=running)
    a.listener.when_members_changed = lambda: a.log.admit(frozenset(members(a)))
    yield made
    for node in made.nodes.values():
        node.stop()


def members(node):
    return "".join(sorted(members_of(node.declared.registry.parameters)))


def start_while_all_are_busy(cluster, name):
    """Start a node. What nodes say to each other arrives before they have another turn."""
    cluster.start(name)
    while cluster.frames:
        wire, frame = cluster.frames.popleft()
        wire.receiver.log.received(wire.back, frame)


def test_a_node_that_is_down_is_removed(cluster):
    cluster.declare("b", delete_member("c"))
    assert [members(node) for node in cluster.nodes.values()] == ["ab", "ab"]
    cluster.start("c")
    cluster.run()
    assert cluster.nodes["a"].log.view.names == ("a", "b")


@pytest.mark.parametrize("asked", ["a", "b"])
def test_a_node_that_comes_into_the_view_before_its_removal_is_ordered_stays(cluster, asked):
    a = cluster.nodes["a"]
    cluster.start("c")
    cluster.pass_frames()
    # All have agreed to the view with c; it holds when the disk of a names c.
    assert a.log.view.names == ("a", "b")
    removed = cluster.nodes[asked].log.submit(delete_member("c"))
    cluster.run()
    with pytest.raises(MetadataError, match="node c is running. Stop it first"):
        removed.result()
    assert a.log.view.names == ("a", "b", "c")
    assert [members(node) for node in cluster.nodes.values()] == ["abc"] * 3


def test_a_node_that_is_proposed_for_the_view_when_its_removal_is_ordered_stays(cluster):
    a = cluster.nodes["a"]
    a.log.submit(*MANY_QUEUES)
    removed = a.log.submit(delete_member("c"))
    start_while_all_are_busy(cluster, "c")
    cluster.run()
    with pytest.raises(MetadataError, match="node c is running. Stop it first"):
        removed.result()
    assert a.log.view.names == ("a", "b", "c")
    assert [members(node) for node in cluster.nodes.values()] == ["abc"] * 3


def test_a_node_whose_removal_is_ordered_and_not_applied_comes_into_no_view(cluster):
    a = cluster.nodes["a"]
    removed = a.log.submit(*MANY_QUEUES, delete_member("c"))
    while not a.declared.registry.vhosts["/"].queues:
        cluster.take_turns()
    start_while_all_are_busy(cluster, "c")
    assert members(a) == "abc"
    cluster.run()
    removed.result()
    assert [members(cluster.nodes[name]) for name in "ab"] == ["ab", "ab"]
    assert a.log.view.names == ("a", "b")

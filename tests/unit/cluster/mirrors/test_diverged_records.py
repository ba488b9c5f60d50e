"""Members of one ring on two sides of a partition that goes on: each side has a record of its own.

Their nodes may be linked again before a ring has noticed anything, and then stay linked. A change
that one side makes does not reach the other.
"""

import pytest

from leveret.cluster.gm.group import Died
from leveret.cluster.mirrors import frames
from leveret.cluster.mirrors.late_confirms import LOOKS_IN_TICK_TIME, LOOKS_UNTIL_GIVEN_UP
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.mirrors.late_clusters import look, lose, published, warnings
from tests.unit.cluster.mirrors.mirrored_nodes import MirroredNodes, changed_record, three_nodes

A, B, C = "a@host", "b@host", "c@host"


class PartedNodes(MirroredNodes):
    """alone: the node that is in a view of its own; alone_record: the record there."""

    alone = alone_record = None

    def is_apart(self, name, peer):
        return name != peer and self.alone in (name, peer)

    def part(self, name):
        """A node has gone on without the others, and is linked with them again."""
        self.alone, self.alone_record = name, self.record
        self.lagging[name] = []

    def meet(self):
        """The nodes are in one view again, before either side has made a change."""
        self.alone = None
        self.lagging.clear()

    def submitted(self, name, change):
        if name != self.alone:
            self.change(change)
            return
        changed = changed_record(self.alone_record, change)
        if changed is not None:
            self.alone_record = changed
            self.by_name[name].loop.call_soon(self._apply_on, self.by_name[name], changed)


@pytest.fixture
def nodes():
    return three_nodes(PartedNodes)


def test_each_side_goes_on_without_the_members_of_the_other(nodes, caplog):
    nodes.part(C)
    publishers = [published(nodes, name) for name in (A, B, C)]
    look(nodes, LOOKS_UNTIL_GIVEN_UP + 1)
    nodes.make_stable()
    assert [one.confirmed for one in publishers] == [[1], [1], [1]]
    assert nodes.record.leader.node == A
    assert [one.id.node for one in nodes.record.members] == [A, B]
    assert [one.id.node for one in nodes.alone_record.members] == [C]
    assert warnings(caplog) == [
        f"mirrored queue 'q' in vhost '/': the member on node {node} is given up: the cluster is "
        "partitioned, and its node is on another side"
        for node in (C, A, B)
    ]


def test_the_side_without_the_leader_goes_on_with_a_mirror(nodes):
    nodes.part(A)
    publishers = [published(nodes, name) for name in (A, B, C)]
    look(nodes, LOOKS_UNTIL_GIVEN_UP + 1)
    nodes.make_stable()
    assert [one.confirmed for one in publishers] == [[1], [1], [1]]
    assert nodes.record.leader.node == B
    assert nodes.alone_record.leader.node == A


def test_a_mirror_whose_leader_knows_it_no_longer_leads_on_its_own_side(nodes, monkeypatch):
    """It asks for a message that was lost with a link, and gets no answer."""
    lose(nodes, monkeypatch, A, C, frames.MESSAGES)
    publish(nodes.queue(B), b"1")
    nodes.unlink(B, C)
    nodes.link(B, C)
    nodes.settle()
    nodes.part(C)
    nodes.change(Died((nodes.record.on(C).id,), nodes.record.leader))
    nodes.settle()
    assert nodes.replica(C).mirror.waiting is not None
    look(nodes, LOOKS_UNTIL_GIVEN_UP + 1)
    assert nodes.replica(C).leading is not None
    publisher = published(nodes, C)
    nodes.make_stable()
    assert publisher.confirmed == [1]


def test_a_member_of_a_partition_that_ends_soon_lives(nodes):
    nodes.part(C)
    look(nodes, LOOKS_UNTIL_GIVEN_UP)
    nodes.meet()
    look(nodes, 2 * LOOKS_IN_TICK_TIME)
    assert [one.id.node for one in nodes.record.members] == [A, B, C]

"""The messages of a mirrored queue that a losing node writes to a file: those that it led."""

import pytest

from leveret.cluster.gm.group import Died
from leveret.cluster.mirrors import mirror_record as records
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.mirrors.mirrored_nodes import MirroredNodes

A, B = "a@host", "b@host"


@pytest.fixture
def nodes():
    nodes = MirroredNodes(A, B)
    nodes.mirror(B)
    nodes.settle()
    publish(nodes.by_name[B].queue(), b"1", b"2")
    nodes.settle()
    return nodes


def led(nodes, name):
    """The bodies that a node led last; None if it did not lead."""
    node = nodes.by_name[name]
    messages = node.replicas.led_messages(node.queue())
    if messages is None:
        return None
    return [entry.message.body for entry in messages.cursor().read(1 << 20)]


def test_the_leader_has_them_and_a_mirror_has_no_others(nodes):
    assert led(nodes, A) == [b"1", b"2"]
    assert led(nodes, B) is None


def test_a_leader_that_was_declared_dead_keeps_them_while_the_queue_waits_for_it(nodes):
    a, b = nodes.record.leader, nodes.record.on(B).id
    nodes.apply(records.died(nodes.record, Died((b,), a), may_lead_unsynchronised=True))
    nodes.settle()
    nodes.apply(records.vanished(nodes.record, (a,), ()))
    nodes.settle()
    assert nodes.by_name[A].queue().is_down
    assert led(nodes, A) == [b"1", b"2"]


def test_a_queue_that_is_not_mirrored_is_no_matter_of_replicas(nodes):
    node = nodes.by_name[A]
    nodes.declare(A, "other")
    assert node.replicas.led_messages(node.queue("other")) is None

"""A mirror that is to lead and waits: what for, who is told, and what ends it."""

import pytest

from leveret.cluster.gm.activity import ACTIVITY
from leveret.cluster.links.services import MULTICAST_SERVICE
from leveret.cluster.mirrors import frames
from leveret.cluster.mirrors.late_confirms import LOOKS_IN_TICK_TIME
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.mirrors.late_clusters import look, lose, published, warnings
from tests.unit.cluster.mirrors.mirrored_nodes import MirroredNodes

A, B, C, D = "a@host", "b@host", "c@host", "d@host"


@pytest.fixture
def nodes():
    """The queue is led by a; b is the oldest mirror."""
    nodes = MirroredNodes(A, B, C, D)
    nodes.mirror(B, C, D)
    nodes.make_stable()
    return nodes


@pytest.fixture
def waiting(nodes, monkeypatch):
    """The publisher on c whose message has not come to b, which is to lead: the leader is dead."""
    lose(nodes, monkeypatch, C, B, frames.CONTENTS)
    publisher = published(nodes, C)
    assert nodes.bodies(A) == [b"1"]
    nodes.kill(A)
    nodes.make_stable()
    assert not nodes.replica(B).leading
    return publisher


def test_it_leads_without_contents_that_do_not_come_though_their_sender_is_linked(nodes, waiting):
    look(nodes, LOOKS_IN_TICK_TIME)
    assert not nodes.replica(B).leading
    look(nodes, 1)
    nodes.make_stable()
    assert nodes.replica(B).leading
    assert waiting.refused == [1]
    assert nodes.bodies(B) == nodes.bodies(C) == nodes.bodies(D) == []


def test_the_log_and_the_gauge_tell_what_it_waits_for(nodes, waiting, caplog):
    look(nodes, LOOKS_IN_TICK_TIME + 1)
    assert (
        "mirrored queue 'q' in vhost '/': the next leader, on this node, has waited for "
        "net_ticktime for messages 1 to 1 of node c@host: it leads without them, and their "
        "publishers are refused"
    ) in warnings(caplog)
    assert nodes.by_name[B].replicas.late_count == 1
    look(nodes, 1)
    assert nodes.by_name[B].replicas.late_count == 0
    assert warnings(caplog)[-1].endswith("confirms continue")


def test_later_messages_are_confirmed(nodes, waiting, monkeypatch):
    look(nodes, LOOKS_IN_TICK_TIME + 1)
    monkeypatch.undo()
    nodes.make_stable()
    publish(nodes.queue(C), b"2", publisher=waiting, first=2)
    nodes.settle()
    assert (waiting.refused, waiting.owed) == ([1], {})
    assert nodes.bodies(B) == nodes.bodies(C) == nodes.bodies(D) == [b"2"]


@pytest.mark.parametrize("is_leading", [False, True])
def test_contents_that_come_then_are_passed_over(nodes, monkeypatch, is_leading):
    """Before the next leader leads, and when it does."""
    late = nodes.ends[C, B].send
    lose(nodes, monkeypatch, C, B, frames.CONTENTS)
    publisher = published(nodes, C)
    (contents,) = [one for one in nodes.ends[C, A].log if one[0] == frames.CONTENTS]
    nodes.kill(A)
    nodes.make_stable()
    if is_leading:
        look(nodes, LOOKS_IN_TICK_TIME + 1)
        nodes.make_stable()
    monkeypatch.undo()
    late(MULTICAST_SERVICE, contents)
    nodes.settle()
    nodes.make_stable()
    assert nodes.replica(B).leading
    expected = [] if is_leading else [b"1"]
    assert nodes.bodies(B) == nodes.bodies(C) == nodes.bodies(D) == expected
    assert (publisher.refused, publisher.owed) == ([1] if is_leading else [], {})


def test_contents_of_a_sender_whose_link_falls_and_returns_are_not_waited_for(nodes, waiting):
    nodes.unlink(B, C)
    nodes.link(B, C)
    nodes.settle()
    nodes.make_stable()
    assert nodes.replica(B).leading
    assert waiting.refused == [1]


def test_a_broadcast_that_does_not_go_round_is_told(nodes, monkeypatch, caplog):
    """It ends with a link: the ring goes on without a member whose node is not linked."""
    lose(nodes, monkeypatch, D, B, ACTIVITY)
    lose(nodes, monkeypatch, C, B, ACTIVITY)
    nodes.kill(A)
    nodes.make_stable()
    look(nodes, 2 * LOOKS_IN_TICK_TIME + 1)
    start = "mirrored queue 'q' in vhost '/': the next leader, on this node, has waited for"
    what = "for its first broadcast to pass through c@host, d@host"
    lines = [line for line in warnings(caplog) if line.startswith(start)]
    assert lines == [f"{start} net_ticktime {what}", f"{start} 2 times net_ticktime {what}"]
    assert nodes.by_name[B].replicas.late_count == 1
    assert not nodes.replica(B).leading

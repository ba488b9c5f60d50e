"""Confirms that wait for longer than net_ticktime: who says what for, and what ends it."""

import pytest

from leveret.cluster.gm.group import Member
from leveret.cluster.links.services import MULTICAST_SERVICE
from leveret.cluster.mirrors import frames
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.mirrors.late_confirms import (
    LOOKS_IN_TICK_TIME,
    LOOKS_MAX,
    LOOKS_UNTIL_ASKED,
    Facts,
    LateConfirms,
    Unchanged,
)
from leveret.storage.queue.transient_queue import TransientQueue
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.mirrors.late_clusters import look, lose, published, warnings
from tests.unit.cluster.mirrors.mirrored_nodes import three_nodes
from tests.unit.cluster.remote_queues.fakes import Publisher

A, B, C = "a@host", "b@host", "c@host"


@pytest.fixture
def nodes():
    return three_nodes()


def test_the_first_look_finds_nothing_unchanged():
    unchanged = Unchanged()
    assert [unchanged.look(found) for found in (1, 1, 1, 2, 2, None, None)] == [0, 1, 2, 0, 1, 0, 0]


class NeverSafe(TransientQueue):
    """A queue on a disk that never syncs."""

    __slots__ = ()

    def when_safe(self, waiter, first, holder):
        pass


def test_a_leader_that_waits_for_its_own_disk_gives_no_mirror_up():
    leader, mirror = Member(A, 1, 1), Member(B, 1, 1)
    kept = KeptTurns(NeverSafe(), lambda: None)
    kept.joined(mirror, turn=5)
    kept.when_kept(5, True, Publisher(), 1, None)
    facts = Facts(leader, (mirror, leader), (), A, kept, None, None, None, {})
    late = LateConfirms()
    assert [late.look(facts) for _ in range(LOOKS_MAX + 1)] == [
        *([[]] * LOOKS_IN_TICK_TIME),
        ["confirms have waited for net_ticktime: this node has not written it to disk; "
         "the mirror on node b@host has kept turn 4 of 5"],
        *([[]] * (LOOKS_IN_TICK_TIME - 1)),
        ["confirms have waited for 2 times net_ticktime: this node has not written it to disk; "
         "the mirror on node b@host has kept turn 4 of 5"],
    ]  # fmt: skip


def test_a_mirror_that_keeps_nothing_is_named_and_then_given_up(nodes, monkeypatch, caplog):
    lose(nodes, monkeypatch, C, A, frames.KEPT)
    publisher = published(nodes, B)
    look(nodes, LOOKS_IN_TICK_TIME)
    assert not [line for line in warnings(caplog) if "confirms have waited" in line]
    assert nodes.by_name[A].replicas.late_count == 0
    look(nodes, 1)
    (line,) = [line for line in warnings(caplog) if "confirms have waited" in line]
    assert line == (
        "mirrored queue 'q' in vhost '/': confirms have waited for net_ticktime: the mirror on "
        "node c@host has kept turn 2 of 3"
    )
    assert nodes.by_name[A].replicas.late_count == 1
    assert [nodes.by_name[name].replicas.late_count for name in (B, C)] == [0, 0]
    look(nodes, LOOKS_MAX - LOOKS_IN_TICK_TIME)
    assert nodes.record.on(C) is None
    assert not publisher.confirmed, "its removal is not stable"
    nodes.make_stable()
    assert publisher.confirmed == [1]
    look(nodes, 1)
    assert nodes.by_name[A].replicas.late_count == 0
    assert warnings(caplog)[-1].endswith("confirms continue")


def test_a_mirror_behind_the_one_that_is_given_up_has_as_much_time_again(
    nodes, monkeypatch, caplog
):
    """In the ring, b comes after c, and may have waited for it."""
    lose(nodes, monkeypatch, C, A, frames.KEPT)
    with monkeypatch.context() as lossy:
        lose(nodes, lossy, B, A, frames.KEPT)
        publisher = published(nodes, A)
        look(nodes, LOOKS_MAX + 1)
    assert nodes.record.on(C) is None
    look(nodes, LOOKS_MAX - 1)
    member = nodes.record.on(B).id
    kept = nodes.replica(A).leading.kept
    kept.kept(member, kept.first.turn)
    nodes.make_stable()
    look(nodes, LOOKS_MAX + 1)
    assert publisher.confirmed == [1]
    assert nodes.record.on(B).id == member


def test_a_mirror_that_keeps_little_is_not_given_up(nodes, monkeypatch):
    """It is behind, and keeps a turn now and then."""
    lose(nodes, monkeypatch, C, A, frames.KEPT)
    publisher = Publisher()
    for number in range(1, 4):
        publish(nodes.queue(B), b"%d" % number, publisher=publisher, first=number)
        nodes.settle()
    member = nodes.record.on(C).id
    kept = nodes.replica(A).leading.kept
    for turn in range(kept.behind()[member] + 1, kept.first.turn):
        look(nodes, LOOKS_MAX)
        kept.kept(member, turn)
    look(nodes, LOOKS_MAX)
    assert nodes.record.on(C).id == member


def test_a_mirror_requests_contents_that_the_sender_did_not_send_the_leader(
    nodes, monkeypatch, caplog
):
    lose(nodes, monkeypatch, C, B, frames.CONTENTS)
    publisher = published(nodes, C)
    look(nodes, LOOKS_UNTIL_ASKED)
    assert not publisher.confirmed
    look(nodes, 1)
    assert publisher.confirmed == [1]
    assert nodes.bodies(B) == [b"1"]
    assert nodes.record.on(B).is_synchronised
    line = "waits for messages 1 to 1 of node c@host: the leader is asked for them"
    assert [one for one in warnings(caplog) if line in one]


def test_an_answer_that_does_not_come_is_asked_for_again(nodes, monkeypatch):
    lose(nodes, monkeypatch, C, B, frames.CONTENTS)
    with monkeypatch.context() as lossy:
        lose(nodes, lossy, A, B, frames.MESSAGES)
        publisher = published(nodes, C)
        look(nodes, LOOKS_UNTIL_ASKED + 1)
        assert not publisher.confirmed
    look(nodes, LOOKS_UNTIL_ASKED)
    assert publisher.confirmed == [1]
    assert nodes.record.on(B).is_synchronised


def test_a_mirror_without_an_answer_is_counted_and_tells_so_more_and_more_rarely(
    nodes, monkeypatch, caplog
):
    lose(nodes, monkeypatch, C, B, frames.CONTENTS)
    lose(nodes, monkeypatch, A, B, frames.MESSAGES)
    published(nodes, C)
    replicas = nodes.by_name[B].replicas
    for _ in range(8 * LOOKS_UNTIL_ASKED + 1):
        replicas.look()
        nodes.settle()
    assert replicas.late_count == 1
    line = (
        "the mirror on this node waits for an answer of the leader on node a@host, and asks again"
    )
    assert len([one for one in warnings(caplog) if line in one]) == 3
    asked = [one for one in nodes.ends[B, A].log if one[0] == frames.WANTED]
    assert len(asked) == 8


def test_contents_that_come_after_the_leaders_are_passed_over(nodes, monkeypatch):
    late = nodes.ends[C, B].send
    lose(nodes, monkeypatch, C, B, frames.CONTENTS)
    publisher = published(nodes, C)
    (contents,) = [one for one in nodes.ends[C, A].log if one[0] == frames.CONTENTS]
    look(nodes, LOOKS_UNTIL_ASKED + 1)
    late(MULTICAST_SERVICE, contents)
    nodes.settle()
    assert publisher.confirmed == [1]
    assert nodes.bodies(A) == nodes.bodies(B) == [b"1"]


def test_a_confirm_that_was_not_told_is_told_when_its_node_asks(nodes, monkeypatch):
    with monkeypatch.context() as lossy:
        lose(nodes, lossy, A, C, frames.CONFIRMED)
        publisher = published(nodes, C)
    look(nodes, LOOKS_IN_TICK_TIME)
    assert not publisher.confirmed
    look(nodes, 1)
    assert publisher.confirmed == [1]


def test_what_the_leader_has_not_forgotten_is_confirmed_once(nodes, monkeypatch):
    with monkeypatch.context() as lossy:
        lose(nodes, lossy, B, A, frames.KEPT)
        publisher = published(nodes, C)
        look(nodes, LOOKS_IN_TICK_TIME + 1)
        kept = nodes.replica(A).leading.kept
        assert len(kept) == 1
    kept.kept(nodes.record.on(B).id, kept.first.turn)
    nodes.settle()
    assert publisher.confirmed == [1]


def test_a_mirror_does_not_request_contents_that_the_next_link_brings(nodes):
    """The decision comes before the contents."""
    nodes.unlink(B, C)
    nodes.link(B, C)
    nodes.settle()
    publish(nodes.queue(C), b"1")
    held, nodes.ends[C, B].sent = nodes.ends[C, B].sent, type(nodes.ends[C, B].sent)()
    services, nodes.ends[C, B].services = nodes.ends[C, B].services, type(held)()
    nodes.settle()
    assert nodes.bodies(A) == [b"1"]
    assert nodes.bodies(B) == []
    nodes.ends[C, B].sent, nodes.ends[C, B].services = held, services
    nodes.settle()
    assert nodes.bodies(B) == [b"1"]
    assert frames.WANTED not in [one[0] for one in nodes.ends[B, A].log]

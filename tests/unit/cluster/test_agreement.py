"""What a node agrees to, and what becomes of it when a proposal is abandoned."""

import pytest

from leveret.cluster.metadata.agreement import Agreement
from leveret.cluster.metadata.companions import Companions
from leveret.cluster.metadata.fence import Fence
from leveret.cluster.metadata.messages import (
    NO_VIEW,
    RUNNING,
    STARTING,
    Accept,
    AnnounceStatus,
    Propose,
    View,
    ViewId,
    ViewMember,
)
from leveret.cluster.metadata.next_view import Linked, NextView
from leveret.cluster.metadata.node_status import NodeStatus
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.cluster.metadata.outbox import Outbox
from leveret.cluster.metadata.outputs import SendMessage
from leveret.cluster.metadata.promises import Promises

A, B, C = (ViewMember(name, 1) for name in "abc")
VIEW = View(ViewId(3, "a", 1), (A, B))


@pytest.fixture
def out():
    return Outbox()


@pytest.fixture
def promises():
    """Those of a node that has promised nothing before; each is the output with the number 1."""
    return Promises(NO_VIEW, lambda view: 1)


@pytest.fixture
def agreement(out, promises):
    """That of node b, which runs in a view that a coordinates, and has links with a and c."""
    log = OrderedLog(10)
    companions = Companions("b", frozenset("ab"), lambda names: 1)
    status = NodeStatus(B, VIEW, log, companions, Fence(), out, ())
    status.phase = RUNNING
    status.peers = {"a": Linked(1), "c": Linked(1)}
    return Agreement(status, log, promises)


def on_disk(agreement, promises):
    promises.written(1)
    agreement.conclude()


def proposal_of(proposer, epoch):
    others = tuple(one for one in (A, B, C) if one != proposer)
    view = View(ViewId(epoch, proposer.name, 1), (proposer, *others))
    return Propose(view, VIEW.id, OrderedLog(10).position)


def test_a_node_that_has_agreed_refuses_what_was_proposed_before(agreement):
    agreement.agree("a", proposal_of(A, 5))
    refusal = agreement.objection("c", proposal_of(C, 4), is_proposing=False)
    assert refusal.reason == "agreed to a later proposal"
    assert agreement.objection("c", proposal_of(C, 6), is_proposing=False) is None


def test_a_node_says_that_it_agrees_when_its_disk_has_that(agreement, promises, out):
    agreement.agree("a", proposal_of(A, 5))
    agreement.conclude()
    assert out.take() == []
    on_disk(agreement, promises)
    (sent,) = out.take()
    assert (sent.to, type(sent.message)) == ("a", Accept)
    agreement.conclude()
    assert out.take() == []


def test_a_node_no_longer_agrees_to_a_proposal_that_was_abandoned_meanwhile(
    agreement, promises, out
):
    agreement.agree("a", proposal_of(A, 5))
    agreement.release()
    on_disk(agreement, promises)
    assert out.take() == []


def test_a_node_that_has_agreed_before_its_restart_refuses_what_was_proposed_before(
    agreement,
):
    status, log = agreement._status, OrderedLog(10)
    status.phase = STARTING
    again = Agreement(status, log, Promises(ViewId(5, "a", 1), lambda view: 1))
    refusal = again.objection("c", proposal_of(C, 4), is_proposing=False)
    assert refusal.promised == ViewId(5, "a", 1)
    assert again.objection("c", proposal_of(C, 6), is_proposing=False) is None


def test_a_proposer_learns_that_a_node_has_agreed_to_another_one(agreement, promises, out):
    agreement.agree("a", proposal_of(A, 5))
    out.take()
    agreement.agree("c", proposal_of(C, 6))
    on_disk(agreement, promises)
    sent = {one.to: one.message for one in out.take() if isinstance(one, SendMessage)}
    assert sent["a"].reason == "agreed to another proposal"
    assert isinstance(sent["c"], Accept)


@pytest.mark.parametrize(("proposer", "has_missed"), [(A, False), (C, True)])
def test_a_node_may_have_missed_something_unless_its_coordinator_proposed(
    agreement, proposer, has_missed
):
    agreement.agree(proposer.name, proposal_of(proposer, 5))
    assert agreement.release() is has_missed
    assert agreement.accepted is None


@pytest.mark.parametrize(("winner", "is_refused"), [("a", False), ("d", True)])
def test_a_node_that_gives_way_starts_with_a_winner_only(agreement, winner, is_refused):
    agreement._status.phase, agreement._status.takes_from = STARTING, (winner,)
    refusal = agreement.objection("a", proposal_of(A, 5), is_proposing=False)
    assert (refusal is not None) is is_refused


@pytest.mark.parametrize(("winner", "names"), [("b", "bc"), ("a", "b")])
def test_a_node_that_gives_way_joins_a_winner_only(winner, names):
    log, linked = OrderedLog(10), Linked(1)
    linked.status = AnnounceStatus(
        VIEW.id, VIEW.members, C, log.position, STARTING, False, ("b",), takes_from=(winner,)
    )
    next_view = NextView(B, View(ViewId(4, "b", 1), (B,)), log, {"c": linked})
    assert "".join(one.name for one in next_view.joined(frozenset("abc"))) == names

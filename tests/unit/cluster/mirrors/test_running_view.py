"""The view that a node is in, as planning sees it."""

from types import SimpleNamespace

import pytest

from leveret.cluster.gm.group import Member
from leveret.cluster.metadata import messages
from leveret.cluster.mirrors.planned_changes import RunningView
from leveret.cluster.mirrors.planning import NodesInView

VIEW = messages.View(messages.NO_VIEW, (messages.ViewMember("a", 3), messages.ViewMember("b", 5)))


@pytest.fixture
def node():
    log = SimpleNamespace(
        view=VIEW, partitioned_from=(), is_coordinator=True,
        when_stable=lambda callback: callback(),
    )  # fmt: skip
    states = SimpleNamespace(under_maintenance=frozenset("b"), is_under_maintenance=False)
    return SimpleNamespace(log=log, states=states, view=RunningView(log, states, "a"))


def test_the_nodes_and_those_that_are_maintained(node):
    assert node.view.nodes == NodesInView(frozenset("ab"), frozenset("b"))
    node.states.is_under_maintenance = True
    assert node.view.nodes.available == frozenset()
    assert node.view.is_coordinator


def test_applied_records_become_stable_in_the_log(node):
    stable = []
    node.view.when_stable(lambda: stable.append("now"))
    assert stable == ["now"]


@pytest.mark.parametrize(
    ("member", "lives"),
    [(Member("a", 3, 1), True), (Member("a", 2, 1), False), (Member("c", 3, 1), False)],
)
def test_a_member_lives_while_its_node_is_there_in_the_same_life(node, member, lives):
    assert node.view.lives(member) is lives


def test_a_node_is_apart_while_a_partition_is_known_and_not_while_it_is_only_left_out(node):
    linked = SimpleNamespace(name="c", incarnation=3)
    assert not node.view.is_apart(linked)
    node.log.partitioned_from = ("c",)
    assert node.view.is_apart(linked)


def test_a_node_that_is_in_no_view_sees_no_node(node):
    node.log.view = None
    assert node.view.nodes.running == frozenset()
    assert not node.view.lives(Member("a", 3, 1))

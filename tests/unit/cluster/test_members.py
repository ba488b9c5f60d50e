"""Who belongs to a cluster: joining, leaving, forgetting, changing type."""

import pytest

from leveret.cluster.membership import members
from leveret.cluster.membership.members import MembershipRefused

PAIR = {"a@h": True, "b@h": True}


def test_a_node_joins():
    joined = members.join({"a@h": True}, "b@h", True, {"b@h": True})
    assert joined == PAIR


def test_a_node_joins_as_a_ram_node():
    assert members.join({"a@h": True}, "b@h", False, {"b@h": True}) == {"a@h": True, "b@h": False}


def test_a_node_may_ask_to_join_again():
    assert members.join(PAIR, "b@h", True, PAIR) == PAIR


def test_a_node_that_was_reset_without_telling_has_to_be_forgotten_first():
    with pytest.raises(MembershipRefused, match="forget_cluster_node b@h first"):
        members.join(PAIR, "b@h", True, {"b@h": True, "c@h": True})


def test_the_only_disc_node_of_a_cluster_joins_no_other_one():
    with pytest.raises(MembershipRefused, match="only disc node of its own"):
        members.join({"a@h": True}, "b@h", True, {"b@h": True, "c@h": False})


def test_a_node_leaves():
    assert members.leave(PAIR, "b@h") == {"a@h": True}


def test_the_last_disc_node_stays():
    some = {"a@h": True, "b@h": False}
    with pytest.raises(MembershipRefused, match="only disc node"):
        members.leave(some, "a@h")
    with pytest.raises(MembershipRefused, match="only disc node"):
        members.forget(some, "a@h", asked="b@h", running=frozenset({"b@h"}))
    with pytest.raises(MembershipRefused, match="only disc node"):
        members.change_type(some, "a@h", False, running=frozenset({"b@h"}))


def test_a_node_that_is_alone_may_be_reset():
    assert members.leave({"a@h": True}, "a@h") == {}


def test_a_node_that_is_down_is_forgotten():
    assert members.forget(PAIR, "b@h", asked="a@h", running=frozenset({"a@h"})) == {"a@h": True}


@pytest.mark.parametrize(
    ("name", "running", "text"),
    [
        ("b@h", {"a@h", "b@h"}, "node b@h is running"),
        ("c@h", {"a@h"}, "node c@h is not a member"),
        ("a@h", {"a@h"}, "cannot remove itself"),
    ],
)
def test_nodes_that_are_not_forgotten(name, running, text):
    with pytest.raises(MembershipRefused, match=text):
        members.forget(PAIR, name, asked="a@h", running=frozenset(running))


def test_a_stopped_node_changes_its_type():
    changed = members.change_type(PAIR, "b@h", False, running=frozenset({"a@h"}))
    assert changed == {"a@h": True, "b@h": False}


@pytest.mark.parametrize(
    ("some", "running", "text"),
    [
        ({"b@h": True}, {"a@h"}, "can only be a disc node"),
        (PAIR, {"a@h", "b@h"}, "node b@h is running"),
        (PAIR, set(), "none of the other nodes"),
    ],
)
def test_nodes_that_do_not_change_their_type(some, running, text):
    with pytest.raises(MembershipRefused, match=text):
        members.change_type(some, "b@h", False, running=frozenset(running))


def test_a_forgotten_node_does_not_start_as_a_member():
    with pytest.raises(MembershipRefused, match="a@h disagrees: it was removed"):
        members.check_start("b@h", own=PAIR, theirs={"a@h": True}, other="a@h")
    members.check_start("b@h", own=PAIR, theirs=PAIR, other="a@h")

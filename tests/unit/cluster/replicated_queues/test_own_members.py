"""What a node says about its members, and what it does with them, by the records of its queues."""

from types import SimpleNamespace

import pytest

from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.groups.group_frames import Announced, Damaged
from leveret.cluster.groups.member_nodes import MemberNodes
from leveret.cluster.quorum.queue_groups.declared_group import DeclaredGroup
from leveret.cluster.raft.configuration import Configuration
from leveret.cluster.replicated_queues.membership_record import KeepOnly, changed, new_record
from leveret.cluster.replicated_queues.own_members import LOOK_MS, OwnMembers

GROUP = 7
THREE = new_record(("a", "b", "c"))


class FakeMember:
    """A member that leads nothing."""

    def __init__(self, me, *voters):
        log = SimpleNamespace(configuration=Configuration(voters), last_index=0)
        self.me = me
        self.raft = SimpleNamespace(
            leading=None, campaign=None, state=SimpleNamespace(log=log),
            begin=lambda *arguments: None,
        )  # fmt: skip
        self.damage, self.is_to_be_replaced, self.is_alone = "", True, False
        self.is_catching_up = me not in voters

    def follow(self, wanted):
        self.wanted = wanted

    def become_only_member(self):
        self.is_alone = True
        self.raft.state.log.configuration = Configuration((self.me,))


class FakeGroups:
    """Node a. said: what was sent, with the nodes that it was sent to."""

    node = "a"

    def __init__(self):
        self.members, self.nodes, self.said = {}, MemberNodes(), []

    def now_ms(self):
        return 0

    def create(self, group, voters, me):
        self.members[group] = FakeMember(me, *voters)
        return self.members[group]

    def remove(self, group, *, is_replaced=False):
        del self.members[group]

    def send_item(self, node, item):
        self.said.append((node, item))

    def members_changed(self, member):
        """The nodes of renamed members are known."""


class Node:
    """A node with one queue. replaced: the members that its leader has replaced."""

    def __init__(self, record=THREE):
        self.groups, self.clock, self.replaced = FakeGroups(), VirtualClock(), []
        self.cluster = SimpleNamespace(nodes={"a", "b", "c"})
        self.declared = SimpleNamespace(
            group=GROUP, lost="", lost_by_others=set(), waits_for_node=False, stuck_since_ms=0,
            use=SimpleNamespace(leader=""),
            queue=SimpleNamespace(placement=SimpleNamespace(node="b")),
        )  # fmt: skip
        self.set_record(record)
        self.own = OwnMembers(
            self.groups, {GROUP: self.declared}, self.cluster, self.clock,
            lambda declared, lost: self.replaced.append(lost.name),
        )  # fmt: skip

    def set_record(self, record):
        DeclaredGroup.set_record(self.declared, record)

    @property
    def member(self):
        return self.groups.members.get(GROUP)

    def take_said(self):
        said, self.groups.said = self.groups.said, []
        return said


@pytest.fixture
def node():
    return Node()


def with_member(node, me="a/1"):
    node.groups.members[GROUP] = FakeMember(me, *node.declared.wanted.voters)
    node.own.restored()
    node.own.settle(node.declared)
    return node.member


def test_the_members_of_a_new_queue_are_made_when_it_is_declared(node):
    node.own.restored()
    node.own.added(node.declared)
    assert (node.member.me, node.take_said()) == ("a/1", [])
    assert node.member.raft.state.log.configuration.voters == ("a/1", "b/2", "c/3")


def test_a_later_member_is_announced_and_made_by_the_leader():
    node = Node(new_record(("b", "c")).with_member("a"))
    node.own.restored()
    node.own.added(node.declared)
    assert node.member is None
    assert node.take_said() == [("b", Announced(GROUP, "a/3")), ("c", Announced(GROUP, "a/3"))]
    assert node.groups.may_join(GROUP, "a/3")
    assert not node.groups.may_join(GROUP, "a/2")
    node.clock.advance(LOOK_MS / 1000)
    assert len(node.take_said()) == 2, "it is not there yet"


def test_a_member_that_a_restart_does_not_find_is_lost(node):
    node.own.added(node.declared)
    assert node.member is None
    assert node.take_said() == [("b", Damaged(GROUP, "a/1")), ("c", Damaged(GROUP, "a/1"))]
    assert not node.groups.may_join(GROUP, "a/1"), "it might vote twice"
    node.set_record(THREE.without("a").with_member("a"))
    node.own.settle(node.declared)
    assert node.take_said()[0] == ("b", Announced(GROUP, "a/4"))


def test_if_no_node_has_found_its_member_all_begin_again(node):
    node.own.added(node.declared)
    node.groups.lost(GROUP, "b/2")
    assert node.member is None
    node.groups.lost(GROUP, "c/3")
    assert node.member.me == "a/1"


def test_a_member_without_entries_lets_those_begin_again_that_were_not_found(node):
    member = with_member(node)
    node.groups.lost(GROUP, "b/2")
    assert node.take_said() == [("b", Damaged(GROUP, "a/1"))]
    member.raft.state.log.last_index = 1
    node.groups.lost(GROUP, "c/3")
    assert node.take_said() == [], "it may have what the others have lost"


def test_a_group_whose_other_members_are_lost_says_what_to_do(node, caplog):
    member = with_member(node)
    member.raft.state.log.last_index = 1
    for name in ("b/2", "c/3"):
        node.groups.lost(GROUP, name)
    node.clock.advance(LOOK_MS / 1000)
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "force_shrink_member_to_current_member" in record.message


def test_the_only_member_begins_again():
    node = Node(new_record(("a",)))
    node.own.added(node.declared)
    assert node.member.me == "a/1"


def test_a_member_of_another_node_is_removed(node):
    node.groups.members[GROUP] = FakeMember("b/2")
    node.own.added(node.declared)
    assert node.member is None
    assert node.take_said()[0] == ("b", Damaged(GROUP, "a/1"))


def test_a_member_that_was_removed_while_its_node_got_another_name_is_not_foreign(node, caplog):
    node.set_record(THREE.without("a"))
    with_member(node, "old/1")
    node.take_said()
    node.own.added(node.declared)
    assert node.member.me == "old/1", "the group may still need its vote"
    assert node.take_said() == [("b", Announced(GROUP, "old/1")), ("c", Announced(GROUP, "old/1"))]
    assert not caplog.records


def test_the_leader_has_lost_members_replaced(node):
    with_member(node).raft.leading = object()
    node.groups.lost(GROUP, "c/3")
    node.groups.lost(GROUP, "c/9")
    assert node.replaced == ["c/3"]


def test_a_member_that_is_not_in_the_record_asks_whether_it_was_removed(node):
    with_member(node)
    node.set_record(THREE.without("a"))
    node.own.settle(node.declared)
    assert node.take_said() == [("b", Announced(GROUP, "a/1")), ("c", Announced(GROUP, "a/1"))]
    node.own.removed(GROUP)
    assert (node.member, node.take_said()) == (None, [])


def test_a_member_goes_on_alone_when_the_others_are_given_up(node):
    member = with_member(node)
    node.set_record(changed(THREE, KeepOnly("a")))
    node.own.settle(node.declared)
    assert member.is_alone
    assert member.wanted.forced_from == 4


def test_a_member_whose_node_was_down_goes_on_alone_before_others_are_added(node):
    node.set_record(changed(THREE, KeepOnly("a")).with_member("d"))
    node.groups.members[GROUP] = member = FakeMember("a/1", "a/1", "b/2", "c/3")
    node.own.added(node.declared)
    assert member.is_alone
    member.is_alone = False
    member.raft.state.log.configuration = Configuration(("a/1", "d/4"))
    node.own.settle(node.declared)
    assert not member.is_alone


def test_a_member_that_was_given_up_is_removed(node):
    with_member(node)
    node.set_record(changed(THREE, KeepOnly("b")))
    node.own.settle(node.declared)
    assert node.member is None


def test_one_of_two_members_goes_on_when_the_node_of_the_other_one_has_left():
    node = Node(new_record(("a", "b")))
    member = with_member(node)
    node.set_record(node.declared.record.without("b"))
    node.own.settle(node.declared)
    assert not member.is_alone, "the leader may be about to remove it"
    node.cluster.nodes.remove("b")
    node.own.look()
    assert member.is_alone


def test_a_group_that_has_lost_most_members_says_what_to_do(node, caplog):
    member = with_member(node)
    node.cluster.nodes -= {"b", "c"}
    node.set_record(THREE.without("b").without("c"))
    node.own.settle(node.declared)
    for _ in range(3):
        node.clock.advance(LOOK_MS / 1000)
    assert not member.is_alone
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "force_shrink_member_to_current_member" in record.message


def test_a_new_member_is_not_the_one_to_go_on_with(node, caplog):
    node.groups.members[GROUP] = FakeMember("a/1", "b/2", "c/3")
    node.own.restored()
    node.cluster.nodes -= {"b", "c"}
    node.set_record(THREE.without("b").without("c"))
    node.own.settle(node.declared)
    for _ in range(3):
        node.clock.advance(LOOK_MS / 1000)
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


def test_members_of_renamed_nodes_are_found(node):
    with_member(node)
    node.set_record(THREE.renamed({"b": "beta"}))
    node.own.settle(node.declared)
    assert node.groups.nodes.of(GROUP, "b/2") == "beta"
    assert node.take_said()[0] == ("beta", Announced(GROUP, "a/1")), "it may have been unknown"
    node.own.settle(node.declared)
    assert node.take_said() == []

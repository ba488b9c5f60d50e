"""Changes of the members, one at a time, and handing the lead over."""

from leveret.cluster.raft.configuration import ChangeRefusal, MemberKind
from leveret.cluster.raft.leading import PROMOTION_LAG
from leveret.cluster.raft.messages import Acknowledgement, AskVote
from leveret.cluster.raft.outputs import DATA
from tests.unit.cluster.raft.raft_by_hand import GRANTED, REMOVED, RaftByHand, elected

VOTER, NON_VOTER = MemberKind.VOTER, MemberKind.NON_VOTER


def change(group, member, membership, by=None):
    node = group.nodes[by or group.leader]
    refusal = node.machine.change_member(member, membership)
    group.carry_out(node)
    return refusal


def voters(group, name):
    return group.status(name).configuration.voters


def test_a_new_member_has_no_vote_until_it_has_caught_up():
    group = RaftByHand("abc", members="ab", leader="a")
    for _ in range(5):
        group.propose()
    group.settle()
    assert change(group, "c", VOTER) is None
    assert voters(group, "a") == ("a", "b")
    group.settle()
    assert voters(group, "a") == voters(group, "c") == ("a", "b", "c")
    assert group.data("c") == group.data("a")


def test_a_new_member_whose_node_is_away_does_not_raise_the_majority():
    group = RaftByHand("abc", members="ab", leader="a")
    group.stop("c")
    change(group, "c", VOTER)
    group.propose()
    group.settle()
    assert group.status("a").commit == group.status("a").last_index
    assert voters(group, "a") == ("a", "b")


def test_a_non_voter_stays_one():
    group = RaftByHand("abc", members="ab", leader="a")
    change(group, "c", NON_VOTER)
    group.settle()
    assert group.status("c").configuration.non_voters == ("c",)
    group.stop("a")
    group.stop("b")
    group.settle()
    assert group.leaders() == []


def test_a_change_is_refused_with_the_reason():
    group = RaftByHand("abcd", members="abc", leader="a")
    assert change(group, "d", VOTER, by="b") is ChangeRefusal.NOT_LEADER
    assert change(group, "b", VOTER) is ChangeRefusal.MEMBER_ALREADY
    assert change(group, "d", None) is ChangeRefusal.NO_MEMBER
    assert change(group, "d", VOTER) is None
    assert change(group, "b", None) is ChangeRefusal.CHANGE_UNDER_WAY
    alone = RaftByHand("a")
    assert change(alone, "a", None) is ChangeRefusal.LAST_VOTER


def test_a_leader_changes_no_member_before_it_has_committed_an_entry_of_its_term():
    """Two leaders that each add a member to an old configuration have majorities apart."""
    leader = elected("abcd", (1, 3, 1, DATA), term=1)
    assert leader.change_member("d", None) is ChangeRefusal.NOT_YET
    for name in "bc":
        leader.received(name, Acknowledgement(5, 2, 4), 2_000)
    leader.take_outputs()
    assert leader.change_member("d", None) is None


def test_a_removed_member_is_told():
    group = RaftByHand("abc", leader="a")
    change(group, "c", None)
    group.settle()
    assert (group.status("c").role, voters(group, "a")) == ("removed", ("a", "b"))


def test_a_member_that_was_away_when_it_was_removed_is_told_when_it_asks_for_votes():
    group = RaftByHand("abc", leader="a")
    group.stop("c")
    change(group, "c", None)
    group.settle()
    term = group.status("a").term
    group.start("c")
    group.settle()
    assert (group.status("c").role, group.status("a").term) == ("removed", term)


def test_a_member_that_does_not_know_yet_that_it_is_a_voter_votes():
    group = RaftByHand("abc", members="ab", leader="a")
    assert group.machine("c").state.log.configuration.members == ()
    assert group.said("c", "a", AskVote(5, 50, False, 9, 9, 9))[0].answer is GRANTED


def test_a_node_that_has_removed_a_member_gives_it_no_vote():
    group = RaftByHand("abc", leader="a")
    change(group, "c", None)
    group.settle()
    question = AskVote(5, 50, False, 99, 99, 0)
    assert group.said("b", "c", question)[0].answer is REMOVED
    assert group.status("b").term < 50


def test_a_leader_that_removes_itself_is_followed_by_another_one():
    group = RaftByHand("abc", leader="a")
    change(group, "a", None)
    group.settle()
    assert group.leader in "bc"
    assert (voters(group, "b"), group.status("a").role) == (("b", "c"), "removed")


def test_two_members_remain_able_to_decide_when_one_removes_itself_and_is_cut_off():
    """Only the one that leaves has the entry that removes it; the other one needs its log."""
    group = RaftByHand("ab", leader="b")
    group.propose()
    group.deliver()
    change(group, "b", None)
    group.isolate("b")
    group.settle()
    group.join("b")
    group.settle()
    assert (group.leader, voters(group, "a")) == ("a", ("a",))
    assert group.status("b").role == "removed"


def test_a_leader_that_removes_itself_and_restarts_knows_that_it_was_a_voter():
    """What it knows to be committed after its start is older than the change that made it one."""
    group = RaftByHand("ab", members="a")
    change(group, "b", VOTER)
    group.settle()
    group.do(("transfer", "a", "b"))
    group.settle()
    change(group, "b", None)
    group.do(("sync", "b", len(group.nodes["b"].disk.writes)))
    group.stop("b")
    group.start("b")
    assert (group.status("b").commit, voters(group, "b")) == (0, ("a",))
    group.settle()
    assert (group.leader, voters(group, "a")) == ("a", ("a",))
    assert group.status("b").role == "removed"


def test_a_leader_that_does_not_know_of_its_successor_is_told_that_it_has_removed_itself():
    """The next leader has the removal, and sends nothing to a member that it does not have."""
    group = RaftByHand("abc", leader="a")
    change(group, "a", None)
    group.deliver()  # The others have the entry, and lose their answers.
    for name in "bc":
        node = group.nodes[name]
        node.machine.received("b", AskVote(5, 50, False, 99, 99, 99), node.clock)
        group.carry_out(node)
    group.settle()
    assert group.leader in "bc"
    assert group.status("a").role == "removed"


def test_a_removed_member_can_be_replaced_while_two_of_three_are_there():
    group = RaftByHand("abcd", members="abc", leader="a")
    group.stop("c")
    change(group, "c", None)
    group.settle()
    change(group, "d", VOTER)
    group.settle()
    assert voters(group, "d") == ("a", "b", "d")


def test_an_entry_that_waits_is_committed_when_a_removal_makes_the_majority_smaller():
    group = RaftByHand("ab", leader="a")
    group.do(("stall", "b"))
    group.do(("stall", "a"))
    group.propose()
    change(group, "b", None)
    group.do(("unstall", "a"))
    group.settle()
    assert group.status("a").commit == group.status("a").last_index


# Handing over


def transfer(group, to, by=None):
    node = group.nodes[by or group.leader]
    refusal = node.machine.transfer_to(to, node.clock)
    group.carry_out(node)
    return refusal


def test_the_lead_is_handed_over_at_once_to_a_member_that_has_all():
    group = RaftByHand("abc", leader="a")
    assert transfer(group, "c") is None
    group.settle(10)
    assert group.leader == "c"


def test_the_lead_waits_for_a_slow_member_and_takes_no_proposals_meanwhile():
    group = RaftByHand("abc", leader="a")
    group.do(("stall", "c"))
    group.propose()
    group.settle(1)
    transfer(group, "c")
    assert group.machine("a").propose([b"late"]) == 0
    assert group.status("a").transfer_to == "c"
    group.do(("unstall", "c"))
    group.settle(500)
    assert group.leader == "c"


def test_a_transfer_to_a_member_that_does_not_get_on_is_given_up():
    group = RaftByHand("abc", leader="a")
    group.do(("stall", "c"))
    group.propose()
    transfer(group, "c")
    group.settle()
    assert (group.leader, group.status("a").transfer_to) == ("a", "")
    assert group.machine("a").propose([b"again"]) > 0


def test_a_transfer_ends_with_the_link_to_its_target():
    group = RaftByHand("abc", leader="a")
    group.do(("stall", "c"))
    group.propose()
    transfer(group, "c")
    group.isolate("c")
    group.deliver()
    assert (group.leader, group.status("a").transfer_to) == ("a", "")


def test_a_transfer_is_refused_with_the_reason():
    group = RaftByHand("abcd", members="abc", leader="a")
    assert transfer(group, "a") is ChangeRefusal.LEADER_ALREADY
    assert transfer(group, "d") is ChangeRefusal.NO_VOTER
    assert transfer(group, "b", by="c") is ChangeRefusal.NOT_LEADER
    group.do(("stall", "c"))
    group.propose()
    assert transfer(group, "c") is None
    assert transfer(group, "b") is ChangeRefusal.TRANSFER_UNDER_WAY
    group.isolate("b")
    group.settle()
    assert transfer(group, "b") is ChangeRefusal.UNREACHABLE


def test_a_group_of_one_is_recovered_from_what_one_member_has():
    group = RaftByHand("abc", leader="a")
    group.propose()
    group.settle()
    group.stop("a")
    group.stop("b")
    group.settle()
    assert group.leaders() == []
    node = group.nodes["c"]
    node.machine.become_only_member(node.clock)
    group.carry_out(node)
    group.settle()
    assert (group.leader, voters(group, "c"), group.data("c")) == ("c", ("c",), [b"1 .."])


def test_a_member_is_not_promoted_while_it_lacks_more_than_a_second_of_traffic():
    group = RaftByHand("abc", members="ab", leader="a")
    for _ in range(3):
        group.propose(*[1_000] * 500)
    group.settle()
    group.do(("stall", "c"))
    change(group, "c", VOTER)
    group.settle()
    for _ in range(4):  # Its term, two entries of leaders, and the first ones that were proposed.
        group.do(("sync", "c", 1))
        group.settle()
    (match,) = [one.match for one in group.status("a").progress if one.member == "c"]
    assert 100 < match < group.status("a").last_index - PROMOTION_LAG
    assert group.status("a").configuration.promotable == ("c",)
    group.do(("unstall", "c"))
    group.settle()
    assert voters(group, "a") == ("a", "b", "c")

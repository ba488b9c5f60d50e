"""Elections: who stands, who votes for whom, and why there is no leader."""

from leveret.cluster.raft.configuration import Configuration
from leveret.cluster.raft.election import rank
from leveret.cluster.raft.entry_log import Stored
from leveret.cluster.raft.member_state import MemberState
from leveret.cluster.raft.messages import Entries, Mismatch, TakeLead
from leveret.cluster.raft.status import NoLeader
from tests.unit.cluster.raft.raft_by_hand import (
    GRANTED,
    HAS_LEADER,
    HAS_VOTED,
    LOG_BEHIND,
    OLD_TERM,
    RaftByHand,
)


def test_a_single_member_leads_when_its_vote_is_on_disk():
    group = RaftByHand("a")
    group.propose()
    group.settle()
    assert (group.leader, group.status("a").commit) == ("a", 2)


def test_a_group_has_a_leader_as_soon_as_a_majority_is_there():
    group = RaftByHand("abc", leader="a")
    for name in "abc":
        group.stop(name)
    group.start("b")
    group.start("c")
    group.settle(100)
    assert group.leader in "bc"


def test_one_of_two_members_is_no_majority_and_names_the_missing_one():
    group = RaftByHand("ab", leader="a")
    group.stop("b")
    group.settle()
    assert group.leaders() == []
    why = group.status("a")
    assert (why.no_leader, why.reasons) == (NoLeader.NO_MAJORITY, (("b", None),))


def test_a_member_that_stands_without_a_disk_says_so():
    group = RaftByHand("ab", leader="a")
    group.do(("stall", "a"))
    group.do(("stall", "b"))
    group.isolate("a")
    group.settle()
    group.join("a")
    group.settle()
    assert NoLeader.DISK in (group.status("a").no_leader, group.status("b").no_leader)
    assert group.leaders() == []


def test_the_death_of_a_leader_costs_one_election():
    group = RaftByHand("abc", leader="a")
    term = group.status("a").term
    group.stop("a")
    group.settle(200)
    assert group.status(group.leader).term == term + 1


def test_a_follower_that_was_cut_off_does_not_take_the_lead_when_it_is_back():
    group = RaftByHand("abc", leader="a")
    term = group.status("a").term
    group.isolate("c")
    group.settle(20_000)
    group.join("c")
    group.settle()
    assert (group.leader, group.status("c").term) == ("a", term)


def test_a_follower_that_does_not_hear_its_leader_is_refused_by_members_that_do():
    group = RaftByHand("abc", leader="a")
    term = group.status("a").term
    group.do(("cut way", "a", "c"))
    group.settle()
    why = group.status("c")
    assert (why.no_leader, why.term) == (NoLeader.REFUSED, term)
    assert dict(why.reasons) == {"b": HAS_LEADER}
    group.do(("heal way", "a", "c"))
    group.settle()
    assert (group.status("c").no_leader, group.leader) == (None, "a")


def test_a_leader_that_hears_no_member_steps_down_and_the_others_elect_one():
    group = RaftByHand("abc", leader="a")
    group.do(("cut way", "b", "a"))
    group.do(("cut way", "c", "a"))
    group.settle()
    assert group.leader in "bc"
    assert group.machine("a").leading is None


def test_a_leader_that_no_member_hears_is_followed_by_another_one():
    group = RaftByHand("abc", leader="a")
    group.do(("cut way", "a", "b"))
    group.do(("cut way", "a", "c"))
    group.settle()
    assert group.leader in "bc"
    assert group.machine("a").leading is None


def test_a_leader_without_a_majority_keeps_its_entries_and_leads_on_if_links_return_in_time():
    group = RaftByHand("abc", leader="a")
    term = group.status("a").term
    group.isolate("a")
    group.propose(by="a")
    group.deliver()
    group.join("a")
    group.settle()
    assert group.data("a") == group.data("b") == group.data("c") == [b"1 .."]
    assert group.status(group.leader).term <= term + 1


def test_a_member_whose_log_is_behind_does_not_win():
    group = RaftByHand("abc", leader="a")
    group.isolate("c")
    group.propose()
    group.settle()
    group.stop("a")
    group.join("c")
    group.settle()
    assert group.leader == "b"


def test_a_vote_needs_a_log_that_is_as_new():
    group = RaftByHand("abc", leader="a")
    last = group.status("b")
    group.stop("a")
    group.deliver()
    term = group.machine("b").state.log.last_term
    asked = 50
    for last_term, last_index, answer in (
        (term, last.last_index - 1, LOG_BEHIND),
        (term - 1, last.last_index + 9, LOG_BEHIND),
        (term, last.last_index, GRANTED),
    ):
        asked += 1
        assert group.vote_of("b", "c", asked, last_term, last_index) is answer


def test_a_member_votes_once_in_a_term_and_again_for_the_same_candidate():
    group = RaftByHand("abcd", leader="a")
    assert group.vote_of("b", "c", 50) is GRANTED
    assert group.vote_of("b", "d", 50) is HAS_VOTED
    assert group.vote_of("b", "c", 50) is GRANTED
    assert group.vote_of("b", "c", 49) is OLD_TERM


def test_a_pre_vote_changes_nothing():
    group = RaftByHand("abc", leader="a")
    before = group.status("b")
    assert group.vote_of("b", "c", 50, is_pre_vote=True) is HAS_LEADER
    group.stop("a")
    group.deliver()
    assert group.vote_of("b", "c", 50, is_pre_vote=True) is GRANTED
    assert group.vote_of("b", "c", before.term, is_pre_vote=True) is OLD_TERM
    after = group.status("b")
    assert (after.term, after.vote) == (before.term, before.vote)


def test_a_member_in_a_higher_term_gets_back_into_the_group():
    """It was a candidate, alone, after a pre-vote: the leader cannot bring it back in its term."""
    group = RaftByHand("abc", leader="a")
    group.propose()
    group.settle()
    group.isolate("c")
    group.deliver()
    group.machine("c").received("b", TakeLead(5, 40), group.nodes["c"].clock)
    group.carry_out(group.nodes["c"])
    group.join("c")
    group.settle()
    assert {group.status(name).leader for name in "abc"} == {group.leader}
    assert group.status("a").term > 40


def test_a_member_of_a_lower_term_with_the_newest_log_can_be_elected():
    group = RaftByHand("abc", leader="a")
    group.vote_of("c", "b", 50, last_term=0, last_index=0)  # It enters the term, and does not vote.
    group.stop("a")
    group.settle()
    assert group.status(group.leader).term > 50


def test_an_old_leader_is_told_that_there_is_a_newer_term():
    group = RaftByHand("abc", leader="a")
    term = group.status("b").term
    group.vote_of("b", "c", term + 5)
    old = Entries(5, term, 0, 0, 0, term, 0, [b"late"])
    answers = group.said("b", "a", old)
    assert [type(one) for one in answers] == [Mismatch]
    assert answers[0].term == term + 5
    assert b"late" not in group.data("b")


def test_messages_of_a_queue_that_was_deleted_and_declared_again_are_dropped():
    group = RaftByHand("abc", leader="a")
    before = group.status("b")
    assert group.said("b", "c", Entries(4, 90, 0, 0, 9, 1, 0, [b"old"])) == []
    assert group.status("b") == before


def test_a_node_that_does_not_follow_the_sender_does_not_take_the_lead_for_it():
    group = RaftByHand("abc", leader="a")
    term = group.status("b").term
    group.said("b", "c", TakeLead(5, term))
    assert group.status("b").role == "follower"


def test_two_candidates_of_one_term_end_with_one_leader():
    group = RaftByHand("abcd", leader="a")
    for name in "bc":
        group.machine(name).received("a", TakeLead(5, group.status("a").term), 10_000)
        group.carry_out(group.nodes[name])
    group.settle()
    assert len(group.leaders()) == 1


def test_a_quiet_group_has_no_timer_and_sends_nothing():
    group = RaftByHand("abc", leader="a")
    group.propose()
    group.settle()
    steps = len(group.trace)
    group.settle(3_600_000)
    assert [one[0] for one in group.trace[steps:]] == ["pass"]


def test_the_groups_of_a_dead_node_are_shared_out():
    voters = Configuration(("a", "b", "c"))
    first = [rank(MemberState(group, "b", Stored(voters)), "a") for group in range(10)]
    assert sorted(first) == [0] * 5 + [1] * 5

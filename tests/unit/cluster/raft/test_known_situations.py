"""Situations from the test data of etcd's Raft, and those in which implementations have failed.

Those of etcd (github.com/etcd-io/raft, testdata), with the tests that have them, here or beside:

    async_storage_writes                    an_acknowledgement_waits_for_the_sync_...
    async_storage_writes_append_aba_race    a_sync_of_an_entry_that_was_truncated_...
    campaign, single_node                   a_group_has_a_leader_as_soon_as_..., a_single_member_...
    campaign_learner_must_vote              a_member_that_does_not_know_yet_that_it_is_a_voter_votes
    checkquorum                             a_leader_that_hears_no_member_steps_down_...
    confchange_disable_validation           a_change_is_refused_with_the_reason (never disabled)
    confchange_v1_add_single, _v2_add_*     a_new_member_has_no_vote_until_it_has_caught_up
    confchange_v1_remove_leader*            what_a_leader_takes_while_it_removes_itself_is_committed
    confchange_v2_replace_leader*           a_removed_leader_does_not_come_back
    forget_leader*                          a_leader_that_gives_up_is_followed_at_once
    heartbeat_resp_recovers_from_probing    a_member_that_has_all_is_sent_entries_after_a_short_cut
    lagging_commit                          an_acknowledgement_that_was_lost_with_its_link_...
    prevote                                 a_member_whose_log_is_behind_does_not_win
    prevote_checkquorum                     a_follower_that_does_not_hear_its_leader_is_refused_...
    probe_and_replicate                     the_logs_of_figure_7_become_those_of_the_leader
    replicate_pause                         a_full_window_waits_for_an_acknowledgement
    slow_follower_after_compaction          a_slow_follower_gets_a_snapshot_for_what_is_discarded
    snapshot_succeed_via_app_resp*          an_acknowledgement_ends_the_snapshot_that_...

There is no joint configuration here, no lease, and no reading without an entry. Reports of failures
are named at each test; those of others are shown by tests beside this file:

    logcabin 44                     an_entry_of_an_earlier_term_is_not_committed_by_counting
    raft-dev, single-server bug     a_leader_changes_no_member_before_it_has_committed_...
    copycat 265, cockroach 128663   a_follower_commits_only_through_what_it_was_just_shown
    rafter 34                       what_only_an_old_leader_had_is_truncated_and_its_configuration
    camunda 1068, raft.tla 5        a_vote_is_told_when_it_is_on_disk
    canonical/raft 199              a_restart_voids_entries_that_end_before_the_snapshot
    hashicorp/raft 524              a_member_that_was_away_when_it_was_removed_is_told_...
    hashicorp/raft 472              a_member_votes_once_in_a_term_and_again_for_the_same_candidate
    etcd 22442                      storage/test_group_log: truncated_entries_do_not_come_back...
    NuRaft 185                      a_member_that_has_lost_what_was_on_its_disk_is_noticed
"""

from leveret.cluster.raft.configuration import Configuration, MemberKind
from leveret.cluster.raft.entry_log import Stored, StoredRun
from leveret.cluster.raft.messages import AskVote, Entries, TakeLead, Vote, VoteAnswer
from leveret.cluster.raft.outputs import DATA
from leveret.cluster.raft.progress import REPLICATING
from leveret.cluster.raft.raft_member import RaftMember
from tests.unit.cluster.raft.raft_by_hand import GRANTED, LOG_BEHIND, RaftByHand, elected


def change(group, member, membership, by=None):
    node = group.nodes[by or group.leader]
    refusal = node.machine.change_member(member, membership)
    group.carry_out(node)
    assert refusal is None


def is_whole(group, names):
    """All have the same entries, and have applied them."""
    leader = group.status(group.leader)
    return all(
        group.status(name).commit == leader.last_index and group.data(name) == group.data(names[0])
        for name in names
    )


def progress(group, member):
    (found,) = [one for one in group.status(group.leader).progress if one.member == member]
    return found


# Members that are removed


def test_what_a_leader_takes_while_it_removes_itself_is_committed():
    group = RaftByHand("abc", leader="a")
    change(group, "a", None)
    group.propose(by="a")
    group.settle()
    assert group.leader in "bc"
    assert group.data("b") == group.data("c") == [b"1 .."]
    assert is_whole(group, "bc")


def test_a_removed_leader_does_not_come_back():
    group = RaftByHand("abcd", members="abc", leader="a")
    change(group, "d", MemberKind.VOTER)
    group.settle()
    change(group, "a", None)
    group.settle()
    term = group.status(group.leader).term
    group.stop("a")
    group.start("a")
    group.settle()
    assert group.status(group.leader).term == term
    assert group.status("a").role == "removed"


# Leaders that stop


def test_a_leader_that_gives_up_is_followed_at_once_by_one_that_has_all():
    group = RaftByHand("abc", leader="a")
    group.isolate("c")
    group.propose()
    group.settle(100)
    group.join("c")
    group.do(("cut way", "a", "c"))  # It does not get the entry before the end of the lead.
    node = group.nodes["a"]
    node.machine.give_up_lead(node.clock)
    group.carry_out(node)
    assert group.leaders() == []
    group.do(("heal way", "a", "c"))
    group.settle(1_000)
    assert group.leader in "ab", "c lacks an entry that is committed"
    assert is_whole(group, "abc")


def test_followers_that_still_trust_a_leader_vote_for_it_when_it_asks():
    """hashicorp/raft 606: they refused, because they had a leader: the one that asked."""
    group = RaftByHand("ab", leader="a")
    assert group.status("b").leader == "a"
    term = group.status("a").term
    assert group.vote_of("b", "a", term + 1, is_pre_vote=True) is GRANTED


def test_requests_for_pre_votes_do_not_keep_a_member_from_standing():
    """hashicorp/raft 609: they counted as signs of life of a leader."""
    group = RaftByHand("abc", leader="a")
    group.isolate("a")
    group.deliver()
    for _ in range(20):
        group.vote_of("b", "c", group.status("b").term + 1, 0, 0, is_pre_vote=True)
        group.settle(100)
    assert group.leader in "bc"


def test_a_leader_that_learns_of_a_higher_term_appends_nothing_in_it():
    """Camunda 5360: an old leader wrote an entry of the new term, which its leader did not have."""
    leader = elected("abc", (1, 3, 1, DATA), term=1)
    term, last = leader.state.term, leader.state.log.last_index
    leader.received("b", Entries(5, term + 1, last, term, 0, 0, DATA, []), 2_000)
    assert leader.propose([b"late"]) == 0
    assert leader.state.log.last_index == last


# Elections that got stuck


def alone(name, term, *runs, voters="ab"):
    """A member by itself that restarts with entries. runs: first, count and term."""
    found = tuple([StoredRun(first, count, of, DATA, []) for first, count, of in runs])
    member = RaftMember(
        5, name, Stored(Configuration(tuple(voters)), term, runs=found), lambda: 0.5
    )
    for other in voters:
        if other != name:
            member.link_up(other, 1)
    member.take_outputs()
    return member


def test_a_candidate_does_not_hold_up_a_member_with_a_newer_log():
    """Ra 439: the candidate refused pre-votes, and was refused its votes."""
    newest = alone("b", 3, (1, 9, 2))
    newest.received("a", AskVote(5, 4, False, 5, 2, 0), 10)
    newest.take_outputs()
    newest.synced(newest.state.writes, 11)
    (answer,) = [one.message for one in newest.take_outputs() if hasattr(one, "message")]
    assert (answer.answer, newest.state.term) == (LOG_BEHIND, 4)
    candidate = alone("a", 4, (1, 5, 2))
    candidate.received("b", AskVote(5, 5, True, 9, 2, 0), 12)
    (answer,) = [one.message for one in candidate.take_outputs() if hasattr(one, "message")]
    assert answer.answer is GRANTED


def test_a_member_that_returns_with_an_old_term_completes_the_majority():
    """canonical/raft 279: its pre-votes were of a term that the others took for old."""
    group = RaftByHand("abcd", leader="a")
    group.stop("b")
    group.stop("a")
    group.settle()
    assert group.leaders() == []
    for _ in range(3):  # The others are in a higher term.
        node = group.nodes["c"]
        node.machine.received("d", AskVote(5, node.machine.state.term + 1, False, 0, 0, 0), 0)
        group.carry_out(node)
        group.settle(100)
    assert group.status("c").term > group.nodes["b"].disk.term
    group.start("b")
    group.settle()
    assert group.leader in "bcd"


def test_a_granted_pre_vote_is_no_vote():
    """canonical/raft 196: an answer that came late was counted in the election that followed."""
    member = alone("a", 1, (1, 3, 1), voters="abc")
    member.wake(1_000)
    member.take_outputs()
    member.received("b", Vote(5, 2, True, VoteAnswer.GRANTED), 1_001)
    member.take_outputs()
    member.synced(member.state.writes, 1_002)
    member.take_outputs()
    assert member.state.term == 2
    member.received("c", Vote(5, 2, True, VoteAnswer.GRANTED), 1_003)
    member.take_outputs()
    assert member.leading is None
    member.received("c", Vote(5, 2, False, VoteAnswer.GRANTED), 1_004)
    member.take_outputs()
    assert member.leading is not None


# Handing over


def test_a_member_without_a_vote_does_not_take_the_lead_when_it_is_asked_to():
    """Ra 525, hashicorp/raft 398: the leader knew it as a voter, and it led without a vote."""
    group = RaftByHand("abc", members="ab", leader="a")
    change(group, "c", MemberKind.NON_VOTER)
    group.settle()
    term = group.status("a").term
    assert group.said("c", "a", TakeLead(5, term)) == []
    assert (group.leader, group.status("a").term) == ("a", term)


def test_messages_of_the_old_leader_do_not_end_the_election_of_its_successor():
    """canonical/raft 203: a heartbeat made a follower of the member that was to take the lead."""
    group = RaftByHand("abc", leader="a")
    group.do(("stall", "c"))
    node = group.nodes["a"]
    assert node.machine.transfer_to("c", node.clock) is None
    group.carry_out(node)
    group.deliver()
    state = group.machine("a").state
    late = Entries(
        5, state.term, state.log.last_index, state.log.last_term, state.commit, 0, DATA, []
    )
    group.nodes["c"].machine.received("a", late, group.nodes["c"].clock)
    group.carry_out(group.nodes["c"])
    group.do(("unstall", "c"))
    group.settle(200)
    assert group.leader == "c"


# Replication


def test_a_member_that_has_all_is_sent_entries_after_a_short_cut():
    group = RaftByHand("abc", leader="a")
    group.propose()
    group.settle()
    group.do(("break", "a", "b", 0))
    group.join("b")
    group.settle()
    assert progress(group, "b").state == REPLICATING
    group.propose()
    group.settle(10)
    assert progress(group, "b").match == group.status("a").last_index


def test_an_acknowledgement_that_was_lost_with_its_link_is_given_again():
    group = RaftByHand("abc", leader="a")
    group.do(("cut way", "b", "a"))
    group.propose()
    group.settle(10)
    assert len(group.data("b")) == 1
    assert progress(group, "b").match < group.status("a").last_index
    group.do(("break", "a", "b", 0))
    group.join("b")
    group.settle()
    assert progress(group, "b").match == group.status("a").last_index
    assert is_whole(group, "abc")


def test_the_logs_of_figure_7_become_those_of_the_leader():
    """Of the paper: followers that lack entries, have others, or both. The numbers are terms."""
    logs = {
        "b": "111445566", "c": "1114", "d": "11144556666", "e": "111445566677", "f": "1114444",
        "g": "11122233333",
    }  # fmt: skip
    group = RaftByHand("abcdefg")
    for name in "abcdefg":
        group.stop(name)
    leader = "1114455666"
    for name, terms in {"a": leader, **logs}.items():
        disk = group.nodes[name].disk
        entries = {
            index: (int(term), DATA, b"%d of term %s" % (index, term.encode()))
            for index, term in enumerate(terms, 1)
        }
        disk._entries, disk._state = entries, (8, "")
    group.history.__init__(group)
    for name in "abcdefg":
        group.do(("start", name))
    for other in "bcfg":  # Their votes are a majority with its own. The others have newer logs.
        group.do(("connect", "a", other))
    group.settle()
    assert group.leader == "a"
    group.join(*"abcdefg")
    group.settle()
    assert is_whole(group, "abcdefg")
    assert group.data("b")[:10] == [b"%d of term %s" % (at, of.encode()) for at, of in
                                    enumerate(leader, 1)]  # fmt: skip


# Snapshots


def test_a_slow_follower_gets_a_snapshot_for_what_is_discarded_while_it_is_slow():
    group = RaftByHand("abc", leader="a")
    group.do(("stall", "c"))
    for _ in range(60):
        group.propose(100_000)
        group.settle(1)
    assert progress(group, "c").state == REPLICATING
    group.do(("take snapshot", "a", 0))
    group.do(("unstall", "c"))
    group.settle()
    assert progress(group, "c").state == REPLICATING
    assert group.nodes["c"].value == group.nodes["a"].value


def test_an_acknowledgement_ends_the_snapshot_that_is_on_its_way():
    """Etcd 10308: the member was probed until the next entry was committed."""
    group = RaftByHand("abc", leader="a")
    group.isolate("c")
    for _ in range(3):
        group.propose()
    group.settle(100)
    group.do(("take snapshot", "a", 0))
    group.join("c")
    group.deliver()
    assert progress(group, "c").state == "snapshot"
    # It is installed, and only the acknowledgement of the member says so.
    node, other = group.nodes["a"], group.nodes["c"]
    snapshot = node.disk.snapshot
    assert other.machine.install(snapshot.index, snapshot.term, snapshot.configuration)
    other.disk.snapshot, other.applied, other.value = snapshot, snapshot.index, snapshot.value
    group.carry_out(other)
    node.snapshots.clear()
    group.settle(200)
    assert (progress(group, "c").state, progress(group, "c").match) == (
        REPLICATING, group.status("a").last_index,
    )  # fmt: skip

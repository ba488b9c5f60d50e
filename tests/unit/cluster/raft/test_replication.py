"""Replication and commitment, each situation by hand."""

import pytest

from leveret.cluster.raft import leading as leading_module
from leveret.cluster.raft.entry_log import WINDOW_BYTES
from leveret.cluster.raft.messages import (
    Acknowledgement,
    Entries,
    EntriesLost,
    MessageError,
    Mismatch,
)
from leveret.cluster.raft.outputs import DATA, ReadEntries, Send
from leveret.cluster.raft.progress import PROBING, REPLICATING, Progress
from tests.unit.cluster.raft.raft_by_hand import RaftByHand, elected


def progress(group, member):
    return next(one for one in group.status(group.leader).progress if one.member == member)


def test_an_entry_is_committed_when_a_majority_has_it_on_disk():
    group = RaftByHand("abc", leader="a")
    for name in "abc":
        group.do(("stall", name))
    commit = group.status("a").commit
    group.propose()
    group.deliver()
    assert group.status("a").commit == commit
    group.do(("unstall", "b"))
    group.settle(1)
    assert group.status("a").commit == commit
    group.do(("unstall", "c"))
    group.settle(1)
    assert group.status("a").commit == commit + 1


def test_followers_learn_the_commit_index_when_the_group_goes_quiet():
    group = RaftByHand("abc", leader="a")
    group.propose()
    group.settle(50)
    assert group.status("b").commit < group.status("a").commit
    group.settle(100)
    assert group.status("b").commit == group.status("c").commit == group.status("a").commit


def test_a_new_leader_commits_earlier_entries_without_a_proposal():
    group = RaftByHand("abc", leader="a")
    group.do(("stall", "a"))
    group.isolate("c")
    group.deliver()
    group.propose(by="a")
    group.deliver()
    group.do(("sync", "b", 1))
    group.stop("a")
    group.join("c")
    group.settle()
    assert group.leader == "b"
    assert group.status("b").commit == group.status("b").last_index
    assert group.data("c") == [b"1 .."]


def test_an_entry_of_an_earlier_term_is_not_committed_by_counting():
    """Figure 8 of the paper: a majority has it, and a later leader may still truncate it."""
    leader = elected("abcde", (1, 1, 1, DATA), (2, 1, 2, DATA), term=3)
    for name in "bc":
        leader.received(name, Acknowledgement(5, 4, 2), 2_000)
    leader.take_outputs()
    assert leader.state.commit == 0
    for name in "bc":
        leader.received(name, Acknowledgement(5, 4, 3), 2_001)
    leader.take_outputs()
    assert leader.state.commit == 3


def test_what_only_an_old_leader_had_is_truncated_and_its_configuration_with_it():
    group = RaftByHand("abcd", members="abc", leader="a")
    group.isolate("a")
    group.propose(by="a")
    group.machine("a").change_member("c", None)
    group.carry_out(group.nodes["a"])
    assert group.status("a").configuration.voters == ("a", "b")
    group.settle()
    group.join("a")
    group.settle()
    assert group.leader in "bc"
    assert group.data("a") == []
    assert group.status("a").configuration.voters == ("a", "b", "c")


def test_the_place_where_long_logs_differ_is_found_in_two_rounds():
    group = RaftByHand("abc", leader="a")
    for _ in range(3):
        group.propose()
    group.settle()
    group.isolate("a")
    for _ in range(200):
        group.propose(by="a")
    group.settle()
    for _ in range(200):
        group.propose()
    group.settle()
    before = len(group.trace)
    group.join("a")
    rejected = 0
    while group.due():
        group.do(group.due()[0])
        rejected += sum(
            isinstance(item, bytes) and item[2:3] == b"\x03" for item in group.ways["a", "b"]
        )
    assert group.data("a") == group.data("b")
    assert rejected <= 2
    assert len(group.trace) - before < 60


def test_a_follower_far_behind_is_sent_entries_from_the_disk_batch_by_batch():
    group = RaftByHand("abc", leader="a")
    group.isolate("c")
    for _ in range(20):
        group.propose(100_000, 100_000)
    group.settle()
    before = len(group.trace)
    group.join("c")
    group.settle()
    assert group.data("c") == group.data("a")
    assert len([one for one in group.trace[before:] if one[0] == "read"]) > 10


def test_a_link_that_falls_in_the_middle_loses_nothing():
    group = RaftByHand("abc", leader="a")
    for kept in range(4):
        for _ in range(4):
            group.propose()
        group.do(("break", "a", "c", kept))
        group.settle(20)
        group.join("c")
        group.settle()
        assert group.data("c") == group.data("a")


def test_a_full_window_waits_for_an_acknowledgement():
    one = Progress("b", 1)
    one.acknowledged(0)
    assert one.state == REPLICATING
    one.sent(1, WINDOW_BYTES - 1)
    assert one.may_send()
    one.sent(2, 5)
    assert not one.may_send()
    with pytest.raises(AssertionError, match="RF11"):
        one.sent(3, 1)
    one.acknowledged(1)
    assert (one.may_send(), one.in_flight) == (True, 5)


@pytest.mark.parametrize(("window_bytes", "are_read"), [(WINDOW_BYTES, True), (10**7, False)])
def test_a_group_reads_nothing_that_fits_in_its_window(window_bytes, are_read):
    """What is read is sent at the pace of members that are behind."""
    member = elected("abc", term=1, window_bytes=window_bytes)
    first = member.state.log.last_index
    for match in (first, first + 40):
        for other in "bc":
            member.received(other, Acknowledgement(5, 2, match), 1_003)
        outputs = member.take_outputs()
        for _ in range(90):
            member.propose([b"x" * 100_000])
            member.take_outputs()
    assert any(isinstance(one, ReadEntries) for one in outputs) == are_read


def test_a_message_without_entries_needs_no_window():
    """The last one of a quiet group says what is committed, also to a member that is slow."""
    one = Progress("b", 1)
    one.acknowledged(0)
    one.sent(1, WINDOW_BYTES)
    assert not one.may_send()
    one.sent(1, 0)
    assert (one.in_flight, one.next) == (WINDOW_BYTES, 2)


def test_a_member_that_is_asked_gets_one_message_at_a_time():
    one = Progress("b", 4)
    assert one.may_send()
    one.sent(3, 0)
    assert (one.may_send(), one.asked, one.state) == (False, 3, PROBING)


def test_a_member_whose_disk_stalls_has_no_more_than_a_window_on_its_way():
    group = RaftByHand("abc", leader="a")
    group.do(("stall", "c"))
    for _ in range(80):
        group.propose(100_000)
        group.settle(1)
    assert group.status("a").commit == group.status("a").last_index
    in_flight = progress(group, "c").in_flight_bytes
    assert WINDOW_BYTES <= in_flight < WINDOW_BYTES + leading_module.BATCH_BYTES
    group.do(("unstall", "c"))
    group.settle()
    assert group.data("c") == group.data("a")


def test_entries_that_come_twice_are_appended_once():
    group = RaftByHand("abc", leader="a")
    group.propose()
    group.settle()
    status = group.status("b")
    last = status.last_index
    again = Entries(5, status.term, last - 1, status.term, 0, status.term, 0, [b"1 .."])
    assert group.said("b", "a", again) == [Acknowledgement(5, status.term, last)]
    assert group.status("b").last_index == last


def test_a_follower_commits_only_through_what_it_was_just_shown():
    group = RaftByHand("abc", leader="a")
    status = group.status("b")
    group.said("b", "a", Entries(5, status.term, status.last_index, status.term, 99, 0, 0, []))
    assert group.status("b").commit == status.last_index


def test_proposals_of_one_round_are_one_message():
    group = RaftByHand("abc", leader="a")
    machine = group.machine("a")
    for number in range(5):
        machine.propose([b"%d" % number])
    group.carry_out(group.nodes["a"])
    assert [len(group.ways["a", name]) for name in "bc"] == [1, 1]


def sent_to(member, name):
    outputs = member.take_outputs()
    return [one.message for one in outputs if isinstance(one, Send) and one.to == name]


def test_entries_that_were_read_for_another_place_are_not_sent():
    """The member has said meanwhile that it lacks earlier ones: these would be at wrong indexes."""
    leader = elected("abc", (1, 9, 1, DATA), term=1)
    leader.received("b", Mismatch(5, 2, 9, 3, 1), 2_000)
    (question,) = sent_to(leader, "b")
    assert (question.previous_index, question.payloads) == (3, [])
    leader.received("b", Acknowledgement(5, 2, 3), 2_001)
    (read,) = [one for one in leader.take_outputs() if isinstance(one, ReadEntries)]
    assert (read.member, read.first) == ("b", 4)
    # It has more than that: an earlier leader of another term had sent it the same entries.
    leader.received("b", Acknowledgement(5, 2, 6), 2_002)
    leader.entries_read("b", 4, [b"4", b"5"])
    outputs = leader.take_outputs()
    assert not [one for one in outputs if isinstance(one, Send)]
    (read,) = [one for one in outputs if isinstance(one, ReadEntries)]
    leader.entries_read("b", read.first, [b"7", b"8"])
    (entries,) = sent_to(leader, "b")
    assert (entries.previous_index, entries.payloads) == (6, [b"7", b"8"])


def test_entries_that_were_read_before_a_link_fell_are_not_sent():
    leader = elected("abc", (1, 9, 1, DATA), term=1)
    leader.received("b", Mismatch(5, 2, 9, 3, 1), 2_000)
    leader.take_outputs()
    leader.received("b", Acknowledgement(5, 2, 3), 2_000)
    (read,) = [one for one in leader.take_outputs() if isinstance(one, ReadEntries)]
    leader.link_down("b", 2_001)
    leader.link_up("b", 2_002)
    leader.take_outputs()
    leader.entries_read("b", read.first, [b"1", b"2"])
    assert sent_to(leader, "b") == []


def test_entries_that_a_member_has_by_now_need_not_be_read():
    """They may be discarded before they are read, and then nobody answers the read."""
    leader = elected("abc", (1, 9, 1, DATA), term=1)
    leader.received("b", Mismatch(5, 2, 9, 3, 1), 2_000)
    leader.take_outputs()
    leader.received("b", Acknowledgement(5, 2, 3), 2_000)
    assert [one.first for one in leader.take_outputs() if isinstance(one, ReadEntries)] == [4]
    leader.received("b", Acknowledgement(5, 2, 7), 2_001)
    assert [one.first for one in leader.take_outputs() if isinstance(one, ReadEntries)] == [8]


def test_a_second_leader_of_a_term_is_refused():
    leader = elected("abc", (1, 9, 1, DATA), term=1)
    term, last = leader.state.term, leader.state.log.last_index
    with pytest.raises(MessageError, match="in which a leads"):
        leader.received("b", Entries(5, term, last, term, 0, term, DATA, [b"other"]), 2_000)
    assert leader.leading is not None
    assert leader.state.log.last_index == last


def test_an_acknowledgement_of_entries_that_there_are_not_is_refused():
    leader = elected("abc", (1, 9, 1, DATA), term=1)
    last, commit = leader.state.log.last_index, leader.state.commit
    for follower in "bc":
        with pytest.raises(EntriesLost, match=f"{follower} has entry {last + 1}"):
            leader.received(follower, Acknowledgement(5, 2, last + 1), 2_000)
    leader.take_outputs()
    assert leader.state.commit == commit

"""What has to be on disk before it is said or counted, and what a crash leaves."""

from leveret.cluster.raft.configuration import Configuration
from leveret.cluster.raft.entry_log import Stored
from leveret.cluster.raft.messages import Acknowledgement, AskVote, Entries, Vote
from leveret.cluster.raft.outputs import MemberLost, Send
from leveret.cluster.raft.raft_member import RaftMember
from tests.unit.cluster.raft.raft_by_hand import GRANTED, RaftByHand


def follower():
    member = RaftMember(5, "b", Stored(Configuration(("a", "b", "c"))), lambda: 0.5)
    for other in "ac":
        member.link_up(other, 1)
    member.take_outputs()
    return member


def sent(member):
    return [one.message for one in member.take_outputs() if isinstance(one, Send)]


def test_a_vote_is_told_when_it_is_on_disk():
    member = follower()
    member.received("c", AskVote(5, 3, False, 0, 0, 0), 2)
    assert sent(member) == []
    member.synced(member.state.writes, 3)
    assert [one.answer for one in sent(member) if isinstance(one, Vote)] == [GRANTED]


def test_a_candidate_asks_when_its_term_is_on_disk():
    member = follower()
    member.wake(1_000)
    sent(member)
    member.received("a", Vote(5, 1, True, GRANTED), 1_001)
    assert sent(member) == []
    member.synced(member.state.writes, 1_002)
    assert [type(one) for one in sent(member)] == [AskVote, AskVote]


def test_an_acknowledgement_waits_for_the_sync_and_says_how_far_it_went():
    member = follower()
    member.received("a", Entries(5, 1, 0, 0, 0, 1, 0, [b"1"]), 2)
    first = member.state.writes
    member.received("a", Entries(5, 1, 1, 1, 0, 1, 0, [b"2"]), 2)
    assert sent(member) == []
    member.synced(first, 3)
    assert sent(member) == [Acknowledgement(5, 1, 1)]
    member.synced(member.state.writes, 4)
    assert sent(member) == [Acknowledgement(5, 1, 2)]


def test_a_sync_of_an_entry_that_was_truncated_and_came_again_proves_nothing():
    member = follower()
    member.received("a", Entries(5, 1, 0, 0, 0, 1, 0, [b"1", b"2"]), 2)
    first = member.state.writes
    member.received("c", Entries(5, 2, 1, 1, 0, 2, 1, [b""]), 3)
    member.received("a", Entries(5, 3, 1, 1, 0, 1, 0, [b"2"]), 4)
    last = member.state.writes
    assert sent(member) == []
    member.synced(first, 5)
    assert sent(member) == []
    assert member.state.synced_index == 1
    member.synced(last, 6)
    assert sent(member)[-1] == Acknowledgement(5, 3, 2)


def test_an_entry_that_is_on_disk_and_not_the_leaders_is_not_acknowledged():
    member = follower()
    member.received("a", Entries(5, 1, 0, 0, 0, 1, 0, [b"1", b"2"]), 2)
    member.synced(member.state.writes, 3)
    sent(member)
    member.received("c", Entries(5, 2, 1, 1, 0, 0, 0, []), 4)
    member.synced(member.state.writes, 5)
    assert sent(member) == [Acknowledgement(5, 2, 1)]


def test_a_leader_with_a_stalled_disk_goes_on():
    group = RaftByHand("abc", leader="a")
    group.do(("stall", "a"))
    group.propose()
    group.settle()
    status = group.status("a")
    assert status.commit == status.last_index > status.last_synced


def test_a_stalled_disk_of_a_follower_delays_no_one():
    group = RaftByHand("abc", leader="a")
    group.do(("stall", "c"))
    for _ in range(5):
        group.propose()
    group.settle()
    assert group.status("a").commit == group.status("a").last_index
    group.do(("unstall", "c"))
    group.settle()
    assert group.data("c") == group.data("a")


def test_entries_that_only_a_leader_had_are_gone_when_it_dies_before_its_sync():
    group = RaftByHand("abc", leader="a")
    for name in "abc":
        group.do(("stall", name))
    group.propose()
    group.deliver()
    for name in "abc":
        group.stop(name)
    for name in "abc":
        group.start(name)
    group.settle()
    assert group.leader
    assert group.data("a") == []


def test_a_member_that_has_lost_what_was_on_its_disk_is_noticed():
    group = RaftByHand("abc", leader="a")
    group.propose()
    group.settle()
    group.stop("c")
    disk = group.nodes["c"].disk
    disk.on_disk().clear()
    group.start("c")
    group.isolate("c")  # Only this test is to see its messages.
    machine, clock = group.machine("a"), group.nodes["a"].clock
    machine.link_up("c", clock)
    question = next(one.message for one in machine.take_outputs() if isinstance(one, Send))
    other = group.machine("c")
    other.link_up("a", clock)
    other.received("a", question, clock)
    answer = next(one.message for one in other.take_outputs() if isinstance(one, Send))
    machine.received("c", answer, clock)
    lost = [one.member for one in machine.take_outputs() if isinstance(one, MemberLost)]
    assert lost == ["c"]

"""Snapshots: for members that need what was discarded, and after a restart."""

from leveret.cluster.raft.configuration import Configuration
from leveret.cluster.raft.entry_log import Stored, StoredRun
from leveret.cluster.raft.outputs import ResetLog
from leveret.cluster.raft.raft_member import RaftMember
from tests.unit.cluster.raft.raft_by_hand import RaftByHand

MEMBERS = Configuration(("a", "b", "c"))


def with_discarded(**others):
    """A group whose leader a has discarded what c, which is away, needs."""
    group = RaftByHand("abc", leader="a", **others)
    group.propose()
    group.settle()
    group.isolate("c")
    for _ in range(10):
        group.propose()
    group.settle()
    group.do(("take snapshot", "a", 0))
    return group


def state_of(group, member):
    return next(one.state for one in group.status("a").progress if one.member == member)


def test_a_member_that_needs_discarded_entries_gets_a_snapshot_and_then_entries():
    group = with_discarded()
    group.propose()
    group.settle()
    group.join("c")
    group.settle()
    assert group.status("c").commit == group.status("a").commit
    assert group.nodes["c"].value == group.nodes["a"].value
    assert state_of(group, "c") == "replicating"


def test_traffic_goes_on_while_a_snapshot_is_on_its_way():
    group = with_discarded()
    group.join("c")
    group.deliver()
    assert state_of(group, "c") == "snapshot"
    group.propose()
    while steps := [one for one in group.due() if one[0] != "snapshot arrives"]:
        group.do(steps[0])
    assert group.status("a").commit == group.status("a").last_index
    group.settle()
    assert group.nodes["c"].value == group.nodes["a"].value


def test_a_member_that_awaits_a_snapshot_follows_the_leader():
    group = with_discarded()
    group.join("c")
    group.deliver()
    assert group.status("c").leader == "a"


def test_a_snapshot_that_fails_is_sent_again_after_a_pause():
    group = with_discarded()
    group.join("c")
    group.deliver()
    group.do(("snapshot fails", "a", "c"))
    group.deliver()
    assert group.nodes["a"].snapshots == {}
    group.settle()
    assert group.nodes["c"].value == group.nodes["a"].value


def test_a_snapshot_ends_with_the_link_and_begins_again_with_it():
    group = with_discarded()
    group.join("c")
    group.deliver()
    group.isolate("c")
    group.deliver()
    assert group.nodes["a"].snapshots == {}
    group.join("c")
    group.settle()
    assert group.nodes["c"].value == group.nodes["a"].value


def test_more_is_discarded_while_a_snapshot_is_on_its_way():
    group = with_discarded()
    group.join("c")
    group.deliver()
    assert group.machine("a").leading.needed_from() == group.status("a").snapshot_index + 1
    for _ in range(5):
        group.propose()
    while steps := [one for one in group.due() if one[0] != "snapshot arrives"]:
        group.do(steps[0])
    group.do(("take snapshot", "a", 0))
    group.settle()
    assert group.nodes["c"].value == group.nodes["a"].value


def test_a_leader_with_a_snapshot_to_send_can_hand_over():
    group = with_discarded()
    group.join("c")
    group.deliver()
    group.do(("transfer", "a", "b"))
    group.settle()
    assert (group.leader, group.nodes["a"].snapshots) == ("b", {})
    assert group.nodes["c"].value == group.nodes["b"].value


def test_an_older_snapshot_is_not_installed():
    group = with_discarded()
    group.join("c")
    group.settle()
    before = group.status("c")
    assert group.machine("c").install(1, 1, MEMBERS) is False
    assert group.status("c") == before


def test_a_snapshot_of_entries_that_are_here_only_tells_that_they_are_committed():
    group = RaftByHand("abc", leader="a")
    group.propose()
    group.settle(50)
    status = group.status("b")
    assert status.commit < status.last_index
    assert group.machine("b").install(status.last_index, status.term, MEMBERS) is False
    group.carry_out(group.nodes["b"])
    assert group.status("b").commit == status.last_index


def test_the_members_are_those_of_the_snapshot():
    group = RaftByHand("abcd", members="abc", leader="a")
    group.do(("change", "a", "c", None))
    group.settle()
    group.do(("take snapshot", "a", 0))
    group.stop("a")
    group.start("a")
    group.settle()
    assert group.status("a").configuration.voters == ("a", "b")


def restarted(snapshot_index, snapshot_term, *runs):
    stored = Stored(
        MEMBERS, 9, "", snapshot_index, snapshot_term, tuple(StoredRun(*run, []) for run in runs)
    )
    member = RaftMember(5, "a", stored, lambda: 0.5)
    resets = [one for one in member.take_outputs() if isinstance(one, ResetLog)]
    return member.state.log, bool(resets)


def test_a_restart_keeps_entries_around_its_snapshot():
    log, is_reset = restarted(5, 1, (3, 6, 1, 0), (9, 2, 2, 0))
    assert (log.base_index, log.last_index, log.term_of(9), is_reset) == (3, 10, 2, False)


def test_a_restart_voids_entries_that_end_before_the_snapshot():
    log, is_reset = restarted(5, 1, (1, 3, 1, 0))
    assert (log.base_index, log.last_index, is_reset) == (5, 5, True)


def test_a_restart_voids_entries_that_differ_from_the_snapshot():
    log, is_reset = restarted(5, 2, (1, 9, 1, 0))
    assert (log.base_index, log.last_index, log.last_term, is_reset) == (5, 5, 2, True)


def test_a_restart_voids_entries_after_a_gap():
    log, is_reset = restarted(5, 1, (8, 2, 1, 0))
    assert (log.last_index, is_reset) == (5, True)

"""Views and the ordered log, one situation after the other. tests/sim has their combinations."""

import pytest

from leveret.cluster.metadata.messages import AppendEntry
from leveret.cluster.metadata.outputs import (
    DONE,
    FAILED,
    REFUSED,
    AnswerClient,
    Discarded,
    PartitionedFrom,
    Pause,
    Restart,
)
from leveret.cluster.metadata.replication import (
    NO_DISC_NODE,
    NOT_RUNNING,
    TOO_MANY,
    ReplicationLimits,
)
from leveret.cluster.partitions.rules import PauseMinority
from tests.hand_driven_cluster import REFUSED_PAYLOAD, Cluster


def answers(node):
    """The outcomes of what a node has submitted."""
    return [one.outcome for one in node.outputs(AnswerClient)]


def test_nodes_join_in_their_order():
    cluster = Cluster("abc")
    assert [node.view for node in cluster.nodes.values()] == ["abc"] * 3


def test_an_operation_is_applied_on_all_nodes_and_answered():
    cluster = Cluster("abc")
    submission = cluster["b"].submit(b"declare q")
    assert [node.applied for node in cluster.nodes.values()] == [[b"declare q"]] * 3
    assert cluster["b"].done == [*cluster["b"].done[:-1], AnswerClient(submission, DONE)]


def test_the_answer_waits_for_the_slowest_disk():
    cluster = Cluster("abc")
    cluster["c"].has_slow_disk = True
    cluster["b"].submit(b"declare q")
    assert answers(cluster["b"]) == []
    cluster["c"].write()
    assert answers(cluster["b"]) == [DONE]


def test_a_refused_operation_changes_nothing_and_is_answered_with_the_fault():
    cluster = Cluster("abc")
    submission = cluster["b"].submit(REFUSED_PAYLOAD)
    assert AnswerClient(submission, REFUSED, b"a fault") in cluster["b"].done
    assert [node.applied for node in cluster.nodes.values()] == [[]] * 3


def test_operations_of_two_nodes_have_one_order_everywhere():
    cluster = Cluster("abc")
    for number in range(5):
        cluster["b"].submit(b"b%d" % number)
        cluster["c"].submit(b"c%d" % number)
    assert cluster["a"].applied == cluster["b"].applied == cluster["c"].applied
    assert len(cluster["a"].applied) == 10


def test_an_entry_that_one_survivor_has_reaches_the_others():
    cluster = Cluster("abc")
    cluster["b"].has_slow_disk = cluster["c"].has_slow_disk = True
    _, outputs = cluster["a"].machine.submit(b"declare q")
    cluster["a"].do(outputs)
    cluster.lose(AppendEntry, "b")
    cluster.deliver()
    assert (cluster["b"].applied, cluster["c"].applied) == ([], [b"declare q"])
    cluster.crash("a")
    cluster["b"].write()
    cluster["c"].write()
    assert cluster["b"].view == cluster["c"].view == "bc"
    assert cluster["b"].applied == cluster["c"].applied == [b"declare q"]


def test_what_was_lost_with_the_coordinator_is_submitted_again():
    cluster = Cluster("abc")
    _, outputs = cluster["b"].machine.submit(b"declare q")
    cluster.cut("a", deaf=("a",))
    cluster["b"].do(outputs)
    cluster.deliver()
    assert answers(cluster["b"]) == [DONE]
    assert cluster["c"].applied == [b"declare q"]


def test_a_submission_in_the_log_is_not_submitted_again():
    cluster = Cluster("abc")
    cluster["c"].has_slow_disk = True
    cluster["b"].submit(b"declare q")
    cluster.crash("a")
    cluster["c"].write()
    assert cluster["c"].view == "bc"
    assert answers(cluster["b"]) == []
    cluster["c"].write()
    assert answers(cluster["b"]) == [DONE]
    assert cluster["b"].applied == cluster["c"].applied == [b"declare q"]


def test_of_two_members_without_a_link_the_younger_one_is_left_out():
    cluster = Cluster("abcd")
    cluster.cut("b", "c")
    assert cluster["a"].view == cluster["b"].view == cluster["d"].view == "abd"
    assert cluster["c"].machine.views.fence.is_up
    cluster.link("b", "c")
    assert cluster["c"].view == "abdc"
    assert not cluster["c"].machine.views.fence.is_up


def test_all_know_of_a_node_that_starts_and_that_one_of_them_has_a_link_with():
    cluster = Cluster("abc")
    cluster.start("d")
    cluster.link("d", ["b"])
    assert cluster["a"].view == "abc"
    assert all("d" in cluster[name].machine.reached for name in "abc")
    cluster.crash("d")
    assert not any("d" in cluster[name].machine.reached for name in "abc")


def test_a_member_that_cannot_reach_the_coordinator_takes_no_other_with_it():
    cluster = Cluster("abc")
    cluster.cut("a", "b")
    assert cluster["a"].view == cluster["c"].view == "ac"
    assert cluster["b"].machine.views.fence.is_up
    cluster["b"].tick(4)
    assert cluster["b"].view == "b"
    assert cluster["c"].view == "ac"


def test_a_node_that_is_left_out_waits_with_its_operations():
    cluster = Cluster("abc")
    cluster.cut("b", "c")
    cluster["c"].submit(b"declare q")
    assert answers(cluster["c"]) == []
    cluster.link("b", "c")
    assert answers(cluster["c"]) == [DONE]


def test_a_suspended_node_answers_no_one_until_all_members_confirm_its_view():
    cluster = Cluster("abc")
    cluster["b"].do(cluster["b"].machine.suspended())
    assert cluster["b"].machine.views.fence.is_up
    cluster.deliver()
    assert not cluster["b"].machine.views.fence.is_up


def test_a_suspended_node_finds_out_that_the_others_went_on():
    cluster = Cluster("abc")
    cluster.cut("a", deaf=("a",))
    cluster["b"].submit(b"declare q")
    cluster["a"].do(cluster["a"].machine.suspended())
    for other in "bc":
        cluster["a"].do(cluster["a"].machine.unlinked(other))
    assert cluster["a"].view == "abc"
    cluster.link("a")
    assert cluster["a"].view == cluster["b"].view == "bca"
    assert cluster["a"].applied == [b"declare q"]
    assert not cluster["a"].outputs(Restart)


def test_a_suspended_coordinator_with_entries_of_its_own_restarts():
    cluster = Cluster("abc")
    _, outputs = cluster["a"].machine.submit(b"declare q")
    cluster.cut("a", deaf=("a",))
    cluster["a"].do(outputs)
    cluster["a"].do(cluster["a"].machine.suspended())
    for other in "bc":
        cluster["a"].do(cluster["a"].machine.unlinked(other))
    cluster["b"].submit(b"declare r")
    cluster.link("a")
    assert cluster["a"].outputs(Restart) == [Restart(("b", "c"))]
    assert answers(cluster["a"]) == [FAILED]


def test_a_node_that_was_away_for_long_takes_a_snapshot_when_it_starts():
    cluster = Cluster("ab")
    for number in range(20):
        cluster["a"].submit(b"declare q%d" % number)
    cluster.start("c")
    cluster.link("c")
    assert cluster["c"].applied == cluster["a"].applied
    assert len(cluster["c"].applied) == 20


def test_a_side_without_changes_is_taken_in_again():
    cluster = Cluster("abc")
    cluster.cut("c")
    cluster["a"].submit(b"declare q")
    assert (cluster["a"].view, cluster["c"].view) == ("ab", "c")
    cluster.link("c")
    assert cluster["c"].view == "abc"
    assert cluster["c"].applied == [b"declare q"]


def test_two_sides_with_changes_are_partitioned_on_every_node():
    cluster = Cluster("abc")
    cluster.cut("c")
    cluster["b"].submit(b"declare q")
    cluster["c"].submit(b"declare r")
    cluster.link("c")
    assert cluster["a"].outputs(PartitionedFrom) == [PartitionedFrom(("c",))]
    assert cluster["b"].outputs(PartitionedFrom) == [PartitionedFrom(("c",))]
    assert cluster["c"].outputs(PartitionedFrom) == [PartitionedFrom(("a", "b"))]
    assert cluster["a"].applied == [b"declare q"]
    assert cluster["c"].applied == [b"declare r"]


def test_a_loser_reports_what_it_alone_had_and_takes_the_rest():
    cluster = Cluster("ab")
    cluster.cut("b")
    cluster["a"].submit(b"declare q")
    cluster["b"].submit(b"declare r")
    log = cluster["b"].machine.log
    loser = cluster.start("b", incarnation=2)
    loser.machine.log.follow(log.starts)
    loser.machine.log.last = log.last
    cluster.link("b")
    assert loser.applied == [b"declare q"]
    assert [(one.first, one.last) for one in loser.outputs(Discarded)] == [(1, 1)]


def test_a_minority_pauses_before_it_has_a_view_of_its_own():
    cluster = Cluster("abc", rule=PauseMinority(frozenset("abc")))
    cluster.cut("c")
    assert cluster["c"].outputs(Pause) == [Pause(("c",))]
    assert cluster["c"].view == "abc"
    assert cluster["a"].view == "ab"


def test_a_restarted_node_joins_though_its_death_was_not_seen():
    cluster = Cluster("abc")
    cluster.start("c", incarnation=2)
    cluster.link("c")
    assert cluster["a"].view == cluster["c"].view == "abc"
    assert cluster["a"].machine.views.view.members[2].incarnation == 2


def test_without_a_disc_node_nothing_is_changed():
    cluster = Cluster("a")
    cluster.start("b", is_disc=False)
    cluster.link("b")
    cluster.crash("a")
    submission = cluster["b"].submit(b"declare q")
    assert cluster["b"].done[-1] == AnswerClient(submission, FAILED, NO_DISC_NODE)


def test_a_node_that_has_not_started_refuses_everything():
    node = Cluster("a").start("b")
    submission = node.submit(b"declare q")
    assert node.done == [AnswerClient(submission, FAILED, NOT_RUNNING)]


def test_a_node_that_left_may_have_run_on_until_all_members_have_the_new_view():
    cluster = Cluster("abc")
    cluster["b"].has_slow_disk = True
    cluster.crash("c")
    cluster["b"].write()
    assert cluster["a"].view == cluster["b"].view == "ab"
    assert cluster["a"].companions == cluster["b"].companions == {"a", "b", "c"}
    cluster["b"].write()
    assert cluster["a"].companions == cluster["b"].companions == {"a", "b"}


def test_what_all_had_before_a_node_joined_is_not_everywhere_until_that_node_has_it():
    cluster = Cluster("ab")
    cluster["b"].submit(b"declare q")
    assert cluster["b"].machine.is_settled
    cluster.start("c").has_slow_disk = True
    cluster.link("c")
    cluster["c"].write()
    assert cluster["b"].view == "abc"
    assert not cluster["b"].machine.is_settled
    cluster["c"].write()
    assert cluster["b"].machine.is_settled


def test_a_view_holds_when_the_disk_of_its_proposer_names_the_members_as_companions():
    cluster = Cluster("a")
    cluster["a"].has_slow_disk = True
    cluster.start("b")
    cluster.link("b")
    assert cluster["a"].view == "a"
    assert cluster["b"].view == ""
    cluster["a"].write()
    assert cluster["a"].view == cluster["b"].view == "ab"


def test_a_view_holds_when_the_disk_of_each_member_has_that_it_agrees():
    cluster = Cluster("a")
    cluster.start("b").has_slow_disk = True
    cluster.link("b")
    assert cluster["a"].view == "a"
    cluster["b"].write()
    assert cluster["a"].view == cluster["b"].view == "ab"


def test_a_ram_node_lets_no_node_in_before_its_disk_names_them():
    cluster = Cluster("a", is_disc=False)
    cluster["a"].has_slow_disk = True
    cluster.start("b")
    cluster.link("b")
    assert cluster["a"].view == "a"
    cluster["a"].write()
    assert cluster["a"].view == cluster["b"].view == "ab"


def test_a_node_that_agreed_to_a_view_that_did_not_come_is_no_companion():
    cluster = Cluster("a")
    cluster["a"].has_slow_disk = True
    cluster.start("b")
    cluster.link("b")
    assert cluster["a"].companions == {"a", "b"}
    cluster.crash("b")
    assert cluster["a"].companions == {"a"}
    cluster["a"].write()
    assert cluster["a"].view == "a"


def test_no_more_is_ordered_while_a_member_is_a_window_behind():
    cluster = Cluster("ab", limits=ReplicationLimits(window=3))
    cluster["b"].has_slow_disk = True
    for number in range(5):
        cluster["a"].submit(b"declare q%d" % number)
    assert len(cluster["a"].applied) == 3
    cluster["b"].write()
    assert len(cluster["a"].applied) == 5


def test_submissions_wait_at_their_node_while_too_many_are_under_way():
    cluster = Cluster("ab", limits=ReplicationLimits(in_flight_max=2, pending_max=4))
    cluster["b"].has_slow_disk = True
    for number in range(5):
        cluster["b"].submit(b"declare q%d" % number)
    assert len(cluster["a"].applied) == 2
    assert cluster["b"].done[-1].detail == TOO_MANY


def test_a_change_checked_during_a_proposal_is_ordered_if_the_proposal_fails():
    cluster = Cluster("ab")
    cluster["a"].is_checking = True
    cluster["b"].submit(b"declare q")
    cluster.start("c").has_slow_disk = True
    cluster.link("c")
    assert cluster["a"].machine.views.is_proposing
    cluster["a"].check()
    assert cluster["a"].applied == []
    cluster.crash("c")
    cluster["a"].submit(b"declare r")
    assert cluster["a"].applied == cluster["b"].applied == [b"declare q", b"declare r"]
    assert answers(cluster["b"]) == [DONE]


def test_a_change_that_is_checked_in_an_old_view_is_checked_again_in_the_new_one():
    cluster = Cluster("ab")
    cluster["a"].is_checking = True
    cluster["b"].submit(b"declare q")
    cluster.start("c")
    cluster.link("c")
    assert cluster["a"].view == "abc"
    assert len(cluster["a"].checks) == 2
    cluster["a"].check()
    assert [node.applied for node in cluster.nodes.values()] == [[b"declare q"]] * 3
    assert answers(cluster["b"]) == [DONE]


def test_a_change_checked_by_a_former_coordinator_is_ordered_by_the_next_one():
    cluster = Cluster("ab")
    cluster["a"].is_checking = True
    cluster["b"].submit(b"declare q")
    cluster.cut("a", deaf=("a",))
    assert answers(cluster["b"]) == [DONE]
    cluster["a"].do(cluster["a"].machine.unlinked("b"))
    cluster.link("a")
    cluster["a"].check()
    assert cluster["a"].applied == cluster["b"].applied == [b"declare q"]


@pytest.mark.parametrize("deaf", ["b", "c"])
def test_a_proposal_whose_proposer_dies_holds_no_member(deaf):
    cluster = Cluster("abcd")
    outputs = cluster["a"].machine.unlinked("d")
    cluster["a"].do(outputs)
    cluster["d"].do(cluster["d"].machine.unlinked("a"))
    cluster.crash("a")
    assert cluster["b"].view == cluster["c"].view == "bcd"

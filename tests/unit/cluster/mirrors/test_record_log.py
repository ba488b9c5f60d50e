"""What a node logs when the record of a mirrored queue changes."""

from leveret.cluster.gm.group import Added, Died, HasJoined, Member
from leveret.cluster.mirrors import mirror_record as records
from leveret.cluster.mirrors.mirror_record import log_lines

A, B = Member("a", 1, 1), Member("b", 1, 1)
ALONE = records.first("q", 7, A)
JOINED = records.joined(ALONE, Added(B, A))
SYNCHRONISED = records.synchronised(records.ring_changed(JOINED, HasJoined(B)), B, A)


def test_the_leader_names_mirrors_that_come_and_go():
    assert [*log_lines(ALONE, JOINED, "a", 1)] == ["adding a mirror on node b"]
    assert [*log_lines(JOINED, SYNCHRONISED, "a", 1)] == ["the mirror on node b is synchronised"]
    gone = records.died(SYNCHRONISED, Died((B,), A), may_lead_unsynchronised=True)
    assert [*log_lines(SYNCHRONISED, gone, "a", 1)] == ["the mirror on node b is gone"]
    assert not [*log_lines(SYNCHRONISED, gone, "c", 1)]


def test_a_node_says_nothing_of_a_record_that_an_earlier_life_of_it_left_on_disk():
    assert not [*log_lines(None, SYNCHRONISED, "a", 2)]


def test_the_next_leader_says_so():
    after = records.died(SYNCHRONISED, Died((A,), B), may_lead_unsynchronised=True)
    assert [*log_lines(SYNCHRONISED, after, "b", 1)] == [
        "promoting the mirror on node b to leader", "the mirror on node a is gone"
    ]  # fmt: skip


def test_all_nodes_say_that_a_queue_is_down():
    after = records.died(JOINED, Died((A,), B), may_lead_unsynchronised=False)
    for node in ("b", "c"):
        assert [*log_lines(JOINED, after, node, 1)] == [
            "is down: no mirror can lead it, and it waits for node a"
        ]
    assert not [*log_lines(after, after, "c", 1)]

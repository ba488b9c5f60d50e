"""What operators see of the members of a quorum queue."""

from types import SimpleNamespace

from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.replicated_queues.member_states import raft, raft_figures
from leveret.cluster.replicated_queues.membership_record import new_record
from leveret.mgmt.ctl.quorum_queues import remarks
from leveret.mgmt.views.raft import add_part
from tests.unit.cluster.raft.raft_by_hand import RaftByHand

RECORD = new_record(("a", "b", "c"))
A, B, C = RECORD.names(are_voters=True)


def shown_by_leader(group):
    """The field `raft` and the metric of what members lack."""
    name = group.leader
    member = SimpleNamespace(
        me=name, raft=group.machine(name), applied=0, damage="", commit_s=0.0, group=1
    )
    use = SimpleNamespace(leader=RECORD.named(name).node, term=1)
    found = raft(RECORD, use, member, QuorumMachine(), {"a", "b"}, set(), is_stuck=False)
    return found, dict(raft_figures(member, RECORD, use).lacks)


def test_what_a_member_lacks_is_unknown_until_it_has_answered_the_leader():
    group = RaftByHand((A, B, C), leader=A)
    group.stop(C)
    group.do(("transfer", A, B))
    group.settle()
    found, lacks = shown_by_leader(group)
    lag = {one["node"]: one["lag"] for one in found["members"]}
    assert (lag["a"]["entries"], lag["b"], lag["c"]) == (0, None, None)
    assert lacks == {"a": 0}
    assert remarks(found) == ["c: its lag is unknown until it answers the leader"]


def without_a_leader(group, name, running, lost=(), damage=""):
    """The field `raft` of a node that knows no leader."""
    member = SimpleNamespace(me=name, raft=group.machine(name), applied=0, damage=damage)
    use = SimpleNamespace(leader="", term=1)
    return raft(RECORD, use, member, None, running, set(lost), is_stuck=False)


def test_a_damaged_member_is_the_reason_why_others_elect_no_leader():
    group = RaftByHand((A, B, C), leader=C)
    group.isolate(B)
    group.isolate(C)
    group.settle()
    found = without_a_leader(group, A, {"a", "b"}, lost=[B])
    assert found["reason"] == (
        "a majority of the voters is needed, and these are damaged: b; these cannot be reached: c"
    )


def test_the_node_of_a_damaged_member_shows_the_reason_of_another_node():
    group = RaftByHand((A, B, C), leader=C)
    group.isolate(B)
    group.isolate(C)
    group.settle()
    shown = without_a_leader(group, B, {"a", "b"}, damage="an entry is damaged")
    add_part(shown, without_a_leader(group, A, {"a", "b"}, lost=[B]), "a")
    assert "these are damaged: b" in shown["reason"]
    assert "b: an entry is damaged" in remarks(shown)

"""What operators see of the members of a quorum queue."""

from types import SimpleNamespace

from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.replicated_queues.member_states import raft, raft_figures
from leveret.cluster.replicated_queues.membership_record import new_record
from leveret.mgmt.ctl.quorum_queues import remarks
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
    found = raft(RECORD, use, member, QuorumMachine(), {"a", "b"}, is_stuck=False)
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

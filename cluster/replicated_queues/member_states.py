"""The members of a queue for operators: the field `raft` of the API.

Every node knows which nodes have members, and the state of its own member. The leader's node also
knows the progress of the others. Management combines the answers of all nodes (mgmt/views/raft.py).
As in RabbitMQ, a member is shown as `nodedown` if its node does not run, and as `noproc` if its
node has not answered or does not have the member.
"""

from collections.abc import Callable, Set
from typing import Any

from leveret.broker.queues.contract.status import RaftFigures
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.uses import GroupUse
from leveret.cluster.groups.wanted_members import node_of
from leveret.cluster.raft.configuration import Configuration, MemberKind
from leveret.cluster.raft.progress import PROBING, SNAPSHOT, Progress
from leveret.cluster.raft.status import MemberProgress, MemberStatus, status
from leveret.cluster.replicated_queues.membership_record import UNREADABLE, MembersRecord

MACHINE_VERSION = 1
NODE_DOWN, NO_PROCESS = "nodedown", "noproc"
RAFT_STATES = {"pre_candidate": "pre_vote"}
"""RabbitMQ's names of roles, where they differ."""
Lacked = Callable[[int], tuple[int, int]]
DAMAGED = "damaged"
NOT_LED = "the queue has no leader"
MOST_LOST = (
    "most of its members are lost: `leveretctl force_shrink_member_to_current_member` recovers it "
    "with the messages of one that is left"
)


def raft(
    record: MembersRecord,
    use: GroupUse,
    member: GroupMember | None,
    lacked: Lacked,
    running: Set[str],
    lost: Set[str],
    *,
    is_stuck: bool,
) -> dict[str, Any]:
    """The members of a queue, from the knowledge of this node. member: its own.

    lacked: the messages that are only in entries after one, and their bytes, if this node leads.

    lost: other members that are damaged, or that their nodes have not found. is_stuck: too many of
    them for a leader.
    """
    shown = {one.name: _unknown(one.node, running) for one in record.members}
    reason = "" if use.leader else NOT_LED if record.members else UNREADABLE
    if member is not None and member.me in shown:
        found = status(member.raft)
        if reason and not member.damage:
            reason = MOST_LOST if is_stuck else _why_none_leads(member, found, lost) or reason
        shown[member.me] |= _own(member, found)
        if member.raft.leading is not None:
            for one in found.progress:
                if one.member in shown:
                    shown[one.member] |= _of_leader(one, found, lacked)
    return {
        "leader": use.leader or None,
        "term": use.term,
        "reason": reason or None,
        "members": list(shown.values()),
    }


def raft_figures(member: GroupMember, record: MembersRecord, use: GroupUse) -> RaftFigures:
    """The figures of a member on this node, for metrics."""
    state, leading = member.raft.state, member.raft.leading
    lacks = {}
    if leading is not None:
        lacks = {
            one.node: state.log.last_index - progress.match
            for progress in leading.progress
            if (one := record.named(progress.member)) is not None and _is_known(progress)
        }
    return RaftFigures(
        state.term, state.log.snapshot_index, member.applied, state.commit, state.synced_index,
        member.commit_s, bool(use.leader), lacks,
    )  # fmt: skip


def _unknown(node: str, running: Set[str]) -> dict[str, Any]:
    return {
        "node": node, "state": NO_PROCESS if node in running else NODE_DOWN, "membership": None,
        "term": None, "log_index": None, "last_written": None, "last_applied": None,
        "commit_index": None, "snapshot_index": None, "machine_version": None, "lag": None,
        "reason": None,
    }  # fmt: skip


def _own(member: GroupMember, found: MemberStatus) -> dict[str, Any]:
    return {
        "state": DAMAGED if member.damage else RAFT_STATES.get(found.role, found.role),
        "membership": _membership(member.me, found.configuration),
        "term": found.term,
        "log_index": found.last_index,
        "last_written": found.last_synced,
        "last_applied": member.applied,
        "commit_index": found.commit,
        "snapshot_index": found.snapshot_index,
        "machine_version": MACHINE_VERSION,
        "reason": member.damage or _why(found) or None,
    }


def _of_leader(one: MemberProgress, found: MemberStatus, lacked: Lacked) -> dict[str, Any]:
    """The leader's knowledge of another member."""
    lag = _lag(one, found, lacked) if _is_known(one) else None
    return {"membership": _membership(one.member, found.configuration), "lag": lag}


def _lag(one: MemberProgress, found: MemberStatus, lacked: Lacked) -> dict[str, Any]:
    """The entries that a member has not acknowledged."""
    messages, octets = (0, 0)
    if one.match < found.commit:
        messages, octets = lacked(one.match)
    return {
        "entries": max(0, found.last_index - one.match),
        "messages": messages,
        "bytes": octets,
        "snapshot": one.state == SNAPSHOT,
    }


def _is_known(one: Progress | MemberProgress) -> bool:
    """Whether a member has told this leader which entries it has."""
    return one.state != PROBING or one.match > 0


def _membership(member: str, configuration: Configuration) -> str | None:
    kinds = {
        MemberKind.VOTER: configuration.voters,
        MemberKind.PROMOTABLE: configuration.promotable,
        MemberKind.NON_VOTER: configuration.non_voters,
    }
    return next((kind.value for kind, members in kinds.items() if member in members), None)


def _why_none_leads(member: GroupMember, found: MemberStatus, lost: Set[str]) -> str:
    """Why a queue has no leader, by the knowledge of a member; empty if it knows one."""
    voters, reachable = found.configuration.voters, member.raft.state.reachable
    damaged = [node_of(one) for one in voters if one in lost]
    away = [
        node_of(one)
        for one in voters
        if one != member.me and one not in lost and one not in reachable
    ]
    if not damaged or 2 * (len(voters) - len(damaged) - len(away)) > len(voters):
        return _why(found)
    reason = f"a majority of the voters is needed, and these are damaged: {', '.join(damaged)}"
    return reason + (f"; these cannot be reached: {', '.join(away)}" if away else "")


def _why(found: MemberStatus) -> str:
    """Why a member knows no leader, as a sentence; empty if it does."""
    if found.no_leader is None:
        return ""
    members = [
        node_of(member) + (f" ({answer.name.lower().replace('_', ' ')})" if answer else "")
        for member, answer in found.reasons
    ]
    return found.no_leader.value + (f": {', '.join(members)}" if members else "")

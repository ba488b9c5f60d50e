"""The status of a member for operators: indexes, the progress of the others, why none leads."""

from enum import Enum

import msgspec

from leveret.cluster.raft.configuration import Configuration
from leveret.cluster.raft.messages import VoteAnswer
from leveret.cluster.raft.raft_member import RaftMember


class NoLeader(Enum):
    """Why this member does not know a leader."""

    REMOVED = "this member was removed from the group"
    NO_VOTER = "this member has no vote and has not heard from a leader"
    CANNOT_APPLY = "this member cannot apply entries of the log, and does not stand for election"
    NO_MAJORITY = "a majority of the voters is needed, and these voters cannot be reached"
    DISK = "this member is waiting for its disk to write its term and vote"
    REFUSED = "these members refuse to vote for it"
    ELECTION = "an election is under way"


class MemberProgress(msgspec.Struct, frozen=True):
    """The leader's view of another member."""

    member: str
    state: str
    match: int
    next: int
    in_flight_bytes: int
    is_reachable: bool


class MemberStatus(msgspec.Struct, frozen=True):
    """The status of one member. role: leader, follower, pre_candidate, candidate or removed.

    no_leader: why there is no leader; reasons: the members that cause it, each with its answer.
    """

    role: str
    leader: str
    term: int
    vote: str
    commit: int
    last_index: int
    last_synced: int
    snapshot_index: int
    first_index: int
    configuration: Configuration
    is_change_under_way: bool
    transfer_to: str
    no_leader: NoLeader | None
    reasons: tuple[tuple[str, VoteAnswer | None], ...]
    progress: tuple[MemberProgress, ...]


def status(member: RaftMember) -> MemberStatus:
    """Return the status of a member, without the applied index, which its service knows."""
    state, log, leading = member.state, member.state.log, member.leading
    no_leader, reasons = _why_no_leader(member)
    progress = leading.progress if leading is not None else []
    return MemberStatus(
        _role(member), member.leader, state.term, state.vote, state.commit, log.last_index,
        state.synced_index, log.snapshot_index, log.base_index + 1, log.configuration,
        log.configuration_index > state.commit, leading.transfer_to if leading is not None else "",
        no_leader, reasons,
        tuple([
            MemberProgress(
                one.member, one.state, one.match, one.next, one.in_flight,
                one.member in state.reachable,
            )
            for one in progress
        ]),
    )  # fmt: skip


def _role(member: RaftMember) -> str:
    if member.is_removed:
        return "removed"
    if member.leading is not None:
        return "leader"
    if member.campaign is not None:
        return "pre_candidate" if member.campaign.is_pre_vote else "candidate"
    return "follower"


def _why_no_leader(
    member: RaftMember,
) -> tuple[NoLeader | None, tuple[tuple[str, VoteAnswer | None], ...]]:
    state, campaign = member.state, member.campaign
    if member.leader and (member.leading is not None or member.leader in state.reachable):
        return None, ()
    if member.is_removed:
        return NoLeader.REMOVED, ()
    if not state.may_lead:
        return NoLeader.NO_VOTER, ()
    if not member.may_stand:
        return NoLeader.CANNOT_APPLY, ()
    if not state.reaches_majority:
        voters = state.log.configuration.voters
        away = [one for one in voters if one != state.me and one not in state.reachable]
        return NoLeader.NO_MAJORITY, tuple([(one, None) for one in away])
    if not state.is_term_synced:
        return NoLeader.DISK, ()
    answers = campaign.answers.items() if campaign is not None else ()
    refusals = tuple([one for one in answers if one[1] is not VoteAnswer.GRANTED])
    return (NoLeader.REFUSED, refusals) if refusals else (NoLeader.ELECTION, ())

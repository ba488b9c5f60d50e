"""Elections: whether a member grants its vote, and how a candidate counts the votes it gets.

A member without a leader first asks whether it would get the votes (pre-vote), which changes no
state on any member. Only if a majority agrees does it enter a new term, write its vote for itself,
and ask for votes. So a member that was away or has a bad link cannot depose a healthy leader.

Invariants:

RF2  A member votes for at most one candidate per term, and only if the candidate's log is at least
     as new as its own.
"""

from leveret.cluster.raft.member_state import MemberState
from leveret.cluster.raft.messages import AskVote, Vote, VoteAnswer

FIRST_PAUSE_MS = 50
SPREAD_MS = 100
"""Voters stand for election one after the other, n x 50 to 150 ms apart: on a LAN, an election
takes less than that.
"""
RETRY_MS = 150
RETRY_MAX_MS = 2000


class Campaign:
    """A member's attempt to be elected. term: the term in which it would lead."""

    def __init__(self, state: MemberState, term: int, is_pre_vote: bool) -> None:
        self.term = term
        self.is_pre_vote = is_pre_vote
        self.answers: dict[str, VoteAnswer] = {}
        self._state = state
        for voter in state.log.configuration.voters:
            self.ask(voter)

    def ask(self, voter: str) -> None:
        """Ask a voter for its vote, unless it has answered."""
        state = self._state
        if voter == state.me or voter in self.answers:
            return
        log = state.log
        question = AskVote(
            state.group, self.term, self.is_pre_vote, log.last_index, log.last_term,
            log.configuration_index,
        )  # fmt: skip
        state.send(voter, question)

    def answered(self, voter: str, vote: Vote) -> None:
        """Record the answer of a voter. Only the first one counts."""
        is_current = vote.term == self.term or vote.answer is not VoteAnswer.GRANTED
        if is_current and vote.is_pre_vote == self.is_pre_vote:
            self.answers.setdefault(voter, vote.answer)

    @property
    def is_won(self) -> bool:
        """Whether a majority of the voters agrees. The own vote counts once it is on disk."""
        state = self._state
        configuration = state.log.configuration
        count = 0
        for voter in configuration.voters:
            if voter == state.me:
                count += self.is_pre_vote or state.is_term_synced
            elif self.answers.get(voter) is VoteAnswer.GRANTED:
                count += 1
        return count >= configuration.majority


def answer_to(state: MemberState, sender: str, question: AskVote, leader: str) -> VoteAnswer:
    """Return the answer to a request for a vote. leader: the leader that this member knows, or "".

    The answer does not depend on whether the sender is a voter in the configuration known here: it
    may have become one since.
    """
    index, configuration = state.log.configuration_at(state.commit)
    is_as_new = index >= max(question.configuration_index, 1)
    if is_as_new and sender not in configuration.members:
        return VoteAnswer.REMOVED
    if question.is_pre_vote:
        if question.term <= state.term:
            return VoteAnswer.OLD_TERM
        if leader and leader != sender:
            return VoteAnswer.HAS_LEADER
    elif question.term < state.term:
        return VoteAnswer.OLD_TERM
    elif state.vote not in ("", sender):
        return VoteAnswer.HAS_VOTED
    if not state.is_like(question.last_term, question.last_index):
        return VoteAnswer.LOG_BEHIND
    return VoteAnswer.GRANTED


def rank(state: MemberState, lost: str) -> int:
    """Return this member's position among the voters that may succeed a lost leader.

    The order starts at a different voter in each group, so that the groups of a failed node are
    spread over the remaining nodes.
    """
    voters = {one for one in state.log.configuration.voters if one != lost}
    order = sorted(voters | {state.me})
    return (order.index(state.me) - state.group) % len(order)

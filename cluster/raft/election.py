"""Votes: who is given one, and how many a member has.

A member without a leader asks first whether it would get the votes (pre-vote), which changes
nothing anywhere. Only if a majority says yes does it enter a new term, write its vote for itself,
and ask. So a member that was away, or has a bad link, does not take the lead from a good leader.

Invariants:

RF2  A member votes for one candidate a term, whose log is at least as new as its own.
"""

from leveret.cluster.raft.member_state import MemberState
from leveret.cluster.raft.messages import Answer, AskVote, Vote

FIRST_PAUSE_MS = 50
SPREAD_MS = 100
"""Voters stand one after the other, n x 50 to 150 ms apart: an election takes less on a LAN."""
RETRY_MS = 150
RETRY_MAX_MS = 2000


class Campaign:
    """An election that a member wants to win. term: the one in which it would lead."""

    def __init__(self, state: MemberState, term: int, is_pre_vote: bool) -> None:
        self.term = term
        self.is_pre_vote = is_pre_vote
        self.answers: dict[str, Answer] = {}
        self._state = state
        for voter in state.log.configuration.voters:
            self.ask(voter)

    def ask(self, voter: str) -> None:
        """Ask a voter."""
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
        """A voter has answered."""
        is_current = vote.term == self.term or vote.answer is not Answer.GRANTED
        if is_current and vote.is_pre_vote == self.is_pre_vote:
            self.answers.setdefault(voter, vote.answer)

    @property
    def is_won(self) -> bool:
        """Whether a majority of the voters is for it. The own vote counts when it is on disk."""
        state = self._state
        configuration = state.log.configuration
        count = 0
        for voter in configuration.voters:
            if voter == state.me:
                count += self.is_pre_vote or state.is_term_synced
            elif self.answers.get(voter) is Answer.GRANTED:
                count += 1
        return count >= configuration.majority


def answer_to(state: MemberState, sender: str, question: AskVote, leader: str) -> Answer:
    """The answer to a member that asks. leader: who leads, in the view of this member.

    A vote does not depend on whether the sender is a voter here: it may have become one.
    """
    index, configuration = state.log.configuration_at(state.commit)
    if index > question.configuration_index and sender not in configuration.members:
        return Answer.REMOVED
    if question.is_pre_vote:
        if question.term <= state.term:
            return Answer.OLD_TERM
        if leader and leader != sender:
            return Answer.HAS_LEADER
    elif question.term < state.term:
        return Answer.OLD_TERM
    elif state.vote not in ("", sender):
        return Answer.HAS_VOTED
    if not state.is_like(question.last_term, question.last_index):
        return Answer.LOG_BEHIND
    return Answer.GRANTED


def rank(state: MemberState, lost: str) -> int:
    """The place of this member among the voters that may follow a lost leader.

    It begins at another one in each group, so that the groups of a dead node are shared out.
    """
    voters = {one for one in state.log.configuration.voters if one != lost}
    order = sorted(voters | {state.me})
    return (order.index(state.me) - state.group) % len(order)

"""The state machine of one member of a group: its service calls inputs and carries out outputs.

**Promises.** QG1 to QG9 of docs/design/quorum-queues.md. **Not promised.** A leader while no
majority of the voters can reach each other.

**Mechanism.** This is Raft with entries in runs (entry_log.py), and with the liveness of links in
place of heartbeats: a follower trusts its leader until the link to it falls or is silent, or the
leader reports that it has stopped leading. Then the voters stand for election one after the other
(election.py). When the link to a member comes up, the leader asks the member for its position
(leading.py). A member without a leader that reaches a majority always has a time at which it stands
for election; the only voter of a group stands at once. Other members have no election timer. The
service calls inputs, then `take_outputs` at the end of each round.

Messages on one link arrive in order and without gaps until the link falls, which both ends report
with `link_down` and `link_up`. Messages of a link that has fallen must not arrive later.

Invariants (the other modules of this folder have more):

RF6  A follower acknowledges only entries that are on its disk and equal to the leader's log.
RF9  A term has one leader.
RF12  A member that leads or has a leader in reach has no timer once all members have all entries.
"""

from collections.abc import Callable

from leveret.cluster.raft.configuration import (
    ChangeRefusal,
    Configuration,
    MemberKind,
    encode_configuration,
)
from leveret.cluster.raft.election import (
    FIRST_PAUSE_MS,
    RETRY_MAX_MS,
    RETRY_MS,
    SPREAD_MS,
    Campaign,
    answer_to,
    rank,
)
from leveret.cluster.raft.entry_log import WINDOW_BYTES, Stored
from leveret.cluster.raft.leading import Leading
from leveret.cluster.raft.member_state import MemberState
from leveret.cluster.raft.messages import (
    Acknowledgement,
    AskVote,
    Entries,
    EntriesLost,
    MessageError,
    Mismatch,
    NotLeading,
    RaftMessage,
    Removed,
    TakeLead,
    Vote,
    VoteAnswer,
)
from leveret.cluster.raft.outputs import CONFIGURATION, LeaderChanged, NoLongerMember, RaftOutput


class RaftMember:
    """One member of one group.

    group: the number of the group. me: this member's name; a member that has lost its log returns
    under a different name. random: returns numbers from 0 to 1. may_stand: set to False if the
    service cannot apply entries. The member then keeps entries and votes for others.
    """

    def __init__(
        self, group: int, me: str, stored: Stored, random: Callable[[], float],
        window_bytes: int = WINDOW_BYTES,
    ) -> None:  # fmt: skip
        """window_bytes: how much is sent to a member without an acknowledgement."""
        self.state = MemberState(group, me, stored, window_bytes)
        self.leading: Leading | None = None
        self.campaign: Campaign | None = None
        self.leader = ""
        self.is_removed = False
        self.may_stand = True
        self._random = random
        self._is_leader_heard = False
        self._matched = self._acknowledged = 0
        self._owes_answer = False
        self._stand_ms = 0
        self._attempts = 0
        self._lost = ""
        self._told = ("", 0)

    # Rounds

    def take_outputs(self) -> list[RaftOutput]:
        """End a round; return the actions to carry out, in order."""
        state = self.state
        campaign = self.campaign
        while campaign is not None and campaign.is_won:
            self._win(campaign)
            campaign = self.campaign
        leading = self.leading
        if leading is not None:
            leading.end_round()
            if leading.is_over:
                self._end_lead()
        self._answer_leader()
        self._plan_election()
        if self._told != (self.leader, state.term):
            self._told = (self.leader, state.term)
            state.outputs.append(LeaderChanged(self.leader, state.term))
        outputs, state.outputs = state.outputs, []
        return outputs

    def _answer_leader(self) -> None:
        state = self.state
        if not self._owes_answer or self.leading is not None or not self.leader:
            return
        match = min(self._matched, state.synced_index)  # RF6
        if match == self._matched or match > self._acknowledged:
            self._owes_answer = match < self._matched
            self._acknowledged = match
            state.send(self.leader, Acknowledgement(state.group, state.term, match))

    def _plan_election(self) -> None:
        """Set the time to stand for election, or clear it if there is no need or no chance."""
        state = self.state
        is_led = self.leading is not None or (bool(self.leader) and self._is_leader_heard)
        may_win = self.may_stand and state.may_lead and state.reaches_majority
        if is_led or self.is_removed or not may_win:
            self._stand_ms = 0
            if is_led:
                self._attempts = 0
        elif not self._attempts and state.log.configuration.voters == (state.me,):
            self._stand()
        elif not self._stand_ms:
            self._stand_ms = state.wake_in(self._pause())

    def _pause(self) -> int:
        if not self._attempts:
            place = rank(self.state, self._lost)
            return int(place * (FIRST_PAUSE_MS + SPREAD_MS * self._random()))
        most = min(RETRY_MAX_MS, RETRY_MS << min(self._attempts, 8))
        return int(most * (0.5 + self._random() / 2))

    def begin(self, is_first: bool, now_ms: int) -> None:
        """A new group begins: one member stands at once, and the others later if it has not won."""
        self._at(now_ms)
        self._stand_ms = self.state.wake_in(0 if is_first else RETRY_MS)

    # Inputs: entries, disk, time

    def propose(self, payloads: list[bytes]) -> int:
        """Propose entries; return the index of the first one, or 0 if they are refused.

        They are committed once `Committed` covers them while this member leads in the same term.
        """
        return self.leading.propose(payloads) if self.leading is not None else 0

    def append_empty(self) -> int:
        """Append an entry without data; return its index, or 0 if it is refused.

        Once it is committed, this member is known to have led when it was appended.
        """
        return self.leading.append_empty() if self.leading is not None else 0

    def synced(self, writes: int, now_ms: int) -> None:
        """The writes up to this number are on disk."""
        self._at(now_ms)
        self.state.synced(writes)

    def wake(self, now_ms: int) -> None:
        """A time requested with `Wake` has come."""
        self._at(now_ms)
        if 0 < self._stand_ms <= now_ms:
            self._stand_ms = 0
            self._attempts += 1
            if self.state.is_term_synced:
                self.campaign = Campaign(self.state, self.state.term + 1, is_pre_vote=True)
        if self.leading is not None:
            self.leading.wake()

    def is_to_stand(self, now_ms: int) -> bool:
        """Whether `wake` at this time would start an election, which the service may delay."""
        return 0 < self._stand_ms <= now_ms

    def entries_read(self, member: str, first: int, payloads: list[bytes]) -> None:
        """The service has read the entries that `Read` asked for."""
        if self.leading is not None:
            self.leading.entries_read(member, first, payloads)

    def _at(self, now_ms: int) -> None:
        self.state.now_ms = max(now_ms, self.state.now_ms)

    # Inputs: links

    def link_up(self, member: str, now_ms: int) -> None:
        """The link to a member is up."""
        self._at(now_ms)
        state = self.state
        state.linked.add(member)
        state.reachable.add(member)
        if self.leading is not None:
            self.leading.ask(member)
            self.leading.check_quorum()
        elif self.campaign is not None and member in state.log.configuration.voters:
            self.campaign.ask(member)

    def link_down(self, member: str, now_ms: int) -> None:
        """The link to a member is down."""
        self._at(now_ms)
        self.state.linked.discard(member)
        self.state.lose_messages(member)
        if self.leading is not None:
            self.leading.link_down(member)
        self._unreachable(member)

    def link_silent(self, member: str, now_ms: int) -> None:
        """A member sends nothing, although its link has not fallen."""
        self._at(now_ms)
        self._unreachable(member)

    def link_heard(self, member: str, now_ms: int) -> None:
        """A silent member sends again on the same link."""
        self._at(now_ms)
        if member not in self.state.linked:
            return
        self.state.reachable.add(member)
        if member == self.leader:
            self._is_leader_heard = True
        if self.leading is not None:
            self.leading.check_quorum()

    def _unreachable(self, member: str) -> None:
        self.state.reachable.discard(member)
        if member == self.leader:
            self._is_leader_heard = False
            self._lost = member
        if self.leading is not None:
            self.leading.check_quorum()

    # Inputs: messages

    def received(self, sender: str, message: RaftMessage, now_ms: int) -> None:
        """Handle a message from a linked member. A message of another group is dropped.

        Raises MessageError if its entries are impossible: drop the link. Raises EntriesLost if this
        member has lost entries: remove it.
        """
        self._at(now_ms)
        state = self.state
        if message.group != state.group:
            return
        is_question = isinstance(message, AskVote)
        if message.term > state.term and not is_question and not _is_pre_vote_granted(message):
            self._enter_term(message.term)
        if isinstance(message, Entries):
            self._take_entries(sender, message)
        elif isinstance(message, Acknowledgement):
            if self.leading is not None and message.term == state.term:
                if message.match > state.log.last_index:
                    raise EntriesLost(
                        f"{sender} has entry {message.match}, and the last one of its leader is "
                        f"{state.log.last_index}"
                    )
                self.leading.acknowledged(sender, message)
        elif isinstance(message, AskVote):
            self._answer(sender, message)
        elif isinstance(message, Vote):
            self._take_vote(sender, message)
        elif isinstance(message, Mismatch):
            if self.leading is not None and message.term == state.term:
                self.leading.refused(sender, message)
        elif isinstance(message, NotLeading):
            if sender == self.leader:
                self._lose_leader()
        elif isinstance(message, TakeLead):
            is_asked = message.term == state.term and sender == self.leader
            if is_asked and self.may_stand and state.may_lead:
                self._stand()
        elif isinstance(message, Removed):
            self._removed_at(message.configuration_index)

    def _enter_term(self, term: int) -> None:
        """Enter a higher term, in which this member does not know a leader yet."""
        self.state.save_term(term, "")
        self._leave_roles()

    def _leave_roles(self) -> None:
        leading, self.leading = self.leading, None
        self.campaign = None
        self._lose_leader()
        self._matched = self._acknowledged = 0
        self._owes_answer = False
        if leading is not None:
            leading.end()

    def _end_lead(self) -> None:
        """Stop leading without entering another term."""
        self._leave_roles()
        self._attempts = 1
        log = self.state.log
        is_committed = log.configuration_index <= self.state.commit
        if is_committed and self.state.me not in log.configuration.members:
            self._end_membership()

    def _lose_leader(self) -> None:
        if self.leader:
            self._lost, self.leader = self.leader, ""
        self._is_leader_heard = False

    def _removed_at(self, configuration_index: int) -> None:
        log = self.state.log
        is_news = configuration_index > log.configuration_index
        if is_news or self.state.me not in log.configuration.members:
            self._end_membership()

    def _end_membership(self) -> None:
        if not self.is_removed:
            self.is_removed = True
            self.state.outputs.append(NoLongerMember())

    # Following

    def _take_entries(self, sender: str, message: Entries) -> None:
        state = self.state
        log = state.log
        if message.term < state.term:
            state.send(sender, Mismatch(state.group, state.term, 0, 0, 0))
            return
        if self.leader not in ("", sender):  # RF9
            raise MessageError(
                f"{sender} sends entries of term {state.term}, in which {self.leader} leads"
            )
        self.leader, self._is_leader_heard, self.campaign = sender, sender in state.reachable, None
        self._matched = max(self._matched, state.commit)
        previous = message.previous_index
        if previous > state.commit and log.term_of(previous) != message.previous_term:
            hint = max(log.last_like(previous, message.previous_term), state.commit)
            hint_term = log.term_of(hint)
            state.send(sender, Mismatch(state.group, state.term, previous, hint, hint_term))
            return
        last = previous + len(message.payloads)
        if message.payloads and not message.previous_term <= message.entry_term <= message.term:
            raise MessageError(
                f"entries of term {message.entry_term} come from a leader of term "
                f"{message.term} after one of term {message.previous_term}"
            )
        if last > self._matched:
            self._add(message, last)
            self._matched = last
        self._owes_answer = True
        state.advance_commit(min(message.commit, last))

    def _add(self, message: Entries, last: int) -> None:
        """Remove the entries that differ from the leader's, then append the missing ones."""
        log = self.state.log
        first = max(self._matched, message.previous_index) + 1
        while first <= min(last, log.last_index) and log.term_of(first) == message.entry_term:
            first = log.end_of_run(first) + 1
        if first > last:
            return
        if log.term_of(first - 1) > message.entry_term:
            raise MessageError(
                f"an entry of term {message.entry_term} is sent to follow one of term "
                f"{log.term_of(first - 1)}"
            )
        if first <= log.last_index:
            self.state.truncate(first)
        payloads = message.payloads[first - message.previous_index - 1 :]
        self.state.append(message.entry_term, message.kind, payloads)

    # Elections

    def _answer(self, sender: str, question: AskVote) -> None:
        state = self.state
        if sender == self.leader:
            self._lose_leader()  # A member that asks for votes does not lead.
        is_led = self.leading is not None or self._is_leader_heard
        leader = (self.leader or state.me) if is_led else ""
        answer = answer_to(state, sender, question, leader)
        if (
            not question.is_pre_vote
            and question.term > state.term
            and answer is not VoteAnswer.REMOVED
        ):
            self._enter_term(question.term)
            self._attempts = max(self._attempts, 1)
            answer = answer_to(state, sender, question, "")
        if answer is VoteAnswer.GRANTED and not question.is_pre_vote and not state.vote:
            state.save_term(state.term, sender)
            self._stand_ms = 0
        term = question.term if answer is VoteAnswer.GRANTED else state.term
        state.send(sender, Vote(state.group, term, question.is_pre_vote, answer))
        if self.leading is not None:
            self.leading.ask(sender)
        elif answer is VoteAnswer.LOG_BEHIND and self._stand_ms:
            self._stand_ms = state.wake_in(0)

    def _take_vote(self, sender: str, vote: Vote) -> None:
        campaign = self.campaign
        if vote.answer is VoteAnswer.REMOVED:
            self._end_membership()
        elif campaign is not None:
            campaign.answered(sender, vote)

    def _stand(self) -> None:
        """Enter a new term as a candidate."""
        state = self.state
        self._leave_roles()
        state.save_term(state.term + 1, state.me)
        self._attempts = max(self._attempts, 1)
        self._stand_ms = 0
        self.campaign = Campaign(state, state.term, is_pre_vote=False)

    def _win(self, campaign: Campaign) -> None:
        if campaign.is_pre_vote:
            self._stand()
            return
        self.campaign = None
        self.leader = self.state.me
        self.leading = Leading(self.state)

    # Requests of operators

    def change_member(self, member: str, membership: MemberKind | None) -> ChangeRefusal | None:
        """Add a member, or remove it (None). This is done once the configuration is committed."""
        if self.leading is None:
            return ChangeRefusal.NOT_LEADER
        return self.leading.change(member, membership)

    def transfer_to(self, member: str, now_ms: int) -> ChangeRefusal | None:
        """Transfer the leadership to a member. Proposals are refused until this has ended."""
        self._at(now_ms)
        if self.leading is None:
            return ChangeRefusal.NOT_LEADER
        return self.leading.start_transfer(member)

    def give_up_lead(self, now_ms: int) -> None:
        """Stop leading: the service cannot go on, and another member is to be elected at once."""
        self._at(now_ms)
        if self.leading is not None:
            self._end_lead()

    def become_only_member(self, now_ms: int) -> None:
        """Recover the group from this member alone; entries that only others have are given up.

        From now on the service must drop all messages of the members that are given up, which may
        have committed other entries.
        """
        self._at(now_ms)
        self.is_removed = False
        state = self.state
        self._leave_roles()
        alone = encode_configuration(Configuration((state.me,)))
        state.append(state.term, CONFIGURATION, [alone])
        self._stand()

    # Snapshots

    def snapshot_taken(self, index: int) -> None:
        """The service has written a snapshot of the entries applied up to an index."""
        assert self.state.log.snapshot_index <= index <= self.state.commit, "RF10: it is committed"
        self.state.log.snapshot_index = index

    def discarded(self, through: int) -> None:
        """The service has discarded entries up to an index that a snapshot covers."""
        self.state.log.discard(through)

    def snapshot_sent(self, member: str, index: int) -> None:
        """A member has installed the snapshot that was sent for `SendSnapshot`."""
        if self.leading is not None:
            self.leading.snapshot_sent(member, index)

    def snapshot_failed(self, member: str, now_ms: int) -> None:
        """A snapshot was not sent or was cancelled; it is requested again after a pause."""
        self._at(now_ms)
        if self.leading is not None:
            self.leading.snapshot_failed(member)

    def install(self, index: int, term: int, configuration: Configuration) -> bool:
        """A leader's snapshot is on disk; return whether it replaces the log and the state.

        If not, drop it: this member has all its entries.
        """
        state = self.state
        is_new = index > state.commit
        if is_new and state.log.term_of(index) == term:
            state.advance_commit(index)
            is_new = False
        if is_new:
            state.reset(index, term, configuration)
            self._matched = 0
        self._matched = max(self._matched, state.commit)
        self._owes_answer = True
        return is_new


def _is_pre_vote_granted(message: RaftMessage) -> bool:
    return (
        isinstance(message, Vote) and message.is_pre_vote and message.answer is VoteAnswer.GRANTED
    )

"""The leader's role: replication, commitment, membership changes and leadership transfer.

At the end of each round of the service, the leader sends each member the entries that it has not
been sent, without waiting for acknowledgements. A member whose link was down, or that reports that
it lacks the previous entry, is first asked for its position (progress.py). Followers learn the
commit index with the next entries or, if none follow within QUIET_MS, from a message without
entries. So an idle group has no timer and sends nothing.

Invariants:

RF3  A leader appends to its log and never truncates it: the entries from `_first` on are its own.
RF7  A leader advances the commit index only to entries of its own term that a majority of the
     voters of its newest configuration has on disk. Its own disk counts as one of them.
"""

from leveret.cluster.raft.configuration import (
    ChangeRefusal,
    Configuration,
    MemberKind,
    encode_configuration,
    votes_changed,
)
from leveret.cluster.raft.entry_log import within
from leveret.cluster.raft.member_state import MemberState
from leveret.cluster.raft.messages import (
    Acknowledgement,
    Entries,
    Mismatch,
    NotLeading,
    Removed,
    TakeLead,
)
from leveret.cluster.raft.outputs import (
    CONFIGURATION,
    DATA,
    TERM_START,
    CancelSnapshot,
    LeaderTransferEnded,
    MemberLost,
    ReadEntries,
    SendSnapshot,
)
from leveret.cluster.raft.progress import LOST, PROBING, REPLICATING, SNAPSHOT, Progress

BATCH_BYTES = 256 * 1024
"""The limit for the entries of one message; a larger entry is sent alone. Small messages allow
those of other groups to be sent in between.
"""
QUIET_MS = 100
"""How long the followers of an idle group may not know the newest commit index."""
QUORUM_LOST_MS = 1000
"""How long a leader without a majority waits for links to return: most interruptions are
shorter.
"""
TRANSFER_MS = 2000
"""How long proposals are refused during a transfer: as long as an election may take."""
SNAPSHOT_RETRY_MS = 1000
PROMOTION_LAG = 1000
"""A member counts as caught up if it is at most this many entries behind: less than a second of
traffic.
"""


class Leading:
    """The leadership of one term. is_over: it has ended, and the member becomes a follower."""

    def __init__(self, state: MemberState) -> None:
        self.state = state
        self.is_over = False
        self.transfer_to = ""
        self._first = state.log.last_index + 1
        self._progress: dict[str, Progress] = {}
        self._removed = _removed_by_the_last_change(state)
        self._quorum_lost_ms = self._transfer_ms = self._quiet_ms = 0
        self._is_told_to_take = False
        self._sent: Entries | None = None
        """The last message of this round: most members get the same one, which the service then
        encodes once.
        """
        self._set_members()
        self._append(TERM_START, [b""])
        self.check_quorum()

    # Questions

    @property
    def progress(self) -> list[Progress]:
        """The progress of each other member."""
        return list(self._progress.values())

    @property
    def first_index(self) -> int:
        """The index of the first entry of this term."""
        return self._first

    @property
    def is_refusing(self) -> bool:
        """Whether proposals are refused, because of a transfer."""
        return bool(self.transfer_to) or self.is_over

    @property
    def has_committed(self) -> bool:
        """Whether an entry of this term is committed."""
        return self.state.commit >= self._first

    def needed_from(self) -> int:
        """Return the first entry that a member in reach lacks; keep it if possible."""
        needed = self.state.log.last_index + 1
        for one in self._progress.values():
            if one.member in self.state.reachable and one.state != LOST:
                needed = min(needed, max(one.match, one.snapshot) + 1)
        return needed

    # Entries

    def propose(self, payloads: list[bytes]) -> int:
        """Append entries; return the index of the first one, or 0 during a transfer."""
        if self.is_refusing:
            return 0
        return self._append(DATA, payloads)

    def append_empty(self) -> int:
        """Append an entry without data; return its index, or 0 during a transfer."""
        return 0 if self.is_refusing else self._append(TERM_START, [b""])

    def _append(self, kind: int, payloads: list[bytes]) -> int:
        state = self.state
        first = state.log.last_index + 1
        state.append(state.term, kind, payloads)
        size = 0
        for payload in payloads:
            size += len(payload)
        if self._progress:
            state.log.keep(first, payloads, size)
        return first

    def end_round(self) -> None:
        """Commit, transfer, promote and send as the inputs of the round allow."""
        self._commit()
        if self.is_over:
            return
        if self.transfer_to:
            self._hand_over()
        self._promote()
        log = self.state.log
        wanted = log.last_index + 1
        for one in self._progress.values():
            self._send_entries(one)
            is_current = one.state in (PROBING, REPLICATING) and not one.reading
            if is_current and one.next < wanted and one.member in self.state.linked:
                wanted = one.next
        log.forget_payloads(wanted)
        self._sent = None

    def _send_entries(self, one: Progress) -> None:
        state = self.state
        log = state.log
        if one.member not in state.linked:
            return
        while one.may_send():
            first = one.next
            if first <= log.base_index:
                self._send_snapshot(one)
                return
            payloads: list[bytes] | None = []
            if first <= log.last_index:
                payloads = log.payloads(first, BATCH_BYTES)
                if payloads is None and one.state == REPLICATING:
                    if not one.reading:
                        one.reading = first
                        state.outputs.append(ReadEntries(one.member, first, BATCH_BYTES))
                    return
            elif one.state == REPLICATING:
                return
            self._send(one, payloads or [])

    def _send(self, one: Progress, payloads: list[bytes]) -> None:
        """Send entries, or a message without any if there are no payloads."""
        state = self.state
        first, size = one.next, 0
        for payload in payloads:
            size += len(payload)
        message = self._sent
        if (
            message is None
            or message.previous_index != first - 1
            or len(message.payloads) != len(payloads)
            or message.commit != state.commit
        ):
            message = self._sent = self._entries(first, payloads)
        one.sent(first + len(payloads) - 1, size)
        one.told = min(state.commit, one.next - 1)
        state.send(one.member, message)

    def _entries(self, first: int, payloads: list[bytes]) -> Entries:
        """The message with these entries. RF3: its other fields follow from the first index."""
        state = self.state
        log = state.log
        term, kind = (log.term_of(first), log.kind_of(first)) if payloads else (0, DATA)
        return Entries(
            state.group, state.term, first - 1, log.term_of(first - 1), state.commit, term, kind,
            payloads,
        )  # fmt: skip

    def entries_read(self, member: str, first: int, payloads: list[bytes]) -> None:
        """Send the entries that the service has read for a member (`ReadEntries`)."""
        one = self._progress.get(member)
        if one is None or one.reading != first:
            return
        one.reading = 0
        if one.next != first or first <= self.state.log.base_index:
            return
        while payloads and one.may_send() and member in self.state.linked:
            count = self.state.log.end_of_run(one.next) + 1 - one.next
            batch = within(payloads[:count], BATCH_BYTES)
            payloads = payloads[len(batch) :]
            self._send(one, batch)

    def acknowledged(self, member: str, message: Acknowledgement) -> None:
        """A member has the entries up to an index on its disk."""
        one = self._progress.get(member)
        if one is None or one.state == LOST:
            return
        if one.state == SNAPSHOT:
            if message.match < min(one.snapshot, self.state.log.base_index):
                return
            self._end_snapshot(one)
            one.probe(message.match + 1)
        is_answer = one.state == PROBING
        one.acknowledged(message.match)
        if is_answer and one.told < self.state.commit:
            self._tell_commit_later()

    def refused(self, member: str, message: Mismatch) -> None:
        """A member lacks the entry that precedes those it was sent."""
        one = self._progress.get(member)
        if one is None or one.state not in (PROBING, REPLICATING):
            return
        if one.state == PROBING and message.previous_index != one.asked:
            return
        if message.previous_index < one.match:
            return
        if message.hint_index < one.match:
            one.lose()
            self.state.outputs.append(MemberLost(member))
            return
        one.probe(self.state.log.last_like(message.hint_index, message.hint_term) + 1)

    def _commit(self) -> None:
        state = self.state
        voters = state.log.configuration.voters
        matches: list[int] = []
        for voter in voters:
            if voter == state.me:
                matches.append(state.synced_index)
            else:
                matches.append(self._progress[voter].match)
        matches.sort()
        through = matches[(len(voters) - 1) // 2]
        if through < self._first or not state.advance_commit(through):  # RF7
            return
        for index, member in self._removed:
            if index <= through:
                state.send(member, Removed(state.group, state.term, index))
        if self._removed:
            self._removed = [one for one in self._removed if one[0] > through]
        self._tell_commit_later()
        if state.log.configuration_index <= through and state.me not in voters:
            self._leave()

    def _tell_commit_later(self) -> None:
        if self._progress and not self._quiet_ms:
            self._quiet_ms = self.state.wake_in(QUIET_MS)

    # Members

    def change(self, member: str, membership: MemberKind | None) -> ChangeRefusal | None:
        """Add a member with this kind of membership, or remove it (None)."""
        state = self.state
        before = state.log.configuration
        if self.transfer_to:
            return ChangeRefusal.TRANSFER_UNDER_WAY
        if not self.has_committed:
            return ChangeRefusal.NOT_YET
        if state.log.configuration_index > state.commit:
            return ChangeRefusal.CHANGE_UNDER_WAY
        if membership is None:
            if member not in before.members:
                return ChangeRefusal.NO_MEMBER
            if before.voters == (member,):
                return ChangeRefusal.LAST_VOTER
            self._configure(before.without_member(member))
            return None
        if member in before.members:
            return ChangeRefusal.MEMBER_ALREADY
        self._configure(before.with_member(member, membership))
        return None

    def _configure(self, after: Configuration) -> None:
        before = self.state.log.configuration
        assert votes_changed(before, after) <= 1, "RF8: one vote at a time"
        index = self._append(CONFIGURATION, [encode_configuration(after)])
        self._removed += [(index, one) for one in before.members if one not in after.members]
        self._set_members()
        self.check_quorum()

    def _set_members(self) -> None:
        """Track the members of the newest configuration."""
        log = self.state.log
        members = log.configuration.members
        for member in members:
            if member != self.state.me and member not in self._progress:
                self._progress[member] = Progress(
                    member, log.last_index + 1, self.state.window_bytes
                )
        for member in [one for one in self._progress if one not in members]:
            self._end_snapshot(self._progress.pop(member))

    def _promote(self) -> None:
        """Make a promotable member that has caught up a voter."""
        state = self.state
        configuration = state.log.configuration
        if not configuration.promotable or self.transfer_to or not self.has_committed:
            return
        if state.log.configuration_index > state.commit:
            return
        for member in configuration.promotable:
            one = self._progress[member]
            is_near = one.match >= max(self._first, state.log.last_index - PROMOTION_LAG)
            if is_near and one.state == REPLICATING and member in state.reachable:
                self._configure(configuration.with_voter(member))
                return

    def _leave(self) -> None:
        """Ask another voter to lead: the removal of this member is committed."""
        state = self.state
        voters = [self._progress[one] for one in state.log.configuration.voters]
        best = max(voters, key=lambda one: (one.member in state.reachable, one.match))
        for one in self._progress.values():
            if one.state == REPLICATING:
                self._send(one, [])  # Followers learn that the removal is committed.
        state.send(best.member, TakeLead(state.group, state.term))
        self.is_over = True

    # Leadership transfer

    def start_transfer(self, member: str) -> ChangeRefusal | None:
        """Refuse proposals, and hand over to a member as soon as it has all entries."""
        state = self.state
        if member == state.me:
            return ChangeRefusal.LEADER_ALREADY
        if member not in state.log.configuration.voters:
            return ChangeRefusal.NO_VOTER
        if member not in state.reachable:
            return ChangeRefusal.UNREACHABLE
        if self.transfer_to:
            return ChangeRefusal.TRANSFER_UNDER_WAY
        self.transfer_to, self._is_told_to_take = member, False
        self._transfer_ms = state.wake_in(TRANSFER_MS)
        return None

    def _hand_over(self) -> None:
        state = self.state
        one = self._progress.get(self.transfer_to)
        if one is not None and one.match == state.log.last_index and not self._is_told_to_take:
            self._is_told_to_take = True
            state.send(one.member, TakeLead(state.group, state.term))

    def _end_transfer(self) -> None:
        if self.transfer_to:
            self.state.outputs.append(LeaderTransferEnded(self.transfer_to))
            self.transfer_to, self._transfer_ms = "", 0

    # Snapshots

    def _send_snapshot(self, one: Progress) -> None:
        """Request a snapshot, and tell the member that this one leads: entries will not."""
        state = self.state
        log = state.log
        one.await_snapshot(log.snapshot_index)
        question = Entries(
            state.group, state.term, log.base_index, log.base_term, 0, 0, DATA, []
        )  # fmt: skip
        state.send(one.member, question)
        state.outputs.append(SendSnapshot(one.member, log.snapshot_index))

    def snapshot_sent(self, member: str, index: int) -> None:
        """A member has installed the snapshot through an index."""
        one = self._progress.get(member)
        if one is not None and one.state == SNAPSHOT:
            one.probe(index + 1)

    def snapshot_failed(self, member: str) -> None:
        """A snapshot was not sent, or was cancelled; it is sent again after a pause."""
        one = self._progress.get(member)
        if one is not None and one.state == SNAPSHOT and not one.retry_ms:
            one.retry_ms = self.state.wake_in(SNAPSHOT_RETRY_MS)

    def _end_snapshot(self, one: Progress) -> None:
        if one.state == SNAPSHOT and not one.retry_ms:
            self.state.outputs.append(CancelSnapshot(one.member))

    # Links and time

    def ask(self, member: str) -> None:
        """Ask a member for its position: its link is new, or it does not know this leader."""
        one = self._progress.get(member)
        if one is not None and one.state != LOST:
            self._end_snapshot(one)
            one.probe((one.match or self.state.log.last_index) + 1)

    def link_down(self, member: str) -> None:
        """Stop sending to a member whose link is down, and end a transfer to it."""
        one = self._progress.get(member)
        if one is not None and one.state != LOST:
            self._end_snapshot(one)
            one.probe(one.match + 1)
        if member == self.transfer_to:
            self._end_transfer()

    def check_quorum(self) -> None:
        """Start the timer without a majority, or stop it when there is one."""
        if self.state.reaches_majority:
            self._quorum_lost_ms = 0
        elif not self._quorum_lost_ms:
            self._quorum_lost_ms = self.state.wake_in(QUORUM_LOST_MS)

    def wake(self) -> None:
        """Act on the timers that are due."""
        state = self.state
        now_ms = state.now_ms
        if 0 < self._quorum_lost_ms <= now_ms:
            self.is_over = True
        if 0 < self._transfer_ms <= now_ms:
            self._end_transfer()
        if 0 < self._quiet_ms <= now_ms:
            self._quiet_ms = 0
            for one in self._progress.values():
                is_behind = one.told < min(state.commit, one.next - 1)
                if is_behind and one.state == REPLICATING:
                    self._send(one, [])
        for one in self._progress.values():
            if 0 < one.retry_ms <= now_ms:
                one.probe(one.next)

    def end(self) -> None:
        """Tell the followers that this member has stopped leading."""
        state = self.state
        for one in self._progress.values():
            self._end_snapshot(one)
            state.send(one.member, NotLeading(state.group, state.term))
        state.log.forget_payloads(state.log.last_index + 1)


def _removed_by_the_last_change(state: MemberState) -> list[tuple[int, str]]:
    """Return the members to tell of their removal once it is committed, with its index.

    An earlier leader has proposed it. If it has removed itself, the others send it nothing else.
    """
    log = state.log
    index = log.configuration_index
    if index <= state.commit:
        return []
    before = log.configuration_at(index - 1)[1]
    return [(index, one) for one in before.members if one not in log.configuration.members]

"""The state that a member has in every role: term, vote, log, and which writes are on disk.

Writes are numbered. A message that states a term is held until the write of that term and its vote
is on disk. The last log entry on disk also follows from write numbers, not from indexes and terms:
an entry may be appended, truncated and appended again, and a sync that covers only the first append
proves nothing about the second.

Invariants:

RF1  A member sends no message before its term and its vote in that term are on disk.
RF5  Committed entries are never truncated, and the commit index never decreases.
"""

from collections import deque

from leveret.cluster.raft.configuration import Configuration
from leveret.cluster.raft.entry_log import WINDOW_BYTES, EntryLog, Stored
from leveret.cluster.raft.messages import RaftMessage
from leveret.cluster.raft.outputs import (
    Append,
    Committed,
    RaftOutput,
    ResetLog,
    SaveTerm,
    Send,
    Truncate,
    Wake,
)


class _LogWrite:
    """A write of the log that is not on disk. last: once it is, entries through this index are."""

    __slots__ = ("last", "number")

    def __init__(self, number: int, last: int) -> None:
        self.number = number
        self.last = last


class _HeldMessage:
    """A message that is held until a write is on disk."""

    __slots__ = ("message", "to", "write")

    def __init__(self, write: int, to: str, message: RaftMessage) -> None:
        self.write = write
        self.to = to
        self.message = message


class MemberState:
    """The state of one member.

    writes: the number of the last write. synced_writes: the last write that is on disk.
    synced_index: the last entry that is on disk. linked: the members with a live link;
    reachable: those of them that are not silent. window_bytes: how much is sent to a member without
    an acknowledgement, and kept to be sent.
    """

    def __init__(
        self, group: int, me: str, stored: Stored, window_bytes: int = WINDOW_BYTES
    ) -> None:
        self.group = group
        self.me = me
        self.term = stored.term
        self.vote = stored.vote
        self.window_bytes = window_bytes
        self.log = EntryLog(stored, window_bytes)
        self.commit = stored.snapshot_index
        self.linked: set[str] = set()
        self.reachable: set[str] = set()
        self.now_ms = 0
        self.outputs: list[RaftOutput] = []
        self.writes = self.synced_writes = self.term_write = 0
        self.synced_index = self.log.last_index
        self._log_writes: deque[_LogWrite] = deque()
        self._held: list[_HeldMessage] = []
        if self.log.is_cut_off:
            self._write_reset()

    # Writes

    def save_term(self, term: int, vote: str) -> None:
        """Enter a term, or record a vote in the current one."""
        assert term > self.term or not self.vote, "RF2: one vote a term"
        self.term, self.vote = term, vote
        self.writes += 1
        self.term_write = self.writes
        self.outputs.append(SaveTerm(term, vote))

    def append(self, term: int, kind: int, payloads: list[bytes]) -> None:
        """Append entries."""
        first = self.log.last_index + 1
        self.log.append(first, term, kind, payloads)
        self.outputs.append(Append(first, term, kind, payloads))
        self._note_log_write()

    def truncate(self, first: int) -> None:
        """Remove the entries from an index on."""
        assert first > self.commit, "RF5: committed entries are never truncated"
        self.log.truncate(first)
        self.outputs.append(Truncate(first))
        self._cap(first - 1)
        self._note_log_write()

    def reset(self, index: int, term: int, configuration: Configuration) -> None:
        """Restart the log after a snapshot that is newer than the commit index."""
        assert index > self.commit, "RF5: the commit index never decreases"
        self.log.reset(index, term, configuration)
        self.commit = index
        self._write_reset()

    def _write_reset(self) -> None:
        self.outputs.append(ResetLog(self.log.base_index, self.log.base_term))
        self._cap(0)
        self._note_log_write()

    def _note_log_write(self) -> None:
        self.writes += 1
        self._log_writes.append(_LogWrite(self.writes, self.log.last_index))

    def _cap(self, last: int) -> None:
        """Forget that entries after this one were written: their indexes are free again."""
        self.synced_index = min(self.synced_index, last)
        for write in self._log_writes:
            write.last = min(write.last, last)

    def synced(self, writes: int) -> None:
        """The writes up to this number are on disk."""
        assert writes <= self.writes, "a write that was not requested cannot be on disk"
        self.synced_writes = max(writes, self.synced_writes)
        log_writes = self._log_writes
        while log_writes and log_writes[0].number <= writes:
            self.synced_index = max(self.synced_index, log_writes.popleft().last)
        if self._held:
            for one in self._held:
                if one.write <= writes:
                    self.outputs.append(Send(one.to, one.message))
            self._held = [one for one in self._held if one.write > writes]

    @property
    def is_term_synced(self) -> bool:
        """Whether the current term and vote are on disk."""
        return self.synced_writes >= self.term_write

    # Outputs

    def send(self, to: str, message: RaftMessage) -> None:
        """Send a message as soon as the current term is on disk (RF1)."""
        if to not in self.linked:
            return
        if self.synced_writes >= self.term_write:
            self.outputs.append(Send(to, message))
        else:
            self._held.append(_HeldMessage(self.term_write, to, message))

    def lose_messages(self, to: str) -> None:
        """Drop the messages held for a member whose link has ended."""
        self._held = [one for one in self._held if one.to != to]

    def wake_in(self, pause_ms: int) -> int:
        """Ask to be woken after a pause; return the time."""
        at_ms = self.now_ms + max(pause_ms, 1)
        self.outputs.append(Wake(at_ms))
        return at_ms

    def advance_commit(self, through: int) -> bool:
        """Raise the commit index; return whether it has changed."""
        if through <= self.commit:
            return False
        assert through <= self.log.last_index, "RF5: committed entries are in the log"
        self.commit = through
        self.outputs.append(Committed(through))
        return True

    # Questions

    @property
    def may_lead(self) -> bool:
        """Whether this member is a voter, or was one until a removal that is not committed.

        In the second case its log may be the only one with the removal, and a majority may need it.
        Only the newest configuration may be uncommitted (RF8), whatever this member knows.
        """
        log = self.log
        if self.me in log.configuration.voters:
            return True
        committed = max(self.commit, log.configuration_index - 1)
        return self.me in log.configuration_at(committed)[1].voters

    @property
    def reaches_majority(self) -> bool:
        """Whether the voters in reach, including this member if it is one, are a majority."""
        configuration = self.log.configuration
        count = 0
        for voter in configuration.voters:
            if voter == self.me or voter in self.reachable:
                count += 1
        return count >= configuration.majority

    def is_like(self, last_term: int, last_index: int) -> bool:
        """Whether a log that ends with this entry is at least as new as this member's (RF2)."""
        log = self.log
        if last_term != log.last_term:
            return last_term > log.last_term
        return last_index >= log.last_index

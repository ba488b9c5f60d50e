"""The log of all Raft groups of a node: one client of the node's log, with one sync for all.

**Promise.** A restart finds each group in its state after some of its writes: the last one that was
reported as synced, or a later one. Entries, term and vote belong to the same state. The entries
that the newest snapshot of a group refers to are readable. Each payload is written once.

**Not promised.** Any order between groups. That a group with damaged bytes can be used:
`GroupState.damage` says why it cannot, or reading an entry raises EntryDamaged. Other groups and
the node are not affected.

**Mechanism.** Writes are gathered, and taken into one record for each batch of the log
(group_records.py). A restart loads the rows (rows.py) and applies the records after them
(group_recovery.py). Before the log removes a file, a round of snapshots (rounds.py) brings the rows
up to date. If entries in the file are still needed, it is kept under another name (kept_files.py).

Invariants:

GL1  Records have consecutive numbers, and are applied in their order. To a group, only those are
    applied that follow the record its rows cover.
GL2  A payload is in memory until the batch with it is on disk.
GL3  A log file with a record of this client is needed until a round has covered it.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import ClassVar, NamedTuple, Protocol

from leveret.storage.contract.backing_queue import Waiter
from leveret.storage.group_log.entry_blocks import block_of
from leveret.storage.group_log.entry_reader import EntryReader
from leveret.storage.group_log.group_records import (
    CREATE,
    ENTRIES,
    RECEIVED,
    REMOVE,
    RESET,
    TERM,
    TRUNCATE,
    EncodedItem,
    GroupWrite,
    encode_group_record,
    encode_item,
)
from leveret.storage.group_log.group_recovery import GroupRecovery
from leveret.storage.group_log.group_state import FoundRun, GroupState, SnapshotName
from leveret.storage.log.large_records import LogRecord
from leveret.storage.log.log_files import LogFile
from leveret.storage.messages.formats import ScannedRecord

RECENT_BYTES = 16 * 1024 * 1024
"""Memory of payloads that stay after they are on disk: most are soon applied and sent."""
REMOVED_PART = 16
"""Payloads of removed groups are dropped when they are this part of what stays in memory: finding
them takes time, and a node that declares and deletes very many queues has hardly any others.
"""
PAYLOAD_BYTES = 200
"""About how much memory a payload takes, beside its bytes."""


class _Pending(NamedTuple):
    """A write that waits for the next record."""

    state: GroupState
    item: GroupWrite
    encoded: EncodedItem


class _Recent(NamedTuple):
    """Payloads of one append. batch: the log's batch that writes them to disk.

    of_group: `GroupState.recent`, not the whole state, which a removed group does not need.
    """

    of_group: dict[int, bytes]
    first: int
    payloads: list[bytes]
    batch: int


class NodeLog(Protocol):
    """The log that takes the records (storage/log/log.py).

    batch: the number of the one that is gathering; written: that of the last one on disk.
    """

    batch: int
    written: int

    def write_later(self, pending_bytes: int = 0) -> None:
        """Have what was gathered written soon."""

    def when_safe(self, waiter: Waiter, first: int, holder: object) -> None:
        """Confirm to the waiter when all that was gathered is on disk."""


class GroupLog:
    """A `LogClient`. All methods are for the event loop's thread.

    groups: by number, in the state after the last record that was taken. number: of the next
    record. last_numbers: the number of the last record in each log file that has any, oldest file
    first. cover: brings the rows up to date so that a log file can be removed (rounds.py).

    syncs_together: one sync is for the writes of all groups.
    recent_bytes: of the payloads that stay in memory; None if others remove them from there.
    """

    removing_kinds: ClassVar[frozenset[int]] = frozenset()
    syncs_together: ClassVar[bool] = True

    def __init__(
        self, log: NodeLog, recovery: GroupRecovery, reader: EntryReader,
        recent_bytes: int | None = RECENT_BYTES,
    ) -> None:  # fmt: skip
        self.name = recovery.records.name
        self.kinds = recovery.kinds
        self._recent_bytes_max = recent_bytes
        self._log = log
        self._recovery = recovery
        self.reader = reader
        self.groups = recovery.groups
        self.last_numbers = recovery.last_numbers
        self.number = self.appended_bytes = 0
        self.cover: Callable[[LogFile], Awaitable[None]]
        self._pending: list[_Pending] = []
        self._recent: deque[_Recent] = deque()
        self._recent_bytes = self._removed_bytes = 0

    # Restarting

    def recover(self, file: LogFile, data: bytes, record: ScannedRecord) -> str | None:
        """Take over a record that a restart found. Returns a description of damage, or None."""
        return self._recovery.recover(file, data, record)

    def begin(self) -> None:
        """Start to write, after the log was read."""
        self._recovery.end()
        self.number = self._recovery.number

    # Writing

    def create(self, group: int, me: str, configuration: bytes) -> None:
        """Create a member of a new group, or replace an old member by a new one."""
        state = self.groups[group] = GroupState(group, me, configuration)
        self._add(state, GroupWrite(CREATE, group, text=me, data=configuration))

    def remove(self, group: int) -> None:
        """Remove the member and all of its data."""
        state = self.groups.pop(group)
        self._add(state, GroupWrite(REMOVE, group))
        self._removed_bytes += _memory_bytes(state.recent.values())
        state.recent.clear()
        bytes_max = self._recent_bytes_max
        if bytes_max is not None and self._removed_bytes > bytes_max // REMOVED_PART:
            self._drop_removed()

    def save_term(self, group: int, term: int, vote: str) -> None:
        """Save the term, and the member that this one has voted for in it."""
        self._add(self.groups[group], GroupWrite(TERM, group, term, text=vote))

    def append(self, group: int, first: int, term: int, kind: int, payloads: list[bytes]) -> None:
        """Append entries after the last one."""
        state = self.groups[group]
        sizes = tuple([len(payload) for payload in payloads])
        size = sum(sizes) + PAYLOAD_BYTES * len(sizes)
        self.appended_bytes += size
        self._keep_recent(state, first, payloads, size)
        self._add(state, GroupWrite(ENTRIES, group, 0, first, term, kind, sizes=sizes), payloads)

    def truncate(self, group: int, first: int) -> None:
        """Remove the entries from this index on."""
        state = self.groups[group]
        _forget_recent(state, first)
        self._add(state, GroupWrite(TRUNCATE, group, first=first))

    def reset(self, group: int, snapshot: SnapshotName) -> None:
        """Let the log begin after the snapshot. Entries that were received with it take effect."""
        state = self.groups[group]
        _forget_recent(state, state.kept + 1)
        self._add(state, GroupWrite(RESET, group, snapshot.index, state.kept, snapshot.term))

    def receive(
        self, group: int, snapshot: SnapshotName, index: int, term: int, kind: int, payload: bytes
    ) -> None:
        """Store an entry that came with a snapshot. They come in the order of their indexes."""
        item = GroupWrite(
            RECEIVED, group, snapshot.index, index, term, kind, sizes=(len(payload),),
            snapshot_term=snapshot.term,
        )  # fmt: skip
        self._add(self.groups[group], item, [payload])

    def _add(
        self, state: GroupState, item: GroupWrite, payloads: list[bytes] | None = None
    ) -> None:
        self._pending.append(_Pending(state, item, encode_item(item, payloads or [])))
        self._log.write_later(sum(item.sizes))

    def when_synced(self, waiter: Waiter, number: int, group: int) -> None:
        """Call `waiter.confirm(number, None)` when all writes of a group so far are on disk.

        If `syncs_together`, those of all groups are.
        """
        self._log.when_safe(waiter, number, None)

    def take_records(self, file: LogFile, offset: int) -> list[LogRecord]:
        """All gathered writes as one record."""
        if not self._pending:
            return []
        pending, self._pending = self._pending, []
        pieces, places = encode_group_record(
            self._recovery.records, self.number, [one.encoded for one in pending]
        )
        places = [offset + place for place in places]
        at = 0
        for state, item, encoded in pending:
            end = at + len(encoded.payloads)
            state.apply(item, file.number, places[at:end])
            at = end
        self.last_numbers[file.number] = self.number  # GL1
        self.number += 1
        file.records += 1
        file.messages += len(places)
        return pieces

    # After a restart

    def found_runs(self, state: GroupState) -> list[FoundRun]:
        """The entries of a group that a restart has found."""
        return list(state.runs())

    def term_before(self, state: GroupState) -> int:
        """The term of the entry before the first one of a group; -1 if it is not known."""
        return -1

    def read_now(self, state: GroupState, index: int) -> bytes:
        """The payload of an entry, for a caller that may wait for the disk. Raises StoreError."""
        block = block_of(state.blocks, index)
        assert block is not None, "the entry is one of those that were found"
        return self.reader.read_now(block, index)

    def lacks_reset(self, state: GroupState) -> bool:
        """Whether a restart found a received snapshot, and the log was not yet reset after it."""
        return state.lacks_reset

    # Payloads in memory

    def _keep_recent(self, state: GroupState, first: int, payloads: list[bytes], size: int) -> None:
        of_group = state.recent
        for place, payload in enumerate(payloads):
            of_group[first + place] = payload
        bytes_max = self._recent_bytes_max
        if bytes_max is None:
            return
        self._recent.append(_Recent(of_group, first, payloads, self._log.batch))
        self._recent_bytes += size
        recent, written = self._recent, self._log.written
        while self._recent_bytes > bytes_max and recent[0].batch <= written:  # GL2
            of_group, first, payloads, _ = recent.popleft()
            for place, payload in enumerate(payloads):
                self._recent_bytes -= len(payload) + PAYLOAD_BYTES
                if of_group.get(first + place) is payload:
                    del of_group[first + place]

    def _drop_removed(self) -> None:
        """Drop the payloads of removed groups."""
        kept: deque[_Recent] = deque()
        for one in self._recent:
            if one.of_group:
                kept.append(one)
            else:
                self._recent_bytes -= _memory_bytes(one.payloads)
        self._recent, self._removed_bytes = kept, 0

    # Reading

    def is_in_memory(self, group: int, index: int) -> bool:
        """Whether an entry can be read without the disk."""
        return index in self.groups[group].recent

    def read(self, group: int, first: int, last: int, bytes_max: int) -> list[bytes]:
        """Payloads of consecutive entries from the first one on. There is at least one.

        Raises BeingRead if a thread has to read them; KeyError if the group does not have the
        first one; EntryDamaged; StoreError if it cannot be read.
        """
        state = self.groups[group]
        recent = state.recent
        payloads: list[bytes] = []
        while first <= last and first in recent:
            payload = recent[first]
            bytes_max -= len(payload)
            if payloads and bytes_max < 0:
                break
            payloads.append(payload)
            first += 1
        if payloads:
            return payloads
        block = block_of(state.blocks, first)
        if block is None:
            raise KeyError(first)
        return self.reader.read(block, first, min(last, block.last), bytes_max)

    # Moving on from a file

    def oldest_needed(self) -> int | None:
        """The number of the oldest log file with a record that no round has covered (GL3)."""
        return next(iter(self.last_numbers), None)

    async def move_on(self, file: LogFile) -> None:
        """Have a round cover the file, so that the log can remove it."""
        await self.cover(file)


def _memory_bytes(payloads: Iterable[bytes]) -> int:
    return sum([len(payload) + PAYLOAD_BYTES for payload in payloads])


def _forget_recent(state: GroupState, first: int) -> None:
    for index in [index for index in state.recent if index >= first]:
        del state.recent[index]

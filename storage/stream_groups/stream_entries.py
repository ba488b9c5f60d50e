"""The log of the groups of streams: entries are chunks in the files of each stream.

Members, terms and votes, which change with elections only, and snapshots are in the node's log and
in rows, as those of other groups (group_log.py). An entry with messages is a chunk. Other entries,
the start of a term and configurations, are put into a chunk when they are appended, and taken out
when they are read.

**Promise.** As that of GroupLog, for each group: a restart finds all that was reported as synced.
A chunk may be on disk before the term in which it was appended: then a restart enters the term of
the chunk, without a vote. Nothing that states the term has left the node.

**Mechanism.** A write waits for the files of its stream, for the node's log, or for both. The waits
of a group end in their order. A new group is in the node's log only when its stream is on disk.

Invariant SGE1: the waits of a group are confirmed in the order in which they began.
"""

from collections import deque
from collections.abc import Callable
from typing import ClassVar

from leveret.storage.contract.backing_queue import Waiter
from leveret.storage.disk.disk import StoreError
from leveret.storage.group_log.entry_reader import EntryReader
from leveret.storage.group_log.group_log import GroupLog, NodeLog
from leveret.storage.group_log.group_records import GroupWrite, RecordName
from leveret.storage.group_log.group_recovery import GroupRecovery
from leveret.storage.group_log.group_state import FoundRun, GroupState, SnapshotName
from leveret.storage.stream_groups.stored_state import StoredStateError, decode_state
from leveret.storage.stream_log.chunks import (
    OF_GROUP,
    ChunkError,
    encode_chunk,
    entries_of,
    read_head,
)
from leveret.storage.stream_log.segment_heads import SegmentHead
from leveret.storage.stream_log.stream_log import StreamLog
from leveret.storage.stream_log.stream_store import StreamStore

STREAM_RECORDS = RecordName(18, "streams")
NEW_STREAM = SegmentHead(1, 0, 0, [])
"""The head of a stream without entries."""


class _Wait:
    """A waiter of a group. parts: the parts of its writes that are not on disk yet."""

    def __init__(self, waiter: Waiter, number: int, queue: "deque[_Wait]") -> None:
        self.waiter = waiter
        self.number = number
        self.queue = queue
        self.parts = 0

    def confirm(self, first: int, holder: object) -> None:
        """A part is on disk."""
        self.parts -= 1
        queue = self.queue
        while queue and not queue[0].parts:
            wait = queue.popleft()  # SGE1
            wait.waiter.confirm(wait.number, None)

    def written(self) -> None:
        """The chunks are on disk."""
        self.confirm(0, None)


class _Creating:
    """A new group whose stream is not on disk. items: for the node's log. waits: for these."""

    def __init__(self) -> None:
        self.items: list[tuple[GroupState, GroupWrite]] = []
        self.waits: list[_Wait] = []


class StreamGroupLog(GroupLog):
    """The log of the streams of a node. stored_state: reads the state in a group's snapshot."""

    syncs_together: ClassVar[bool] = False

    def __init__(
        self, log: NodeLog, recovery: GroupRecovery, reader: EntryReader, streams: StreamStore,
        stored_state: Callable[[int], bytes],
    ) -> None:  # fmt: skip
        super().__init__(log, recovery, reader, None)
        self.streams = streams
        self._stored_state = stored_state
        self._waits: dict[int, deque[_Wait]] = {}
        self._creating: dict[int, _Creating] = {}
        self._has_items: set[int] = set()
        self._has_chunks: set[int] = set()

    # Restarting

    def begin(self) -> None:
        """Open the streams of all groups, after the log was read. Raises StoreError."""
        super().begin()
        self.streams.open(self.groups)
        for group, state in self.groups.items():
            state.damage = state.damage or self._damage_of(group, state)

    def _damage_of(self, group: int, state: GroupState) -> str:
        """Why the stream of a group cannot be used; empty if it can."""
        damaged, stream = self.streams.damaged.get(group), self.streams.streams.get(group)
        if damaged is not None:
            return str(damaged)
        if stream is None:
            return "the files of the stream are missing"
        log, index = stream.log, state.snapshot.index
        return damage_of(index, log.first_entry, log.last_entry, self._stored_of(group))

    def _stored_of(self, group: int) -> Callable[[], bytes]:
        return lambda: self._stored_state(group)

    def found_runs(self, state: GroupState) -> list[FoundRun]:
        """The entries that a restart has found."""
        runs = self._log_of(state.group).runs
        return [FoundRun(run.first, run.count, run.term, run.kind) for run in runs]

    def term_before(self, state: GroupState) -> int:
        """The term of the entry before the first one."""
        return self._log_of(state.group).segments[0].term_before

    def read_now(self, state: GroupState, index: int) -> bytes:
        """The payload of an entry, for a caller that may wait for the disk. Raises StoreError."""
        return payload_of(self._log_of(state.group).read_now(index))

    def lacks_reset(self, state: GroupState) -> bool:
        """Whether a restart found a received snapshot, and an empty log that does not follow it."""
        log = self._log_of(state.group)
        is_empty = log.last_entry < log.first_entry
        return is_empty and log.first_entry != state.snapshot.index + 1

    # Writing

    def create(self, group: int, me: str, configuration: bytes) -> None:
        """Create a member of a new group, or replace an old member by a new one."""
        self._creating[group] = _Creating()
        super().create(group, me, configuration)
        stream = self.streams.create(group, NEW_STREAM)
        self.streams.when_written(stream, lambda: self._created(group))

    def _created(self, group: int) -> None:
        creating = self._creating.pop(group)
        for state, item in creating.items:
            super()._add(state, item)
        for wait in creating.waits:
            self._log.when_safe(wait, 0, None)

    def remove(self, group: int) -> None:
        """Remove the member and all of its data."""
        if self._creating.pop(group, None) is None:
            super().remove(group)
        else:
            del self.groups[group]
        self.streams.remove(group)
        self._has_items.discard(group)
        self._has_chunks.discard(group)
        queue = self._waits.pop(group, None)
        while queue:
            wait = queue.popleft()
            wait.waiter.confirm(wait.number, None)

    def append(self, group: int, first: int, term: int, kind: int, payloads: list[bytes]) -> None:
        """Append entries after the last one. Raises StoreError if a chunk does not follow."""
        log = self._log_of(group)
        if kind:
            for place, payload in enumerate(payloads):
                chunk = encode_chunk(
                    OF_GROUP + kind, log.next_offset, term, log.end_ms, 0, 0, [payload]
                )
                log.append(first + place, term, kind, [chunk])
        else:
            try:
                log.append(first, term, kind, payloads)
            except ChunkError as error:
                raise StoreError(f"entry {log.last_entry + 1} cannot be stored: {error}") from error
            self.appended_bytes += sum(map(len, payloads))
        self._has_chunks.add(group)

    def truncate(self, group: int, first: int) -> None:
        """Remove the entries from this index on."""
        self._log_of(group).truncate(first)
        self._has_chunks.add(group)

    def reset(self, group: int, snapshot: SnapshotName) -> None:
        """Let the log begin after the snapshot, which is on disk. Raises StoreError."""
        head = head_in(self._stored_of(group))
        assert head.first_entry == snapshot.index + 1, "the snapshot came from another member"
        self._log_of(group).reset(head)
        self._has_chunks.add(group)
        super().reset(group, snapshot)

    def receive(
        self, group: int, snapshot: SnapshotName, index: int, term: int, kind: int, payload: bytes
    ) -> None:
        """The snapshot of a stream has no entries."""
        raise StoredStateError(f"a snapshot of the stream of group {group} came with entry {index}")

    def _add(
        self, state: GroupState, item: GroupWrite, payloads: list[bytes] | None = None
    ) -> None:
        creating = self._creating.get(state.group)
        if creating is not None:
            creating.items.append((state, item))
        else:
            super()._add(state, item)
        self._has_items.add(state.group)

    def when_synced(self, waiter: Waiter, number: int, group: int) -> None:
        """Call `waiter.confirm(number, None)` when all writes of a group so far are on disk."""
        queue = self._waits.setdefault(group, deque())
        wait = _Wait(waiter, number, queue)
        queue.append(wait)
        wait.parts = 1
        if group in self._has_items:
            self._has_items.discard(group)
            wait.parts += 1
            creating = self._creating.get(group)
            if creating is not None:
                creating.waits.append(wait)
            else:
                self._log.when_safe(wait, 0, None)
        if group in self._has_chunks:
            self._has_chunks.discard(group)
            wait.parts += 1
            self.streams.when_written(self.streams.streams[group], wait.written)
        wait.confirm(0, None)

    # Reading

    def is_in_memory(self, group: int, index: int) -> bool:
        """Whether an entry can be read without the disk."""
        return self._log_of(group).is_in_memory(index)

    def read(self, group: int, first: int, last: int, bytes_max: int) -> list[bytes]:
        """Payloads of consecutive entries from the first one on. Raises as `GroupLog.read`."""
        chunks = self._log_of(group).read(first, last, bytes_max)
        return [payload_of(chunk) if chunk[1] >= OF_GROUP else chunk for chunk in chunks]

    def _log_of(self, group: int) -> StreamLog:
        return self.streams.streams[group].log


def payload_of(chunk: bytes) -> bytes:
    """The payload of the entry that is in a chunk."""
    head = read_head(chunk)
    return chunk if head.kind < OF_GROUP else entries_of(chunk, head)


def head_in(stored: Callable[[], bytes]) -> SegmentHead:
    """The head in a state that is read now. Raises StoreError."""
    try:
        return decode_state(stored()).head
    except StoredStateError as error:
        raise StoreError(str(error)) from error


def damage_of(index: int, first: int, last: int, stored: Callable[[], bytes]) -> str:
    """Why a log cannot be used with the snapshot of its group; empty if it can.

    index: the last entry that the snapshot covers. first, last: the entries of the log. stored:
    reads the state in the snapshot.
    """
    if first > index + 1:
        return f"entries {index + 1} to {first - 1} are missing"
    try:
        if last < index and head_in(stored).first_entry != index + 1:
            return f"entries {last + 1} to {index} are missing"
    except StoreError as error:
        return str(error)
    return ""

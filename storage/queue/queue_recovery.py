"""The log's records of each queue, as a restart reads them.

A queue's last STATE, the messages published after it (RUN) and the positions that are gone since
(PROGRESS) add up to the queue as it was. Messages in segments stay there; the STATE counts them.
"""

from collections import deque
from collections.abc import Callable, Iterable

from leveret.storage.messages.checksum import crc32
from leveret.storage.messages.formats import (
    PROGRESS,
    STATE,
    UNCOUNTED,
    ProgressRecord,
    RunRecord,
    ScannedRecord,
    StateRecord,
    decode_progress,
    decode_run,
    decode_state,
)
from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.message import Entry, Message

NONE_DAMAGED: set[int] = set()
MakeMessages = Callable[[RunRecord, list[bytes]], list[Message]]


class FoundQueue:
    """The state of one queue by its records in the log.

    entries: published, and not known to be in segments. gone: positions of messages that are gone.
    fetched_to: messages below this position were delivered before. wants_count: the log does not
    have the bytes left in segments, so they must be counted.
    """

    __slots__ = (
        "entries", "fetched_to", "gone", "has_expiring", "segment_bytes", "state", "wants_count",
    )  # fmt: skip

    def __init__(self) -> None:
        self.state: StateRecord | None = None
        self.entries: deque[Entry] = deque()
        self.gone = Intervals()
        self.fetched_to = 0
        self.segment_bytes = 0
        self.has_expiring = False
        self.wants_count = False

    def set_state(self, state: StateRecord) -> None:
        """Replace the state of segments from earlier records."""
        self.state = state
        self.gone.update(state.gone)
        self.fetched_to = max(self.fetched_to, state.fetched_to)
        self.wants_count = state.segment_bytes == UNCOUNTED
        self.segment_bytes = 0 if self.wants_count else state.segment_bytes
        self.has_expiring |= state.has_expiring

    @property
    def flushed_to(self) -> int:
        """Messages below this position that are not gone are in segments."""
        return self.state.flushed_to if self.state is not None else 0

    def live_entries(self) -> list[Entry]:
        """The entries that are not gone and not in segments, in order, each once."""
        flushed_to, gone, fetched_to = self.flushed_to, self.gone, self.fetched_to
        live = {
            entry.position: entry
            for entry in self.entries
            if entry.position >= flushed_to and entry.position not in gone
        }
        entries = [live[position] for position in sorted(live)]
        for entry in entries:
            entry.redelivered = entry.position < fetched_to
        return entries

    def state_to_restore(self, key: int) -> StateRecord:
        """The state from which the queue's ledger continues."""
        state = self.state
        return StateRecord(
            key,
            self.flushed_to,
            self.fetched_to,
            max(0, self.segment_bytes),
            state.tail_number if state is not None else -1,
            state.tail_bytes if state is not None else 0,
            self.has_expiring,
            state.transient_segments if state is not None else [],
            self.gone,
        )


class QueueRecovery:
    """Reads the records of queues, in the order in which they were written.

    found: the state of each queue, by its key. messages: the number that was read.
    """

    def __init__(self, make_messages: MakeMessages) -> None:
        self._make_messages = make_messages
        self.found: dict[int, FoundQueue] = {}
        self.messages = 0

    def _queue(self, key: int) -> FoundQueue:
        found = self.found.get(key)
        if found is None:
            found = self.found[key] = FoundQueue()
        return found

    def take(self, record: ScannedRecord) -> int:
        """Apply a PROGRESS or STATE. Returns the key of its queue."""
        if record.kind == PROGRESS:
            return self._take_progress(decode_progress(record.head))
        assert record.kind == STATE, f"a client is handed its own records only, not {record.kind}"
        state = decode_state(record.head)
        self._queue(state.key).set_state(state)
        return state.key

    def _take_progress(self, progress: ProgressRecord) -> int:
        found = self._queue(progress.key)
        for start, end in progress.gone:
            found.gone.add_range(start, end)
        found.fetched_to = max(found.fetched_to, progress.fetched_to)
        found.segment_bytes -= progress.segment_bytes
        found.wants_count |= progress.segment_bytes == UNCOUNTED
        return progress.key

    def take_run(self, data: bytes, record: ScannedRecord) -> tuple[RunRecord, str | None]:
        """Apply a RUN, without the messages in it whose bodies are damaged.

        Returns the run, and a description of the damage.
        """
        run = decode_run(record.head)
        bodies, damaged = _bodies(data, record, run)
        messages = self._make_messages(run, bodies)
        self.messages += len(messages)
        for key, first in run.targets:
            found = self._queue(key)
            if run.expires_wall_ms:
                found.has_expiring = True
            if len(messages) == 1 and not damaged:
                found.entries.append(Entry(messages[0], first, False, run.expires_wall_ms))
            else:
                found.entries.extend(_entries(messages, first, run.expires_wall_ms, damaged))
        if not damaged:
            return run, None
        return run, (
            f"is damaged after offset {record.body_offset}: {len(damaged)} of {len(run.sizes)} "
            "messages are lost"
        )


def _entries(
    messages: list[Message], first: int, expires_wall_ms: int, damaged: set[int]
) -> Iterable[Entry]:
    return [
        Entry(message, position, False, expires_wall_ms)
        for position, message in enumerate(messages, first)
        if position - first not in damaged
    ]


def _bodies(data: bytes, record: ScannedRecord, run: RunRecord) -> tuple[list[bytes], set[int]]:
    """The bodies of a run, and the indexes of those that are damaged."""
    offset = record.body_offset
    if len(run.sizes) == 1:
        body = data[offset : offset + run.sizes[0]]
        return [body], {0} if crc32(body) != run.crcs[0] else NONE_DAMAGED
    bodies, damaged = [], set()
    for index, (size, crc) in enumerate(zip(run.sizes, run.crcs, strict=True)):
        body = data[offset : offset + size]
        if crc32(body) != crc:
            damaged.add(index)
        bodies.append(body)
        offset += size
    return bodies, damaged

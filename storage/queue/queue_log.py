"""The tiered queues as a client of the log: all queues of a node together are one client.

Published runs are gathered, and encoded when the log makes a batch or many runs wait. A message
that was routed to several queues is one record. A message that is gone before it is encoded is left
out. Acks and fetches are not recorded one by one: each batch has one PROGRESS for each queue that
has changed.

For each log file this client keeps the queues with records in the file, and the position after each
queue's last published message. To move on from a file, the messages left in it are written to the
queues' segments, the segments are synced, and a STATE of each queue is appended to the log. The
STATE replaces all records of the queue in the file.

Invariants:

QL1  A message is in the log before it is in a segment (tiered_queue.py, TQ3): so the log has lost
     a position that only a segment has.
QL2  A STATE counts only messages in synced segments.
QL3  A file is needed while it has records of a queue that exists and no later STATE replaces them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from mypy_extensions import mypyc_attr

from leveret.storage.log.encoded_runs import EncodedRuns, PendingRun, RecordedQueue
from leveret.storage.log.large_records import LogRecord
from leveret.storage.log.log import Log
from leveret.storage.log.log_files import LogFile
from leveret.storage.messages.formats import PROGRESS, RUN, STATE, ScannedRecord
from leveret.storage.messages.message import ENTRY_BYTES, Message
from leveret.storage.queue.queue_recovery import QueueRecovery

UNENCODED_MAX: Final = 4_000
"""Messages that wait to be encoded, and queues that they were routed to. While the disk is behind,
many more wait for the next batch: encoding all of them together would take 50 ms."""

PROGRESS_BYTES_MAX = 256 * 1024
"""After this many bytes of PROGRESS, 16 for each interval, the PROGRESS of other queues is left for
the next batch."""


class LoggedQueue(RecordedQueue, Protocol):
    """A queue as the log needs it."""

    def take_progress(self) -> bytes | None:
        """A PROGRESS record of the changes since the last call; None if there are none."""

    def encode_state(self) -> bytes | None:
        """A STATE record; None if the queue has no messages in segments."""


Queue = TypeVar("Queue", bound=LoggedQueue)


class MessageMover(Protocol[Queue]):
    """A writer of messages to segments: the pager (pager.py).

    queues: those that exist, by key. lock: held while a slice is planned and written.
    """

    queues: dict[int, Queue]
    lock: asyncio.Lock

    async def move_out(self, wanted: list[tuple[Queue, int]]) -> None:
        """Write each queue's messages below a position to segments."""


class FileContents:
    """The queues with records in one log file.

    published: for each queue, by its key, the position after its last message in the file.
    touched: the keys of all queues with records in the file.
    """

    __slots__ = ("published", "touched")

    def __init__(self) -> None:
        self.published: dict[int, int] = {}
        self.touched: set[int] = set()


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueLog(Generic[Queue]):
    """A `LogClient`.

    recovery: each queue's state as a restart found it. sync_segments: syncs all segments that
    were written to.
    """

    name: ClassVar[str] = "queues"
    kinds: ClassVar[frozenset[int]] = frozenset({RUN, PROGRESS, STATE})
    removing_kinds: ClassVar[frozenset[int]] = frozenset({PROGRESS, STATE})

    def __init__(
        self,
        log: Log,
        mover: MessageMover[Queue],
        sync_segments: Callable[[], Awaitable[None]],
        recovery: QueueRecovery,
    ) -> None:
        self._log = log
        self._mover = mover
        self._sync_segments = sync_segments
        self.recovery = recovery
        self._runs: list[PendingRun] = []
        self._unencoded = 0
        self._encoded = EncodedRuns()
        self._dirty: list[LoggedQueue] = []
        self._states: list[tuple[int, bytes]] = []
        self._contents: dict[int, FileContents] = {}

    # Appending

    def append_run(
        self,
        queue: LoggedQueue,
        position: int,
        messages: list[Message],
        body_bytes: int,
        expires_wall_ms: int,
        times: list[int] | None = None,
    ) -> None:
        """Append messages published to a queue. All queues that they were routed to share the list.
        body_bytes: the sum of their bodies' sizes. expires_wall_ms: when the first one expires.
        times: when each does, on the broker's clock, if that differs; those with the same
        properties expire at the same time.

        Each queue has entries of its own, which count as pending; a body counts once. If the
        messages have numbers, these are consecutive.
        """
        runs = self._runs
        run = runs[-1] if runs else None
        pending_bytes = ENTRY_BYTES * len(messages)
        if (
            run is None
            or run.messages is not messages
            or run.expires_wall_ms != expires_wall_ms
            or times is not None
            or len(run.targets) >= UNENCODED_MAX
        ):
            if self._unencoded >= UNENCODED_MAX:
                self._encode_runs()
                runs = self._runs
            run = PendingRun(messages, body_bytes, expires_wall_ms, times)
            runs.append(run)
            self._unencoded += len(messages) - 1
            pending_bytes += body_bytes
        run.targets.append((queue, position))
        self._unencoded += 1
        self._log.write_later(pending_bytes)

    def _encode_runs(self) -> None:
        runs, self._runs, self._unencoded = self._runs, [], 0
        for run in runs:
            self._encoded.add(run)

    def note_dirty(self, queue: LoggedQueue) -> None:
        """Note a queue that will have progress to record."""
        self._dirty.append(queue)
        self._log.write_later()

    def take_records(self, file: LogFile, offset: int) -> list[LogRecord]:
        """RUN records, then STATE, then PROGRESS (recovery.py, RV5)."""
        if not (self._dirty or self._runs or self._states or self._encoded.pieces):
            return []
        dirty, self._dirty = self._dirty, []
        states, self._states = self._states, []
        contents = self._contents_of(file)
        touched = contents.touched
        progress = []
        progress_bytes = 0
        # Progress is taken first: messages that are gone by now are not written.
        for place, queue in enumerate(dirty):
            if progress_bytes > PROGRESS_BYTES_MAX:
                # A client may settle very many messages of many queues, in any order.
                self._dirty += dirty[place:]
                self._log.write_later()
                break
            record = queue.take_progress()
            if record is not None:
                touched.add(queue.key)
                progress.append(record)
                progress_bytes += len(record)
        self._encode_runs()
        encoded, self._encoded = self._encoded, EncodedRuns()
        contents.published.update(encoded.published)
        touched.update(encoded.published)
        file.messages += encoded.messages
        file.records += encoded.records
        touched.update(key for key, _ in states)
        return encoded.pieces + [record for _, record in states] + progress

    def _contents_of(self, file: LogFile) -> FileContents:
        contents = self._contents.get(file.number)
        if contents is None:
            contents = self._contents[file.number] = FileContents()
        return contents

    # Restarting

    def recover(self, file: LogFile, data: bytes, record: ScannedRecord) -> str | None:
        """Apply a queue's record. Returns a description of damage in it, or None."""
        contents = self._contents_of(file)
        if record.kind == RUN:
            return self._recover_run(file, contents, data, record)
        contents.touched.add(self.recovery.take(record))
        return None

    def _recover_run(
        self, file: LogFile, contents: FileContents, data: bytes, record: ScannedRecord
    ) -> str | None:
        run, problem = self.recovery.take_run(data, record)
        count = len(run.sizes)
        file.messages += count
        file.records += 1
        for key, first in run.targets:
            contents.touched.add(key)
            contents.published[key] = max(contents.published.get(key, 0), first + count)
        return problem

    # Moving on from a file

    def oldest_needed(self) -> int | None:
        """The oldest file with records of an existing queue (QL3)."""
        queues = self._mover.queues
        for number in sorted(self._contents):
            if not queues.keys().isdisjoint(self._contents[number].touched):
                return number
        return None

    async def move_on(self, file: LogFile) -> None:
        """Write the messages left in the file to segments, and a STATE of each queue to the log."""
        mover, queues = self._mover, self._mover.queues
        contents = self._contents[file.number]
        wanted = [(queues[key], end) for key, end in contents.published.items() if key in queues]
        await mover.move_out(wanted)
        await self._sync_segments()
        async with mover.lock:
            # Segments may have been written while this waited.
            await self._sync_segments()
            self._append_states([queues[key] for key in contents.touched if key in queues])
        for number in [number for number in self._contents if number <= file.number]:
            del self._contents[number]

    def _append_states(self, queues: Sequence[LoggedQueue]) -> None:
        for queue in queues:
            record = queue.encode_state()
            if record is not None:
                self._states.append((queue.key, record))
        if self._states:
            self._log.write_later()

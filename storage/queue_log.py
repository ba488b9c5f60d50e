"""The tiered queues as a client of the log: all queues of a node together are one client.

Published runs are gathered, and encoded together when the log makes a batch. A message that was
routed to several queues is one record. A message that is gone before its batch is encoded is left
out. Acks and fetches are not recorded one by one: each batch has one PROGRESS for each queue that
has changed.

For each log file this client keeps the queues with records in the file, and the position after the
last message published to each. To move on from a file, the messages left in it are written to the
queues' segments, the segments are synced, and a STATE of each queue is appended to the log. The
STATE replaces all records of the queue in the file.

Invariants:

Q1  A message is in the log before it is in a segment (tiered_queue.py, TQ3): so a position that
    only a segment has is one that the log has lost.
Q2  A STATE counts only messages in synced segments.
Q3  A file is needed while it has records of a queue that exists and no later STATE replaces them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from leveret.storage.formats import (
    PERSISTENT,
    PROGRESS,
    RUN,
    STATE,
    Record,
    encode_run,
    run_bytes,
)
from leveret.storage.large_records import LARGE_BODIES_BYTES, LargeRecord, LogRecord
from leveret.storage.log import Log
from leveret.storage.log_files import LogFile
from leveret.storage.message import ENTRY_BYTES, Message
from leveret.storage.queue_recovery import QueueRecovery


class LoggedQueue(Protocol):
    """What the log needs of a queue."""

    key: int

    def are_gone(self, start: int, end: int) -> bool:
        """All messages at the positions from `start` up to, not including, `end` are gone."""

    def take_progress(self) -> bytes | None:
        """A PROGRESS record of the changes since the last call; None if there are none."""

    def encode_state(self) -> bytes | None:
        """A STATE record; None if the queue has no messages in segments."""


Queue = TypeVar("Queue", bound=LoggedQueue)


class Mover(Protocol[Queue]):
    """What writes messages to segments: the pager (pager.py).

    queues: those that exist, by key. lock: held while a slice is planned and written.
    """

    queues: dict[int, Queue]
    lock: asyncio.Lock

    async def move_out(self, wanted: list[tuple[Queue, int]]) -> None:
        """Write each queue's messages below a position to segments."""


class PendingRun:
    """Messages that wait to be written. Only persistent messages do."""

    __slots__ = ("body_bytes", "expires_wall_ms", "messages", "targets")

    def __init__(self, messages: list[Message], body_bytes: int, expires_wall_ms: int) -> None:
        self.messages = messages
        self.body_bytes = body_bytes
        self.expires_wall_ms = expires_wall_ms
        self.targets: list[tuple[LoggedQueue, int]] = []


class FileContents:
    """The queues with records in one log file.

    published: for each queue, by its key, the position after its last message in the file.
    touched: the keys of all queues with records in the file.
    """

    __slots__ = ("published", "touched")

    def __init__(self) -> None:
        self.published: dict[int, int] = {}
        self.touched: set[int] = set()


class QueueLog(Generic[Queue]):
    """A `LogClient`.

    recovery: what a restart found of each queue. sync_segments: syncs all segments that were
    written to.
    """

    name = "queues"
    kinds = frozenset({RUN, PROGRESS, STATE})
    removing_kinds = frozenset({PROGRESS, STATE})

    def __init__(
        self,
        log: Log,
        mover: Mover[Queue],
        sync_segments: Callable[[], Awaitable[None]],
        recovery: QueueRecovery,
    ) -> None:
        self._log = log
        self._mover = mover
        self._sync_segments = sync_segments
        self.recovery = recovery
        self._runs: list[PendingRun] = []
        self._dirty: list[LoggedQueue] = []
        self._states: list[tuple[int, bytes]] = []
        self._contents: dict[int, FileContents] = {}

    # Appending

    def append_run(
        self, queue: LoggedQueue, position: int, messages: list[Message], expires_wall_ms: int
    ) -> None:
        """Messages were published to a queue. All queues that they were routed to share the list.

        If the messages have numbers, these are consecutive.
        """
        runs = self._runs
        run = runs[-1] if runs else None
        pending_bytes = 0
        if run is None or run.messages is not messages or run.expires_wall_ms != expires_wall_ms:
            body_bytes = sum([len(message.body) for message in messages])
            run = PendingRun(messages, body_bytes, expires_wall_ms)
            runs.append(run)
            pending_bytes = body_bytes + ENTRY_BYTES * len(messages)
        run.targets.append((queue, position))
        self._log.write_later(pending_bytes)

    def note_dirty(self, queue: LoggedQueue) -> None:
        """The queue will have progress to record."""
        self._dirty.append(queue)
        self._log.write_later()

    def take_records(self, file: LogFile, offset: int) -> list[LogRecord]:
        """RUN records, then STATE, then PROGRESS (recovery.py, R5)."""
        if not (self._dirty or self._runs or self._states):
            return []
        dirty, self._dirty = self._dirty, []
        runs, self._runs = self._runs, []
        states, self._states = self._states, []
        contents = self._contents_of(file)
        touched = contents.touched
        progress = []
        # Progress is taken first: messages that are gone by now are not written.
        for queue in dirty:
            record = queue.take_progress()
            if record is not None:
                touched.add(queue.key)
                progress.append(record)
        pieces: list[LogRecord] = []
        for run in runs:
            self._encode_run(file, contents, run, pieces)
        for key, record in states:
            touched.add(key)
            pieces.append(record)
        return pieces + progress

    def _contents_of(self, file: LogFile) -> FileContents:
        contents = self._contents.get(file.number)
        if contents is None:
            contents = self._contents[file.number] = FileContents()
        return contents

    @staticmethod
    def _encode_run(
        file: LogFile, contents: FileContents, run: PendingRun, pieces: list[LogRecord]
    ) -> None:
        messages = run.messages
        count = len(messages)
        targets = []
        for queue, position in run.targets:
            if not queue.are_gone(position, position + count):
                targets.append((queue.key, position))
                contents.published[queue.key] = position + count
                contents.touched.add(queue.key)
        if not targets:
            return
        is_large = run.body_bytes >= LARGE_BODIES_BYTES
        start = 0
        while start < count:
            end = _equal_to(messages, start)
            at = [(key, first + start) for key, first in targets] if start else targets
            _encode_equal(messages[start:end], at, run.expires_wall_ms, is_large, pieces)
            file.records += 1
            start = end
        file.messages += count

    # Restarting

    def recover(self, file: LogFile, data: bytes, record: Record) -> str | None:
        """See `LogClient`."""
        contents = self._contents_of(file)
        if record.kind == RUN:
            return self._recover_run(file, contents, data, record)
        contents.touched.add(self.recovery.take(record))
        return None

    def _recover_run(
        self, file: LogFile, contents: FileContents, data: bytes, record: Record
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
        """The oldest file with records of a queue that exists; see Q3."""
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
            # Segments may have been written meanwhile.
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


def _equal_to(messages: list[Message], start: int) -> int:
    """The end of the messages that have the same properties as the one at `start`: one record."""
    header, count = messages[start].header, len(messages)
    for end in range(start + 1, count):
        if messages[end].header is not header:
            return end
    return count


def _encode_equal(
    messages: list[Message],
    targets: list[tuple[int, int]],
    expires_wall_ms: int,
    is_large: bool,
    pieces: list[LogRecord],
) -> None:
    """Append the RUN record of messages with the same properties. is_large: see LargeRecord."""
    first = messages[0]
    bodies = [message.body for message in messages]
    address, header, number = first.address.encoded, first.header.stored, first.number
    if not is_large:
        pieces.append(
            encode_run(expires_wall_ms, PERSISTENT, targets, address, header, bodies, number)
        )
        pieces += bodies
        return
    size = run_bytes(len(targets), len(bodies), len(address) + len(header), number)
    encode = partial(
        encode_run, expires_wall_ms, PERSISTENT, targets, address, header, bodies, number
    )
    pieces.append(LargeRecord(size + sum(map(len, bodies)), encode, bodies))

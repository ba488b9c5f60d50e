"""The write-ahead log of a node, and group commit.

What queues publish, and what becomes of it, is appended as records and written in one go: while
one batch is on its way to the disk the next one gathers. The log has one batch in flight at most,
so what a record says is durable before what a later one says, and one sync serves all queues.

A publisher that waits is called back after the sync of the batch its message is in. If there is one
the batch goes at once; what nobody waits for is written within `IDLE_SECONDS`. A message that is
gone before its batch is written is left out.

The log is a row of files. When one is full the next is begun; the store (store.py) moves what is
still needed of the oldest file to its queues' segments, and then removes it.

When the disk is full the batch is kept, nobody is confirmed, and it is tried again until there is
room. When a sync fails nothing can be known about what was written since the last one (the system
may have dropped it, and a second sync would not say so), so the log stops for good: nothing in that
batch is ever confirmed.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Protocol

from storage.backing_queue import Waiter
from storage.disk import Disk, DiskFull
from storage.formats import (
    CLOSED,
    FILE_HEADER_BYTES,
    LOG_MAGIC,
    PERSISTENT,
    encode_file_header,
    encode_record,
    encode_run,
)
from storage.message import Message
from storage.worker import Worker

FILE_BYTES_MAX = 32 * 1024 * 1024
"""A full file is read again at a restart, and its messages are moved if nobody has taken them."""
FILE_MESSAGES_MAX, FILE_RUNS_MAX = 250_000, 80_000
"""Small messages: what a restart reads of one file in a quarter of a second."""
RESERVED_BYTES = 2 * 1024 * 1024
"""Room in the file that is asked for ahead."""
IDLE_SECONDS = 0.02
"""What nobody waits for is written this late: it may be gone by then, and need not be written."""
PENDING_BYTES_HIGH = 8 * 1024 * 1024
PENDING_BYTES_LOW = 4 * 1024 * 1024
"""Publishers are held back while more than this waits for the disk."""
QUICK_SYNC_SECONDS = 0.0004
QUICK_BYTES = 32 * 1024
"""While syncs are as quick as that, small batches are written without a thread: to wake one and be
woken by it takes as long as the sync (one confirm at a time: 140 us instead of 230)."""
SYNC_WEIGHT = 0.2
"""How much the last sync counts for what the next one is expected to take."""
RETRY_SECONDS = 0.5
"""A full disk is tried again this often."""

logger = logging.getLogger("leveret.store")


class LoggedQueue(Protocol):
    """What the log needs of a queue that writes to it."""

    key: int

    def are_gone(self, start: int, end: int) -> bool:
        """All messages at these positions are gone."""

    def take_progress(self) -> bytes | None:
        """A record of what became of its messages since the last call; None if it is nothing."""


class PendingRun:
    """Messages that wait to be written. Only made for persistent ones."""

    __slots__ = ("expires_wall_ms", "messages", "targets")

    def __init__(self, messages: list[Message], expires_wall_ms: int) -> None:
        self.messages = messages
        self.expires_wall_ms = expires_wall_ms
        self.targets: list[tuple[LoggedQueue, int]] = []


class LogFile:
    """One file of the log.

    published: for each queue, by its key, where what was published in this file ends.
    touched: the keys of queues that this file says anything about.
    """

    __slots__ = (
        "descriptor", "messages", "number", "path", "published", "reserved_to", "runs", "size",
        "touched",
    )  # fmt: skip

    def __init__(self, number: int, path: Path, size: int = 0) -> None:
        self.number = number
        self.path = path
        self.size = size
        self.messages = self.runs = 0
        self.descriptor = -1
        self.reserved_to = 0
        self.published: dict[int, int] = {}
        self.touched: set[int] = set()


def log_path(directory: Path, number: int) -> Path:
    """The file of a log with this number."""
    return directory / f"{number:010d}.log"


class Log:
    """The log of one node. All its methods are for the event loop's thread.

    files: those that are still needed, the oldest first; the last one is written to.
    file_filled: called when a file is full and the next one is begun.
    failure: why nothing is written any more; None while something may be.
    batch: the number of the batch that is gathering. written: of the last one that is on disk.
    call_soon: how to be called at the end of a round of work.
    """

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        worker: Worker,
        loop: asyncio.AbstractEventLoop,
        sync_metadata: Callable[[], None],
        file_bytes_max: int = FILE_BYTES_MAX,
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._worker = worker
        self._loop = loop
        self._sync_metadata = sync_metadata
        self._file_bytes_max = file_bytes_max
        self.files: list[LogFile] = []
        self.dirty: list[LoggedQueue] = []
        self.batch, self.written = 1, 0
        self.pending_bytes = 0
        self.is_congested = False
        self.failure: Exception | None = None
        self.call_soon: Callable[[Callable[[], None]], object] = loop.call_soon
        self.file_filled: Callable[[], object] = lambda: None
        self.congestion_changed: Callable[[], object] = lambda: None
        self.disk_filled: Callable[[bool], object] = lambda is_full: None
        self.failed: Callable[[Exception], object] = lambda error: None
        self._runs: list[PendingRun] = []
        self._extra: list[tuple[int, bytes]] = []
        self._waiters: list[tuple[Waiter, int]] = []
        self._callbacks: list[Callable[[], object]] = []
        self._is_writing = False
        self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_disk_full = False
        self._sync_seconds = 1.0

    def begin(self, files: list[LogFile], number: int) -> None:
        """Begin a new file, after those that a restart found. Raises StoreError."""
        self.files = files
        file = self._new_file(number)
        self._create(file)
        self.files.append(file)

    # Appending

    def append_run(
        self, queue: LoggedQueue, position: int, messages: list[Message], expires_wall_ms: int
    ) -> None:
        """Messages were published to a queue. The list is shared by the queues they went to.

        If they have numbers, these follow each other.
        """
        runs = self._runs
        run = runs[-1] if runs else None
        if run is None or run.messages is not messages or run.expires_wall_ms != expires_wall_ms:
            run = PendingRun(messages, expires_wall_ms)
            runs.append(run)
            size = sum([len(message.body) for message in messages])
            self.pending_bytes += size
            if self.pending_bytes > PENDING_BYTES_HIGH and not self.is_congested:
                self._set_congested(True)
        run.targets.append((queue, position))
        self._write_later()

    def append_record(self, key: int, record: bytes) -> None:
        """Append a record about a queue that is encoded already."""
        self._extra.append((key, record))
        self._write_later()

    def note_dirty(self, queue: LoggedQueue) -> None:
        """The queue will have progress to record."""
        self.dirty.append(queue)
        self._write_later()

    def when_safe(self, waiter: Waiter, sequence: int) -> None:
        """Call the waiter when what has been appended until now is on disk."""
        self._waiters.append((waiter, sequence))
        self._write_soon()

    def after_sync(self, callback: Callable[[], object]) -> None:
        """Call back when what has been appended until now is on disk, without hurrying."""
        self._callbacks.append(callback)
        self._write_later()

    async def sync(self) -> None:
        """Wait until what has been appended until now is on disk. Raises if the log failed."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._callbacks.append(lambda: None if future.done() else future.set_result(None))
        self._write_soon()
        while not future.done():
            if self.failure is not None:
                raise self.failure
            await asyncio.wait([future], timeout=RETRY_SECONDS)

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be written."""
        return not (
            self._is_writing or self._runs or self._extra or self.dirty or self._waiters
            or self._callbacks
        )  # fmt: skip

    # Writing

    def _write_later(self) -> None:
        if self._timer is None and not self._is_scheduled and not self._is_writing:
            self._timer = self._loop.call_later(IDLE_SECONDS, self._commit)

    def _write_soon(self) -> None:
        """Write at the end of this round of work, unless a batch is in flight."""
        if not self._is_scheduled and not self._is_writing:
            self._is_scheduled = True
            self.call_soon(self._commit)

    def _commit(self) -> None:
        """Hand what has gathered to the worker."""
        self._is_scheduled = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_writing or self.failure is not None or self.is_idle:
            return
        self._is_writing = True
        file, new_file = self._file_to_write()
        batch_bytes, self.pending_bytes = self.pending_bytes, 0
        data = b"".join(self._encode(file))
        waiters, self._waiters = self._waiters, []
        callbacks, self._callbacks = self._callbacks, []
        batch = _Batch(file, new_file, data, self.batch, waiters, callbacks)
        self.pending_bytes += batch_bytes
        batch.pending_bytes = batch_bytes
        self.batch += 1
        self._submit(batch)

    def _file_to_write(self) -> tuple[LogFile, bool]:
        file = self.files[-1]
        if (
            file.size < self._file_bytes_max
            and file.messages < FILE_MESSAGES_MAX
            and file.runs < FILE_RUNS_MAX
        ):
            return file, False
        file = self._new_file(file.number + 1)
        self.files.append(file)
        return file, True

    def _new_file(self, number: int) -> LogFile:
        return LogFile(number, log_path(self._directory, number), FILE_HEADER_BYTES)

    def _encode(self, file: LogFile) -> list[bytes]:
        """Everything that has gathered, as records."""
        dirty, self.dirty = self.dirty, []
        runs, self._runs = self._runs, []
        extra, self._extra = self._extra, []
        touched = file.touched
        progress = []
        for queue in dirty:
            record = queue.take_progress()
            if record is not None:
                touched.add(queue.key)
                progress.append(record)
        parts: list[bytes] = []
        for run in runs:
            self._encode_run(file, run, parts)
        for key, record in extra:
            touched.add(key)
            parts.append(record)
        return parts + progress

    @staticmethod
    def _encode_run(file: LogFile, run: PendingRun, parts: list[bytes]) -> None:
        messages = run.messages
        count = len(messages)
        targets = []
        for queue, position in run.targets:
            if not queue.are_gone(position, position + count):
                targets.append((queue.key, position))
                file.published[queue.key] = position + count
                file.touched.add(queue.key)
        if not targets:
            return
        first = messages[0]
        bodies = [message.body for message in messages]
        encoded, header = first.address.encoded, first.header.raw
        parts.append(
            encode_run(
                run.expires_wall_ms, PERSISTENT, targets, encoded, header, bodies, first.number
            )
        )
        parts += bodies
        file.messages += count
        file.runs += 1

    def _submit(self, batch: "_Batch") -> None:
        if self._sync_seconds < QUICK_SYNC_SECONDS and len(batch.data) < QUICK_BYTES:
            self._write_now(batch)
            return
        self._worker.submit(
            lambda: self._write(batch), lambda _, error: self._written(batch, error)
        )

    def _write_now(self, batch: "_Batch") -> None:
        """On a quick disk a small batch is on disk before a thread would have begun with it."""
        try:
            self._write(batch)
        except Exception as error:
            self._written(batch, error)
        else:
            self._written(batch, None)

    # In the worker's thread, mostly

    def _write(self, batch: "_Batch") -> None:
        file = batch.file
        if file.descriptor < 0:
            self._create(file)
        if batch.data:
            end = file.size + len(batch.data)
            if end > file.reserved_to:
                self._disk.reserve(file.descriptor, file.size, len(batch.data) + RESERVED_BYTES)
                file.reserved_to = end + RESERVED_BYTES
            self._disk.write(file.descriptor, file.path, batch.data, file.size)
            self._disk.passed("log.written")
        self._sync_metadata()
        started_at = perf_counter()
        try:
            self._disk.sync(file.descriptor, file.path)
        except DiskFull as error:
            # Not to be tried again, unlike a write.
            raise SyncFailed(str(error)) from error
        elapsed = perf_counter() - started_at
        self._sync_seconds += (elapsed - self._sync_seconds) * SYNC_WEIGHT
        self._disk.passed("log.synced")

    def _create(self, file: LogFile) -> None:
        oldest = self.files[0].number if self.files else file.number
        descriptor = self._disk.create(file.path)
        before = [other.size for other in self.files if other.number == file.number - 1]
        header = encode_file_header(LOG_MAGIC, file.number, oldest, sum(before))
        self._disk.write(descriptor, file.path, header, 0)
        self._disk.sync_directory(self._directory)
        self._disk.passed("log.created")
        file.descriptor = descriptor

    # Back in the loop

    def _written(self, batch: "_Batch", error: Exception | None) -> None:
        if isinstance(error, DiskFull):
            self._retry_later(batch, error)
            return
        if error is not None:
            self._fail(error)
            return
        if self._is_disk_full:
            self._is_disk_full = False
            logger.warning("there is room on the disk again: %s is written", batch.file.path)
            self.disk_filled(False)
        batch.file.size += len(batch.data)
        self.pending_bytes -= batch.pending_bytes
        self._is_writing = False
        self.written = batch.number
        for waiter, sequence in batch.waiters:
            waiter.confirm(sequence)
        for callback in batch.callbacks:
            callback()
        if self.is_congested and self.pending_bytes < PENDING_BYTES_LOW:
            self._set_congested(False)
        if batch.is_first:
            self.file_filled()
        if self._waiters:
            self._write_soon()
        elif not self.is_idle:
            self._write_later()

    def _retry_later(self, batch: "_Batch", error: Exception) -> None:
        if not self._is_disk_full:
            self._is_disk_full = True
            logger.critical("%s; publishers are held back until there is room", error)
            self.disk_filled(True)
        self._loop.call_later(RETRY_SECONDS, self._submit, batch)

    def _fail(self, error: Exception) -> None:
        """What was written may or may not be on disk, and will never be known to be."""
        logger.critical("%s; nothing that was not confirmed yet will be, and the node stops", error)
        self.failure = error
        self.failed(error)

    def _set_congested(self, is_congested: bool) -> None:
        self.is_congested = is_congested
        self.congestion_changed()

    # Ending

    async def close(self) -> None:
        """Write what is left, and say at the end of the log that nothing is missing."""
        while not self.is_idle and self.failure is None and not self._is_disk_full:
            await self.sync()
        if self.failure is None and not self._is_disk_full:
            self.append_record(0, encode_record(CLOSED, b""))
            await self.sync()
        if self._timer is not None:
            self._timer.cancel()
        self.let_go()

    def let_go(self) -> None:
        """Close the files, and write no more."""
        self.failure = self.failure or RuntimeError("the log is closed")
        for file in self.files:
            if file.descriptor >= 0:
                self._disk.close(file.descriptor)
                file.descriptor = -1

    def remove(self, file: LogFile) -> None:
        """Remove a file that was forgotten. For a worker's thread."""
        if file.descriptor >= 0:
            self._disk.close(file.descriptor)
        self._disk.remove(file.path)
        self._disk.passed("log.removed")

    def forget_oldest(self) -> LogFile:
        """The oldest file is not needed any more; the caller removes it."""
        return self.files.pop(0)


class SyncFailed(Exception):
    """A sync failed; it must not be tried again."""


class _Batch:
    """What is written at once."""

    __slots__ = ("callbacks", "data", "file", "is_first", "number", "pending_bytes", "waiters")

    def __init__(
        self,
        file: LogFile,
        is_first: bool,
        data: bytes,
        number: int,
        waiters: list[tuple[Waiter, int]],
        callbacks: list[Callable[[], object]],
    ) -> None:
        self.file = file
        self.is_first = is_first
        self.data = data
        self.number = number
        self.waiters = waiters
        self.callbacks = callbacks
        self.pending_bytes = 0

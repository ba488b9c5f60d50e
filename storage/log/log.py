"""The write-ahead log of a node, and group commit.

Promise: when `when_safe`, `after_sync` or `sync` reports, everything appended before that call is
on disk, and survives `kill -9` and a power cut. A restart returns the records of one client in
the order in which they were appended.

Not promised: that records without a waiter are written at once (it may take `IDLE_SECONDS`), or
that records appended and not reported are lost in a crash (some or all may be on disk).

Mechanism: clients (log_client.py) gather records. The log encodes what all clients have gathered as
one batch, and a worker's thread writes and syncs it while the next batch gathers. So one sync
serves all clients and all publishers that wait. The loop itself never waits for the disk, even
if the disk was fast lately: a few syncs take a thousand times as long as most. If there is a
waiter, the next batch starts at the end of this turn of the event loop, or when the batch in flight
has ended. Otherwise it starts within `IDLE_SECONDS`.

A full disk: the same batch is retried until there is room; nothing is confirmed until then. A
failed sync: the system may have dropped the data written since the last sync, and a second sync
would not report it. So the log stops, and nothing in that batch is ever confirmed.

Invariants:

LG1  At most one batch is in flight. Batch n + 1 is encoded after the sync of batch n has returned.
LG2  A waiter or callback is called only after the sync of a batch that contains, or follows,
     everything appended before it was registered. An error in one is logged; the rest are called.
LG3  The size of a file counts synced bytes only, and a batch starts at its file's size.
LG4  After a failed sync no batch is written and no waiter or callback is called.
LG5  A file is removed only after the sync of an OLDEST record that excludes it, which is appended
     after the sync of all replacements of the file's records that its clients wrote. A torn batch
     therefore never has the OLDEST without the replacement. (retirement.py)
LG6  A batch with records begins with an OLDEST. By LG1 everything before it in the file is synced,
     so a restart knows which bytes may be torn (torn_end.py).
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from mypy_extensions import mypyc_attr

from leveret.storage.contract.backing_queue import Waiter
from leveret.storage.disk.callbacks import call, call_each
from leveret.storage.disk.disk import Disk, DiskFull
from leveret.storage.disk.worker import Worker
from leveret.storage.log.large_records import LogRecord, joined, pieces_of
from leveret.storage.log.log_client import LogClient
from leveret.storage.log.log_files import LogFile, LogFiles
from leveret.storage.messages.formats import CLOSED, encode_oldest, encode_record

IDLE_SECONDS: Final = 0.02
"""Records without a waiter are written after this time, without messages that are gone by then."""
PENDING_BYTES_HIGH: Final = 8 * 1024 * 1024
PENDING_BYTES_LOW: Final = 4 * 1024 * 1024
"""Publishers are held back while messages that are not on disk yet take more memory than this."""
CONFIRMED_AT_ONCE: Final = 8_000
"""Waiters that are called in one turn of the event loop: two milliseconds. One message to very many
queues has a waiter for each."""
RETRY_SECONDS = 0.5
"""The interval at which a write to a full disk is tried again."""

logger = logging.getLogger("leveret.store")


@mypyc_attr(allow_interpreted_subclasses=True)
class Log:
    """The log of one node. All methods are for the event loop's thread.

    clients: the registered ones. failure: the reason why the log has stopped; None while it works.
    batch: the number of the batch that is gathering; written: that of the last batch on disk.
    pending_bytes: the memory of messages that are not on disk yet. is_congested: publishers
    should be held back.

    congestion_changed: called when `is_congested` changes. disk_filled: called with True when the
    disk is full, with False when there is room again. file_filled: called when a new file was
    started. failed: called with the error when the log stops. call_soon: schedules a call for the
    end of the current turn of the event loop.
    """

    def __init__(
        self,
        files: LogFiles,
        disk: Disk,
        worker: Worker,
        loop: asyncio.AbstractEventLoop,
        sync_metadata: Callable[[], None],
    ) -> None:
        self._files = files
        self._disk = disk
        self._worker = worker
        self._loop = loop
        self._sync_metadata = sync_metadata
        self.clients: list[LogClient] = []
        self.batch, self.written = 1, 0
        self.pending_bytes = 0
        self.is_congested = False
        self.failure: Exception | None = None
        self.call_soon: Callable[[Callable[[], None]], object] = loop.call_soon
        self.file_filled: Callable[[], object] = lambda: None
        self.congestion_changed: Callable[[], object] = lambda: None
        self.disk_filled: Callable[[bool], object] = lambda is_full: None
        self.failed: Callable[[Exception], object] = lambda error: None
        self._own_records: list[bytes] = []
        self._waiters: list[tuple[Waiter, int, object]] = []
        self._callbacks: list[Callable[[], object]] = []
        self._has_records = False
        self._is_writing = False
        self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_disk_full = False

    def register(self, client: LogClient) -> None:
        """Add a client, before the log is read.

        Raises ValueError if another client has its name or one of its kinds.
        """
        for other in self.clients:
            if other.name == client.name or other.kinds & client.kinds:
                raise ValueError(
                    f"the log client {client.name} has the name or a record kind of {other.name}; "
                    "choose others"
                )
        self.clients.append(client)

    # Appending

    def write_later(self, pending_bytes: int = 0) -> None:
        """Have the records that a client has gathered written within `IDLE_SECONDS`.

        pending_bytes: the memory of their messages, which counts until they are on disk.
        """
        self._has_records = True
        if pending_bytes:
            self.pending_bytes += pending_bytes
            if self.pending_bytes > PENDING_BYTES_HIGH and not self.is_congested:
                self._set_congested(True)
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and not self._is_scheduled and not self._is_writing:
            self._timer = self._loop.call_later(IDLE_SECONDS, self._commit)

    def when_safe(self, waiter: Waiter, first: int, holder: object) -> None:
        """Confirm to the waiter when everything appended so far is on disk."""
        self._waiters.append((waiter, first, holder))
        self._write_soon()

    def after_sync(self, callback: Callable[[], object]) -> None:
        """Call back when everything appended so far is on disk, without starting a batch early."""
        self._callbacks.append(callback)
        self._schedule()

    async def sync(self) -> None:
        """Wait until everything appended so far is on disk. Raises if the log failed."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._callbacks.append(lambda: None if future.done() else future.set_result(None))
        self._write_soon()
        while not future.done():
            if self.failure is not None:
                raise self.failure
            await asyncio.wait([future], timeout=RETRY_SECONDS)

    def append_oldest(self, number: int) -> None:
        """Record that no file before this one is needed. Their replacements must be on disk."""
        self._files.oldest_needed = number
        self.write_later()

    @property
    def is_idle(self) -> bool:
        """Whether no record waits to be written."""
        return not (
            self._is_writing or self._has_records or self._waiters or self._callbacks
        )  # fmt: skip

    # Writing

    def _write_soon(self) -> None:
        """Write at the end of this turn of the event loop, unless a batch is in flight."""
        if not self._is_scheduled and not self._is_writing:
            self._is_scheduled = True
            self.call_soon(self._commit)

    def _commit(self) -> None:
        """Give all gathered records to the worker as one batch."""
        self._is_scheduled = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_writing or self.failure is not None or self.is_idle:
            return
        self._is_writing = True
        file, is_new_file = self._files.to_write()
        pending_bytes = self.pending_bytes
        try:
            records = joined(self._take_records(file))
        except Exception as error:
            # Records that were taken are lost: later records must not be confirmed.
            self._fail(error)
            return
        # Encoding may register callbacks; they wait for records of this batch.
        waiters, self._waiters = self._waiters, []
        callbacks, self._callbacks = self._callbacks, []
        batch = _Batch(self.batch, file, is_new_file, records, pending_bytes, waiters, callbacks)
        self.batch += 1
        self._submit(batch)

    def _take_records(self, file: LogFile) -> list[LogRecord]:
        """OLDEST (LG6), the records of all clients, then those of the log itself; or nothing."""
        has_records, self._has_records = self._has_records or bool(self._own_records), False
        pieces: list[LogRecord] = [encode_oldest(self._files.oldest_needed)]
        offset = file.size + len(pieces[0])
        for client in self.clients:
            records = client.take_records(file, offset)
            offset += sum(map(len, records))
            pieces += records
        pieces += self._own_records
        self._own_records = []
        return pieces if has_records or len(pieces) > 1 else []

    def _submit(self, batch: "_Batch") -> None:
        if self.failure is not None:
            # The log was closed while the disk was full: its files are closed, too.
            return
        self._worker.submit(
            lambda: self._write(batch), lambda _, error: self._written(batch, error)
        )

    # In the worker's thread

    def _write(self, batch: "_Batch") -> None:
        if self.failure is not None:
            # The log and its files were closed before this job ran.
            raise self.failure
        file = batch.file
        assert file.size == batch.offset, "LG3: a batch starts where the synced bytes end"
        self._files.write(file, pieces_of(batch.records), batch.size)
        self._sync_metadata()
        try:
            self._disk.sync(file.descriptor, file.path)
        except DiskFull as error:
            # A write to a full disk is retried, a sync is not.
            raise SyncFailed(str(error)) from error
        self._disk.passed("log.synced")

    # Back in the loop

    def _written(self, batch: "_Batch", error: Exception | None) -> None:
        if isinstance(error, DiskFull):
            self._retry_later(batch, error)
            return
        if error is not None:
            if self.failure is None:
                self._fail(error)
            return
        if self._is_disk_full:
            self._is_disk_full = False
            logger.warning("the disk has room again: %s is written", batch.file.path)
            call(partial(self.disk_filled, False))
        assert batch.number == self.written + 1, "LG1: batches end in the order they were begun"
        batch.file.size += batch.size
        self.pending_bytes -= batch.pending_bytes
        self.written = batch.number
        self._confirm(batch)

    def _confirm(self, batch: "_Batch") -> None:
        """Call the waiters of a batch, some in each turn of the event loop, then continue."""
        start = batch.confirmed
        end = batch.confirmed = start + CONFIRMED_AT_ONCE
        for waiter, first, holder in batch.waiters[start:end]:
            try:
                waiter.confirm(first, holder)
            except Exception:
                # As in `call`, without a function call for each confirm.
                logger.exception("%r failed when its messages were confirmed", waiter)
        if end < len(batch.waiters):
            self.call_soon(partial(self._confirm, batch))
            return
        self._is_writing = False
        call_each(batch.callbacks)
        if self.is_congested and self.pending_bytes < PENDING_BYTES_LOW:
            self._set_congested(False)
        if batch.is_new_file:
            call(self.file_filled)
        if self._waiters:
            self._write_soon()
        elif not self.is_idle:
            self._schedule()

    def _retry_later(self, batch: "_Batch", error: Exception) -> None:
        if not self._is_disk_full:
            self._is_disk_full = True
            logger.critical("%s; publishers are held back until there is room", error)
            call(partial(self.disk_filled, True))
            # Without a delay: another program may take the space that was given up for this.
            self._submit(batch)
            return
        self._loop.call_later(RETRY_SECONDS, self._submit, batch)

    def _fail(self, error: Exception) -> None:
        """Stop: the bytes of the batch on disk, or its records, are unknown."""
        what = str(error) or type(error).__name__
        logger.critical("%s; unconfirmed messages stay unconfirmed, and the node stops", what)
        self.failure = error
        self.failed(error)

    def _set_congested(self, is_congested: bool) -> None:
        self.is_congested = is_congested
        call(self.congestion_changed)

    # Ending

    async def close(self) -> None:
        """Write the records that wait, and record that the log is complete."""
        if not self._files.files:
            # The log was not begun, because reading it failed.
            self.let_go()
        while not self.is_idle and self.failure is None and not self._is_disk_full:
            await self.sync()
        if self.failure is None and not self._is_disk_full:
            self._own_records.append(encode_record(CLOSED, b""))
            await self.sync()
        if self._timer is not None:
            self._timer.cancel()
        self.let_go()

    def let_go(self) -> None:
        """Close the files without writing the records that wait."""
        self.failure = self.failure or RuntimeError("the log is closed")
        self._files.close()


class SyncFailed(Exception):
    """A sync failed; it must not be tried again."""


class _Batch:
    """Records that are written and synced together. offset, size: in the file, in bytes.

    confirmed: the number of waiters that were called.
    """

    __slots__ = (
        "callbacks", "confirmed", "file", "is_new_file", "number", "offset", "pending_bytes",
        "records", "size", "waiters",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        file: LogFile,
        is_new_file: bool,
        records: list[LogRecord],
        pending_bytes: int,
        waiters: list[tuple[Waiter, int, object]],
        callbacks: list[Callable[[], object]],
    ) -> None:
        self.number = number
        self.file = file
        self.offset = file.size
        self.is_new_file = is_new_file
        self.records = records
        self.size = sum(map(len, records))
        self.pending_bytes = pending_bytes
        self.waiters = waiters
        self.confirmed = 0
        self.callbacks = callbacks

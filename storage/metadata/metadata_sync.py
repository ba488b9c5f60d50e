"""Group sync of the metadata: callers that wait until their declarations are on disk share a sync.

Promise: `when_synced` calls back when everything committed before that call is on disk, in the
order of the calls, in the event loop. The loop never waits for the disk here.

Mechanism: a thread syncs. A sync starts at the end of this round of turns, so that it serves all
declarations of the round; callers that come while it runs wait for the next one. The thread starts
with the first waiting caller.

A failed sync: the system may have dropped the data written since the last one, and a second sync
would not report it. So all waiting and later callers get the error, and the node stops.

The same thread moves SQLite's log into the database file after CHECKPOINT_CHANGES changes, so that
the log does not grow without limit.

Invariants:

Y1  At most one sync is in flight, and a callback is registered before its sync begins.
Y2  After a failed sync no other sync is begun, and no callback reports success.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from leveret.storage.disk.callbacks import call_each
from leveret.storage.disk.worker import Worker
from leveret.storage.metadata.metadata import Metadata

CHECKPOINT_CHANGES = 2000
"""Each change takes up to 20 KB of SQLite's log."""

Callback = Callable[[Exception | None], object]
"""Called with the error if the sync failed, else with None."""

logger = logging.getLogger("leveret.store")


class MetadataSync:
    """The callbacks that wait for a sync of the metadata of one node.

    call_soon: schedules a call for the end of the current round. failed: called with the error when
    a sync has failed; the node must stop. passed: called after each sync, in the thread: tests
    kill the process there (`leveret.storage.disk.disk.POINTS`).
    """

    def __init__(self, metadata: Metadata, loop: asyncio.AbstractEventLoop) -> None:
        self.call_soon: Callable[[Callable[[], None]], object] = loop.call_soon
        self.failed: Callable[[Exception], object] = lambda error: None
        self.passed: Callable[[str], object] = lambda point: None
        self._metadata = metadata
        self._loop = loop
        self._worker: Worker | None = None
        self._callbacks: list[Callback] = []
        self._is_syncing = False
        self._failure: Exception | None = None
        self._moved_changes = metadata.changes

    @property
    def is_synced(self) -> bool:
        """Whether everything that was committed is on disk."""
        return self._metadata.changes == self._metadata.synced_changes

    def when_synced(self, callback: Callback) -> None:
        """Call back when everything that was committed so far is on disk."""
        self._callbacks.append(callback)
        self._sync_soon()

    def _sync_soon(self) -> None:
        if not self._is_syncing:
            self._is_syncing = True
            self.call_soon(self._sync)

    def _sync(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        if self._failure is not None:
            self._synced(callbacks, self._failure)
            return
        self._thread().submit(self._sync_now, lambda _, error: self._synced(callbacks, error))

    def _thread(self) -> Worker:
        if self._worker is None:
            self._worker = Worker(self._loop, "leveret-metadata")
        return self._worker

    def _sync_now(self) -> None:
        self._metadata.sync()
        self.passed("metadata.synced")

    def _synced(self, callbacks: list[Callback], error: Exception | None) -> None:
        assert self._is_syncing, "Y1: one sync at a time"
        self._is_syncing = False
        if error is not None and self._failure is None:
            self._failure = error
            logger.critical("%s; declarations are not answered, and the node stops", error)
            self.failed(error)
        call_each(partial(callback, error) for callback in callbacks)
        if self._metadata.changes - self._moved_changes >= CHECKPOINT_CHANGES:
            self.checkpoint()
        if self._callbacks:
            self._sync_soon()

    def checkpoint(self, done: Callable[[], object] = lambda: None) -> None:
        """Move SQLite's log into the database file soon, in the thread.

        done: called when the checkpoint has ended, also if it failed.
        """
        self._moved_changes = self._metadata.changes
        if self._failure is not None:
            done()
            return

        def ended(_: object, error: Exception | None) -> None:
            _report(error)
            done()

        self._thread().submit(self._metadata.checkpoint, ended)

    async def close(self) -> None:
        """Sync for all waiting callbacks, and end the thread."""
        if self._worker is None:
            return
        done = self._loop.create_future()
        self.when_synced(lambda _: None if done.done() else done.set_result(None))
        await done
        self._worker.stop()
        self._worker = None


def _report(error: Exception | None) -> None:
    """Log the error. Nothing is lost: the next checkpoint moves the rest of SQLite's log."""
    if error is not None:
        logger.error("failed to move SQLite's log of the metadata into its file: %s", error)
